"""Small plans, written out by hand, for what prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from planner.change import Action, Change, Reason
from planner.plan import Availability, Budget, FleetPlan, Floor, Plan, RolloutSettings, Step, StepKind
from planner.spec import ReleaseIdentity

DIGEST = "sha256:" + "a" * 64
OLD = ReleaseIdentity(version="1.0.0", digest=DIGEST)
NEW = ReleaseIdentity(version="1.1.0", digest="sha256:" + "b" * 64)


def change(node: str, action: Action, **facts: Any) -> Change:
    """A change of a node of the group web on localhost."""
    given = {
        "uid": f"uid-{node}",
        "group": "web",
        "host": "localhost",
        "generation": 2,
        "available": action is not Action.CREATE,
        **facts,
    }
    return Change(node=node, action=action, **given)


def upgrade(node: str, **facts: Any) -> Change:
    """1.0.0 to 1.1.0."""
    reasons = (Reason(code="release", field="release.version", before="1.0.0", after="1.1.0"),)
    return change(node, Action.REPLACE, before=OLD, after=NEW, reasons=reasons, **facts)


def step(number: int, node: str | None, kind: StepKind = StepKind.START, phase: int = 1) -> Step:
    return Step(
        id=number,
        kind=kind,
        node=node,
        uid=None if node is None else f"uid-{node}",
        host="localhost",
        phase=phase,
        floor=Floor.ROLLING,
        available=Availability(before=3, during=2, after=3),
        deadline_ms=1000,
    )


def fleet_plan(changes: Sequence[Change], steps: Sequence[Step] = (), **facts: Any) -> FleetPlan:
    """A fleet of three with a floor of 2 and a reserve of 1."""
    given: dict[str, Any] = {
        "fleet": "hello",
        "lineage": "l",
        "serial": 4,
        "rollout": RolloutSettings(strategy="rolling", window=1, progress_deadline_ms=1000),
        "budgets": (
            Budget(
                scope="fleet",
                count=3,
                max_unavailable=1,
                reserve=1,
                floor=2,
                hard_floor=1,
                available_now=3,
                minimum=2,
            ),
        ),
        "specs": {},
        "hosts": {},
        "observed_at": "2026-01-01T00:00:00.000Z",
        **facts,
    }
    return FleetPlan(changes=tuple(changes), steps=tuple(steps), **given)


def plan(*fleets: FleetPlan, **facts: Any) -> Plan:
    return Plan(created_at="2026-01-01T00:00:00.000Z", manifests={}, fleets=fleets, plan_id=DIGEST, **facts)
