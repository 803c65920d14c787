"""Carrying a plan out under the eyes of whoever called: progress while it runs, and the truth at its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from fleetctl import bootstrap
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.terminal import clean
from fleetctl.cli.views import progress
from fleetctl.cli.views.watching import Watching
from fleetctl.settings import Settings
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from executors.registry import Access
    from fleetctl.engine.apply import Engine, Result
    from planner.plan import FleetPlan, Plan

# Enough to see why a program ended; the rest is in its log.
LOG_LINES = 15
# More failed nodes than this fail for the same reason.
LOGS_MAX = 3

_HINTS = {
    ExitCode.FAILED: "every outcome is known; see where it stands with: fleetctl plan",
    ExitCode.UNKNOWN: "look up what is open and continue with: fleetctl recover",
    ExitCode.STALE: "make a new plan: fleetctl plan",
    ExitCode.INTERRUPTED: "every outcome is known; see where it stands with: fleetctl plan",
    ExitCode.TERMINATED: "every outcome is known; see where it stands with: fleetctl plan",
    ExitCode.LOCKED: "another run has taken over: fleetctl runs",
}


def carry_out(
    invocation: Invocation,
    settings: Settings,
    plan: Plan,
    work: Callable[[Engine], Result],
) -> int:
    """Does `work` with an engine while showing progress; prints how it ended and gives the exit code."""
    terminal = invocation.terminal
    store = bootstrap.open_store(settings, invocation.clock, read_only=False)
    reach = bootstrap.access(settings, invocation.clock)
    try:
        live = terminal.interactive and terminal.err.isatty()
        with progress.shown(terminal, invocation.clock, live=live) as board:
            watching = Watching(board, several=len(plan.fleets) > 1)
            result = work(bootstrap.engine(settings, invocation.clock, store, watching, reach))
        return tell(invocation, plan, result, watching.failed, reach)
    finally:
        reach.close()
        store.close()


def tell(
    invocation: Invocation, plan: Plan, result: Result, failed: Mapping[tuple[str, str], str], reach: Access
) -> int:
    """Prints how it ended: success to stdout, anything else as an error with its hint and the failed nodes' logs."""
    terminal = invocation.terminal
    if result.exit_code is ExitCode.OK:
        terminal.data(terminal.out_paint("green bold", f"Done: {clean(result.summary)}."))
        return ExitCode.OK
    told: set[str] = set()
    for fleet in plan.fleets:
        nodes = [node for (name, node) in failed if name == fleet.fleet][:LOGS_MAX]
        for node in nodes:
            _tell_log(invocation, fleet, node, told, reach)
    terminal.say(f"{terminal.err_paint('red bold', 'Error:')} {clean(result.summary)}")
    hint = _HINTS.get(result.exit_code)
    if hint:
        terminal.say(f"{terminal.err_paint('cyan', 'Hint:')} {hint}")
    return result.exit_code


def _tell_log(invocation: Invocation, fleet: FleetPlan, node: str, told: set[str], reach: Access) -> None:
    """The end of a failed node's output, each line marked as what the node said; the same words once."""
    uid = next((c.uid for c in fleet.changes if c.node == node), None)
    spec = fleet.specs.get(node)
    if uid is None or spec is None:
        return
    text = _log(fleet, node, uid, reach)
    if not text.strip() or text in told:
        return
    told.add(text)
    terminal = invocation.terminal
    terminal.say(f"The last lines of node/{fleet.fleet}/{node}'s own output:")
    for line in clean(text).splitlines()[-LOG_LINES:]:
        terminal.say(terminal.err_paint("dim", f"  {node} | {line}"))


def _log(fleet: FleetPlan, node: str, uid: str, reach: Access) -> str:
    spec = fleet.specs[node]
    (place,) = bootstrap.places(fleet.hosts, [(spec.host, spec.substrate)], reach)
    try:
        reader = place.open()
        try:
            return reader.logs(uid, LOG_LINES)
        finally:
            reader.close()
    except (FleetctlError, OSError):
        return ""  # the failure itself was told; a log that cannot be had adds nothing to it


def fetch_artifacts(invocation: Invocation, settings: Settings, plan: Plan) -> None:
    """Brings every artifact that the plan stages here and verifies it, before anything is touched.

    Raises ArtifactError.
    """
    from executors import artifacts
    from planner.plan import StepKind

    pins = {}
    for fleet in plan.fleets:
        for step in fleet.steps:
            spec = fleet.specs.get(step.spec or "")
            if step.kind is StepKind.STAGE and spec is not None and spec.substrate != "docker":
                pins.update({pin.digest: pin for pin in spec.pins})
    for pin in pins.values():
        if "://" in pin.source:
            invocation.terminal.say(f"Fetching {pin.source}")
        artifacts.fetch(pin, settings.cache, clock=invocation.clock)


def check_files(plan: Plan) -> None:
    """Every file that nodes are given from here is still the one that the plan pins, before anything is touched.

    Raises StaleError.
    """
    import hashlib
    from pathlib import Path

    from manifests.errors import StaleError
    from planner.plan import StepKind

    wanted = {
        (file.source, file.digest)
        for fleet in plan.fleets
        for step in fleet.steps
        if step.kind in (StepKind.CREATE, StepKind.RELOAD) and step.spec in fleet.specs
        for file in fleet.specs[step.spec].files
        if file.source is not None and file.digest is not None
    }
    for source, digest in sorted(wanted):
        try:
            with Path(source).open("rb") as opened:
                found = "sha256:" + hashlib.file_digest(opened, "sha256").hexdigest()
        except OSError as error:
            raise StaleError(
                f"the file {source} cannot be read: {error.strerror}",
                hint=f"put back the one with the digest {digest}",
                code="file.missing",
            ) from error
        if found != digest:
            raise StaleError(
                f"the file {source} is {found}, and the plan places {digest}",
                hint="put back that file, or make a new plan",
                code="file.digest_mismatch",
            )
