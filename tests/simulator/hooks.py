"""Hooks of a made-up world: run at most once per operation, and subject to the same faults as effects."""

from __future__ import annotations

from dataclasses import dataclass, field

from executors.hooks import HookCall
from executors.outcome import Outcome, failed, rejected, succeeded, unknown
from executors.transport import OutcomeLost, TransportError
from tests.simulator.faulty import FaultyWorld


@dataclass
class FaultyHooks:
    """All hooks of a world, wherever they run. `failing` are moments whose program exits with 1."""

    world: FaultyWorld
    failing: set[str] = field(default_factory=set)
    ran: list[HookCall] = field(default_factory=list)
    answers: dict[str, Outcome] = field(default_factory=dict)
    barred: set[str] = field(default_factory=set)
    ends_s: dict[str, float] = field(default_factory=dict)

    def perform(self, call: HookCall) -> Outcome:
        world = self.world
        if world.edge is not None:
            world.edge("before hook")
        draw, faults = world.rng.random(), world.faults
        for name in ("unreachable", "lost_before", "lost_after", "begun"):
            share: float = getattr(faults, name)
            if draw < share:
                return self._faulty(name, call)
            draw -= share
        outcome = self._arrive(call)
        if world.edge is not None:
            world.edge("after hook")
        return outcome

    def _faulty(self, name: str, call: HookCall) -> Outcome:
        world = self.world
        if name == "unreachable":
            raise TransportError("no route")
        if name != "lost_before":
            self._arrive(call)
            if name == "begun":
                self.ends_s[call.operation_id] = world.now_s + world.rng.uniform(0.2, 6.0)
        raise OutcomeLost("no answer came")

    def _arrive(self, call: HookCall) -> Outcome:
        if call.operation_id in self.barred:
            return rejected("hook.not_performed")
        if call.operation_id not in self.answers:
            self.ran.append(call)
            world = self.world
            bad = call.moment in self.failing
            self.answers[call.operation_id] = (
                failed("hook.failed", "it ended with exit status 1") if bad else succeeded()
            )
            world.performed[call.operation_id] += 1
            world.performed_ok.append(call.operation_id)
            if call.operation_id not in world.open_operations():
                world.violations.append(f"hook without a recorded dispatch: {call.moment} {call.uid}")
        return self.answers[call.operation_id]

    def lookup(self, call: HookCall) -> Outcome:
        if self.ends_s.get(call.operation_id, 0.0) > self.world.now_s:
            return unknown("hook.running", "it still runs")
        if call.operation_id not in self.answers:
            self.barred.add(call.operation_id)
            return failed("hook.not_performed", performed="no")
        return self.answers[call.operation_id]
