"""Everything that is run on a host, as values made by pure functions; tests compare whole lines.

A script goes to `sh -s` through standard input: nothing of it, and no secret, is ever in an argument
list. It does its work in functions and calls `main` in its last line, so one that is cut off does nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from executors.command import UNBOUNDED_S, Command
from executors.driver import Operation
from executors.host.layout import Layout
from executors.host.placed import PlacedFile
from executors.host.shell import assign, env_entries, octal, quote
from executors.host.supervisor import Supervisor, script
from executors.host.supervisors import fragments
from manifests.digest import canonical_json, digest_of
from manifests.secret import Secret
from planner.plan import StepKind
from planner.spec import config_digest

SHELL = ("sh", "-s")
# A start is judged a moment after the program runs: enough to see one that cannot even be executed, short
# enough not to matter in a rollout. What fails later is seen by the probes.
SETTLE_S = 0.03
OBSERVE_TIMEOUT_S = 60.0
LOOKUP_TIMEOUT_S = 30.0
LOG_LINES_MAX = 2000
# The exit status for a node that has no folder on the host; nothing that shells or programs use.
NO_NODE = 222


def effect(
    layout: Layout,
    operation: Operation,
    supervisor: Supervisor,
    secrets: Mapping[str, Secret],
    files: tuple[PlacedFile, ...],
) -> Command:
    """The guarded script that performs one effect and records it."""
    places = operation.effect in (StepKind.CREATE, StepKind.RELOAD)
    place = _place(layout, operation, supervisor, secrets, files) if places else "place() { :; }\n"
    return _guarded(layout, operation, supervisor, "effect", place, operation.deadline_s)


def lookup(layout: Layout, operation: Operation, supervisor: Supervisor) -> Command:
    """The guarded script that finds out what became of an operation."""
    return _guarded(layout, operation, supervisor, "lookup", "place() { :; }\n", LOOKUP_TIMEOUT_S)


def observe(layout: Layout) -> Command:
    """Everything about all nodes of the host."""
    text = f"{assign('root', layout.root)}\n{script('observe.sh')}main\n"
    return Command(SHELL, text.encode(), timeout_s=OBSERVE_TIMEOUT_S)


def logs(layout: Layout, uid: str, lines: int) -> Command:
    """The last lines of a node's output: of its own log across the last turn, or of the journal."""
    count = max(1, min(lines, LOG_LINES_MAX))
    text = (
        f"cd {quote(layout.node(uid))} 2>/dev/null || exit 0\n"
        "if grep -q '^supervisor=systemd$' record 2>/dev/null; then\n"
        f"  journalctl -u fleetctl-{uid}.service -n {count} -o cat --no-pager 2>/dev/null\n"
        "else\n"
        f"  cat log/1 log/current 2>/dev/null | tail -n {count}\n"
        "fi\n"
    )
    return Command(SHELL, text.encode(), timeout_s=10.0)


def follow(layout: Layout, uid: str, lines: int) -> Command:
    """The last lines, then what comes; it ends with its input, so that nothing is left on the host."""
    count = max(1, min(lines, LOG_LINES_MAX))
    text = (
        f"cd {quote(layout.node(uid))} 2>/dev/null || exit {NO_NODE}\n"
        "if grep -q '^supervisor=systemd$' record 2>/dev/null; then\n"
        f"  journalctl -u fleetctl-{uid}.service -n {count} -f -o cat --no-pager </dev/null &\n"
        "else\n"
        # What a turn of the log has put aside is shown before; tail itself goes with the name.
        f"  kept=$(cat log/current 2>/dev/null | wc -l)\n"
        f'  [ "$kept" -ge {count} ] || cat log/1 2>/dev/null | tail -n "$(({count} - kept))"\n'
        f"  tail -n {count} -F log/current </dev/null 2>/dev/null &\n"
        "fi\n"
        "child=$!\n"
        "cat >/dev/null\n"
        'kill "$child" 2>/dev/null\n'
    )
    return Command(("sh", "-c", text), timeout_s=UNBOUNDED_S, open_input=True)


def execute(layout: Layout, uid: str, argv: Sequence[str], timeout_s: float) -> Command:
    """A command in the node's folder and with its environment. The end of its input, which comes when nobody waits
    for it any more, ends it.
    """
    words = " ".join(quote(word) for word in argv)
    text = (
        f"cd {quote(layout.node(uid))} 2>/dev/null || exit {NO_NODE}\n"
        "if [ -r ./env ]; then set -a; . ./env; set +a; fi\n"
        "exec 3<&0\n"
        f"{words} </dev/null 3<&- &\n"
        "child=$!\n"
        '{ cat <&3; kill "$child"; } >/dev/null 2>&1 &\n'
        "watcher=$!\n"
        'wait "$child"\n'
        "code=$?\n"
        'kill "$watcher" 2>/dev/null\n'
        'exit "$code"\n'
    )
    return Command(("sh", "-c", text), timeout_s=timeout_s, open_input=True)


def alive(layout: Layout, uid: str, instance: str) -> Command:
    """Whether this very start of the node still lives; exit status, and the last lines if it does not."""
    head = "\n".join([assign("root", layout.root), assign("uid", uid), assign("wanted", instance)])
    text = f"{head}\n{script('alive.sh')}main\n"
    return Command(SHELL, text.encode(), timeout_s=10.0)


def probe(layout: Layout, uid: str, argv: tuple[str, ...], timeout_s: float) -> Command:
    """A probe's command, in the node's folder and with its environment, ended on the host at its timeout."""
    words = " ".join(quote(word) for word in argv)
    text = (
        f"cd {quote(layout.node(uid))} || exit 126\n"
        "if [ -r ./env ]; then set -a; . ./env; set +a; fi\n"
        f"if command -v timeout >/dev/null 2>&1; then exec timeout {max(1, round(timeout_s))} {words}; fi\n"
        f"exec {words}\n"
    )
    return Command(("sh", "-c", text), timeout_s=timeout_s)


def request_digest(operation: Operation) -> str:
    """What is asked for, as a pin: the same operation id with another request is refused."""
    return digest_of(
        {
            "effect": operation.effect.value,
            "uid": operation.uid,
            "generation": operation.generation,
            "lineage": operation.lineage,
            "spec": operation.spec.model_dump(mode="json"),
            "fields": dict(operation.fields),
            "retain_data": operation.retain_data,
        }
    )


def _guarded(
    layout: Layout, operation: Operation, supervisor: Supervisor, action: str, place: str, timeout_s: float
) -> Command:
    parts = [
        *_assignments(layout, operation, supervisor),
        assign("lock_cs", max(1, round(timeout_s * 100))),
        script("guarded.sh"),
        fragments(),
        place,
        f"main {action}\n",
    ]
    return Command(
        SHELL, "\n".join(parts).encode(), timeout_s=timeout_s, secret_input=True, guarded=action == "effect"
    )


def _assignments(layout: Layout, operation: Operation, supervisor: Supervisor) -> list[str]:
    spec, pre = operation.spec, operation.precondition
    reloads = operation.effect is StepKind.RELOAD
    values: dict[str, str | int] = {
        "root": layout.root,
        "uid": operation.uid,
        "fleet": operation.fleet,
        "node": operation.node,
        "lineage": operation.lineage,
        "epoch": operation.epoch,
        "generation": operation.generation,
        "operation": operation.operation_id,
        "attempt": operation.attempt,
        "effect": operation.effect.value,
        "request": request_digest(operation),
        "version": spec.version,
        "digest": spec.artifact.digest,
        "config": config_digest(operation.fields),
        "artifact": layout.artifact(spec.artifact.digest, spec.artifact.name),
        "supervisor": supervisor.name,
        "signal": spec.reload_signal if reloads else spec.drain.signal,
        "drain_cs": spec.drain.timeout // 10,
        "settle_s": f"{SETTLE_S:g}",
        "retain_data": int(operation.retain_data),
        "data_path": spec.data.path if spec.data is not None else "",
        "pre": "" if pre is None else "absent" if pre.generation is None else "record",
        "pre_generation": "" if pre is None or pre.generation is None else pre.generation,
        "pre_version": "" if pre is None or pre.release is None else pre.release.version,
        "pre_digest": "" if pre is None or pre.release is None else pre.release.digest,
        "pre_config": "" if pre is None or pre.config_digest is None else pre.config_digest,
    }
    return [assign(name, value) for name, value in values.items()]


def _place(
    layout: Layout,
    operation: Operation,
    supervisor: Supervisor,
    secrets: Mapping[str, Secret],
    files: tuple[PlacedFile, ...],
) -> str:
    """The function that writes everything of this generation: whole files, on disk before they are seen."""
    entries = env_entries(operation, secrets)
    spec = operation.spec
    placement = supervisor.placement(layout, operation)
    files = (*files, *placement.files)
    own = {
        "env": "".join(f"{line}\n" for line, _ in entries.values()),
        **placement.own,
        "spec.json": canonical_json(spec.model_dump(mode="json")).decode() + "\n",
        "fields.json": canonical_json(dict(operation.fields)).decode() + "\n",
    }
    node = layout.node(operation.uid)
    summed = {f"{node}/{name}": text.encode() for name, text in own.items() if not name.endswith(".json")}
    summed |= {file.path: file.data for file in files}
    own["sums"] = "".join(f"{hashlib.sha256(data).hexdigest()}  {path}\n" for path, data in summed.items())
    own["placed"] = "".join(
        f"env\t{name}\t{_kind(secret)}\t{hashlib.sha256(line.encode()).hexdigest()}\n"
        for name, (line, secret) in entries.items()
    ) + "".join(f"file\t{f.key}\t{f.mode}\t{_kind(f.secret)}\t{f.path}\n" for f in files)
    lines = ["place() {", "place_begin || return 1"]
    if spec.data is not None:
        lines.append(f"place_data {quote(spec.data.path)} {quote(spec.user or '')} || return 1")
    lines += [f"place_own {name} {quote(text)} || return 1" for name, text in own.items()]
    for file in files:
        as_text = b"\0" not in file.data and _is_text(file.data)
        place, body = ("place_text", file.data.decode()) if as_text else ("place_bytes", octal(file.data))
        owner = "" if file in placement.files else spec.user or ""
        lines.append(f"{place} {quote(file.path)} {file.mode} {quote(owner)} {quote(body)} || return 1")
    return "\n".join([*lines, "place_end", "}\n"])


def _kind(secret: bool) -> str:
    return "secret" if secret else "plain"


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
