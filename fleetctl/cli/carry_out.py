"""Carrying a plan out under the eyes of whoever called: progress while it runs, and the truth at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fleetctl import bootstrap
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.terminal import clean
from fleetctl.cli.views import events, failures, progress
from fleetctl.cli.views.event_log import EventLog
from fleetctl.cli.views.scene import Scene
from fleetctl.cli.views.watching import Watching
from fleetctl.settings import Settings
from manifests.errors import ExitCode, FleetctlError

if TYPE_CHECKING:
    from fleetctl.engine.apply import Engine, Result
    from planner.plan import Plan

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
    terminal, clock = invocation.terminal, invocation.clock
    store = bootstrap.open_store(settings, clock, read_only=False)
    reach = bootstrap.access(settings, clock)
    try:
        with _events(invocation, plan) as log:
            live = progress.wanted(invocation.environ, terminal)
            scene = Scene(plan, clock) if live else None
            with progress.shown(terminal, clock, live=live, scene=scene) as board:
                watching = Watching(board, several=len(plan.fleets) > 1, scene=scene, log=log)
                result = work(bootstrap.engine(settings, clock, store, watching, reach))
            if log is not None:
                log.put(events.finished(int(result.exit_code), result.summary))
        return tell(invocation, plan, result, watching)
    finally:
        reach.close()
        store.close()


@contextmanager
def _events(invocation: Invocation, plan: Plan) -> Iterator[EventLog | None]:
    """The file of `--events`, if it was asked for; the last event in it says how the command ended."""
    if invocation.events is None:
        yield None
        return
    log = EventLog(invocation.events, invocation.clock, invocation.events_count)
    try:
        log.put(events.started(plan))
        yield log
    except FleetctlError as e:
        log.put(events.finished(int(e.exit_code), e.message))
        raise
    finally:
        trouble = log.close()
        invocation.events_count = log.count
        if trouble:
            invocation.terminal.say(f"{invocation.terminal.err_paint('yellow bold', 'Warning:')} {trouble}")


def tell(invocation: Invocation, plan: Plan, result: Result, watching: Watching) -> int:
    """Prints how it ended: success to stdout, anything else as an error, with what explains it and what to do next."""
    terminal = invocation.terminal
    if result.exit_code is ExitCode.OK:
        terminal.data(terminal.out_paint("green bold", f"Done: {clean(result.summary)}."))
        return ExitCode.OK
    explained = failures.render(plan, watching.failures, watching.evidence, terminal.err_paint)
    if explained:
        terminal.say(explained)
    terminal.say(f"{terminal.err_paint('red bold', 'Error:')} {clean(result.summary)}")
    hint = _HINTS.get(result.exit_code)
    if hint:
        terminal.say(f"{terminal.err_paint('cyan', 'Hint:')} {hint}")
    return result.exit_code


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
