"""QEMU's guest agent: a command run inside the guest, for probes."""

from __future__ import annotations

import base64
import json
from typing import Any

from executors.clock import Clock
from executors.driver import ProbeResult
from planner.observed import HealthState

POLL_S = 0.1
SHOWN = 120


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
