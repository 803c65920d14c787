"""QEMU's guest agent: a command run inside the guest, for probes."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from executors.clock import Clock
from executors.driver import DriverError, ProbeResult
from executors.transport import OutcomeLost
from planner.observed import HealthState

POLL_S = 0.1
SHOWN = 120
# An agent that says nothing for so long is not there.
ANSWER_S = 10.0


def check(domain: Any, command: tuple[str, ...], timeout_s: float, clock: Clock, libvirt: Any) -> ProbeResult:
    """Runs a probe's command in the guest. An agent that does not answer is a failing probe."""
    deadline = clock.monotonic() + timeout_s
    try:
        started = _ask(
            domain,
            "guest-exec",
            {"path": command[0], "arg": list(command[1:]), "capture-output": True},
            timeout_s,
        )
        while True:
            left = deadline - clock.monotonic()
            if left <= 0:
                return ProbeResult(HealthState.FAILING, f"no exit status within {timeout_s:g} s")
            status = _ask(domain, "guest-exec-status", {"pid": started["pid"]}, left)
            if status.get("exited"):
                return _result(status)
            clock.sleep(POLL_S)
    except libvirt.libvirtError as e:
        return ProbeResult(HealthState.FAILING, f"the guest's agent: {e}")
    except (ValueError, KeyError, TypeError) as e:
        return ProbeResult(HealthState.FAILING, f"the guest's agent gave no answer that can be read: {e!r}")


def execute(
    domain: Any, argv: Sequence[str], timeout_s: float, clock: Clock, libvirt: Any
) -> tuple[int, bytes, bytes]:
    """Runs a command in the guest: its exit status, output and errors, which the agent gives when it has ended.

    Raises DriverError without an agent that answers, and OutcomeLost past the timeout.
    """
    deadline = clock.monotonic() + timeout_s
    request = {"path": argv[0], "arg": list(argv[1:]), "capture-output": True}
    try:
        started = _ask(domain, "guest-exec", request, ANSWER_S)
    except (libvirt.libvirtError, ValueError, KeyError, TypeError) as e:
        raise DriverError(
            f"the guest's agent did not take the command: {e}",
            hint="commands run in a virtual machine through qemu-guest-agent: it has to run in the guest, and "
            "domain.agent to be true",
            code="libvirt.no_agent",
        ) from e
    try:
        while True:
            status = _ask(domain, "guest-exec-status", {"pid": started["pid"]}, ANSWER_S)
            if status.get("exited"):
                code = status.get("exitcode")
                out, err = (base64.b64decode(status.get(name) or "") for name in ("out-data", "err-data"))
                return int(code if code is not None else 128 + int(status.get("signal", 0))), out, err
            if clock.monotonic() >= deadline:
                raise OutcomeLost(f"{argv[0]} did not end in the guest within {timeout_s:g} s")
            clock.sleep(POLL_S)
    except (libvirt.libvirtError, ValueError, KeyError, TypeError) as e:
        raise OutcomeLost(f"the guest's agent did not say how {argv[0]} ended: {e}") from e


def _ask(domain: Any, command: str, arguments: dict[str, object], timeout_s: float) -> dict[str, Any]:
    import libvirt_qemu

    request = json.dumps({"execute": command, "arguments": arguments})
    answer = libvirt_qemu.qemuAgentCommand(domain, request, max(1, round(timeout_s)), 0)
    return dict(json.loads(answer)["return"])


def _result(status: dict[str, Any]) -> ProbeResult:
    code = status.get("exitcode")
    output = b"".join(base64.b64decode(status.get(name) or "") for name in ("out-data", "err-data"))
    words = " ".join(output.decode("utf-8", "replace").split())[:SHOWN]
    how = f"exit status {code}" if code is not None else f"ended by signal {status.get('signal')}"
    state = HealthState.PASSING if code == 0 else HealthState.FAILING
    return ProbeResult(state, how + (f": {words}" if words else ""))
