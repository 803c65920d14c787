"""Policies asked: the rules by the planner, and the programs that judge by being run.

A program that crashes, does not end in time or gives no valid answer has not judged, which is a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo

from executors.clock import Clock, rfc3339
from executors.command import Command, Completed
from executors.transport import OutcomeLost, TransportError
from manifests.diagnostics import Diagnostic
from manifests.errors import FleetctlError
from planner.freeze import Moment
from planner.plan import Plan, PlannedPolicy, encode
from planner.policy import Question, finding, judge
from planner.policy_answer import answered, failed

Run = Callable[[Command, Mapping[str, str]], Completed]
"""Runs a program with these variables beside its environment; raises TransportError or OutcomeLost."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges plans now. `zone` gives a time zone by name and raises FleetctlError."""

    clock: Clock
    run: Run
    zone: Callable[[str], tzinfo]

    def __call__(
        self, plan: Plan, command: str = "apply", *, approved: bool | None = None
    ) -> tuple[Diagnostic, ...]:
        """What the plan's policies find about it. `approved` None: it is only looked at."""
        if not plan.policies:
            return ()
        found: list[Diagnostic] = []
        zones: dict[str, tzinfo] = {}
        told = []
        for planned in plan.policies:
            freeze = planned.document.rules.freeze
            try:
                if freeze is not None:
                    zones[freeze.time_zone] = self.zone(freeze.time_zone)
                told.append(planned)
            except FleetctlError as e:
                found.append(finding(planned, "freeze", "A time zone is not known", e.message, e.hint))
        at = self.clock.now()
        found += judge(plan, told, Question(Moment(at, zones), command, approved))
        # What is refused already, or does nothing, needs no judge.
        if not plan.refused and not plan.empty:
            facts = {"FLEETCTL_COMMAND": command, "FLEETCTL_NOW": rfc3339(at)}
            for planned in plan.policies:
                found += self._asked(plan, planned, facts)
        return tuple(found)

    def _asked(self, plan: Plan, planned: PlannedPolicy, facts: Mapping[str, str]) -> tuple[Diagnostic, ...]:
        program = planned.document.rules.program
        if program is None:
            return ()
        command = Command(program.command, stdin=encode(plan), timeout_s=program.timeout / 1000)
        try:
            done = self.run(command, {**facts, "FLEETCTL_POLICY": planned.document.name})
        except TransportError as e:
            return (failed(planned, f"{e.message}."),)
        except OutcomeLost as e:
            return (failed(planned, f"{e.message}.", e.stderr),)
        return answered(planned, done.status, done.stdout, done.stderr)
