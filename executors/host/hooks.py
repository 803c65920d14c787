"""Hooks by a script that records begin and exit: on this machine or, over a transport, on a node's host."""

from __future__ import annotations

from math import ceil

from executors.command import Command
from executors.hooks import HookCall
from executors.host import parse
from executors.host.commands import LOOKUP_TIMEOUT_S, SHELL
from executors.host.layout import Layout
from executors.host.shell import assign, quote
from executors.host.supervisor import script
from executors.outcome import Outcome, failed, unknown
from executors.transport import OutcomeLost, Transport, TransportError

# Beyond the hook's own timeout: five seconds until SIGKILL, and the record.
SLACK_S = 8.0


class RecordedHooks:
    """Hooks over a transport; their records lie below the root of `layout`."""

    def __init__(self, transport: Transport, layout: Layout) -> None:
        self._transport = transport
        self._layout = layout

    def perform(self, call: HookCall) -> Outcome:
        """See `executors.hooks.Hooks.perform`."""
        try:
            done = self._transport.run(command(self._layout, call, "perform"))
        except TransportError as e:
            return failed(e.code, e.message, performed=0)
        except OutcomeLost as e:
            said = parse.result(e.stdout)
            return said if said.final else unknown(e.code, e.message)
        return parse.result(done.stdout)

    def lookup(self, call: HookCall) -> Outcome:
        """See `executors.hooks.Hooks.lookup`."""
        try:
            done = self._transport.run(command(self._layout, call, "lookup"))
        except (TransportError, OutcomeLost) as e:
            return unknown(e.code, e.message)
        return parse.result(done.stdout)


def command(layout: Layout, call: HookCall, action: str) -> Command:
    """The script that runs a hook, or finds out what became of it."""
    performs = action == "perform"
    values: dict[str, str | int] = {
        "root": layout.root,
        "operation": call.operation_id,
        "uid": call.uid,
        "epoch": call.epoch,
        "folder": layout.node(call.uid) if call.where == "host" else "",
        "limit_s": max(1, ceil(call.timeout_s)),
        "limit_cs": int(call.timeout_s * 100),
    }
    own = ["if [ -r ./env ]; then set -a; . ./env; set +a; fi"] if call.as_node else []
    exports = [f"export {assign(name, value)}" for name, value in sorted(call.env.items())]
    parts = [
        *(assign(name, value) for name, value in values.items()),
        script("hook.sh"),
        "\n".join(["program() {", *own, *exports, f"bounded {' '.join(map(quote, call.argv))}", "}"]),
        f"main {action}\n",
    ]
    timeout_s = call.timeout_s + SLACK_S if performs else LOOKUP_TIMEOUT_S
    return Command(SHELL, "\n".join(parts).encode(), timeout_s=timeout_s, guarded=performs)
