"""What goes for good with a node is in the plan before anything is touched: by what is done to it, and never more."""

from __future__ import annotations

from typing import Any

import pytest

from planner.change import Change
from planner.endings import endings
from planner.explain import rows
from planner.observed import Loss, NodeState
from planner.plan import StepKind
from tests.planner.fleets import World, compatibility, fleet, group, manifests

TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
SAVED = Loss(by="start", what="its saved state")
SNAPSHOTS = Loss(by="removal", what="2 snapshots (before, after)")
FIRMWARE = Loss(by="end", what="its firmware's variables")
ALL = (SAVED, SNAPSHOTS, FIRMWARE)


def guests(**facts: Any) -> Any:
    process = {"command": ("serve",)}
    return group(substrate="qemu", port=None, process=process, health={"tcp": {"port": 80}}, **facts)


def world(*, retain: bool = True) -> tuple[World, dict[str, Any]]:
    start, body = World(), guests(data={"retain": retain})
    start.reach(manifests(fleet("1.0.0", body), compat=[TABLE]))
    one = start.nodes[next(uid for uid, n in start.nodes.items() if n.name == "web-0")]
    one.losses = ALL
    return start, body


def of(made: Any, node: str = "web-0") -> Change:
    return next(c for c in made.fleets[0].changes if c.node == node)


def test_a_replacement_loses_what_only_the_domain_has_and_keeps_what_goes_with_the_data() -> None:
    start, body = world(retain=False)
    made = start.plan(manifests(fleet("1.1.0", body), compat=[TABLE]))
    assert of(made).losses == (SAVED.what, SNAPSHOTS.what)
    assert of(made, "web-1").losses == ()
    (told,) = endings(made)
    assert (told.node, told.ends) == ("web-0", False)
    assert told.what == "its saved state, 2 snapshots (before, after) cannot be brought back"
    assert next(r for r in rows(made)[0].changes if "web-0" in r.nodes).losses == of(made).losses


@pytest.mark.parametrize("retain", [True, False])
def test_an_end_loses_what_goes_with_the_data_only_where_the_data_goes(retain: bool) -> None:
    start, body = world(retain=retain)
    made = start.plan(manifests(fleet("1.0.0", body), compat=[TABLE]), destroy=True)
    whole = tuple(loss.what for loss in ALL)
    assert of(made).losses == (whole[:2] if retain else whole)
    (told,) = [e for e in endings(made) if e.node == "web-0"]
    assert f"{', '.join(of(made).losses)} cannot be brought back" in told.what
    assert ("its data is removed" in told.what, "its data stays" in told.what) == (not retain, retain)


def test_a_start_of_the_same_generation_loses_a_saved_state_alone() -> None:
    start, body = world()
    next(n for n in start.nodes.values() if n.name == "web-0").state = NodeState.EXITED
    made = start.plan(manifests(fleet("1.0.0", body), compat=[TABLE]))
    assert [s.kind for s in made.fleets[0].steps if s.node == "web-0"] == [StepKind.START, StepKind.VERIFY]
    assert of(made).losses == (SAVED.what,)


def test_what_is_not_touched_loses_nothing() -> None:
    start, body = world()
    made = start.plan(manifests(fleet("1.0.0", body), compat=[TABLE]))
    assert of(made).losses == ()
    assert endings(made) == ()
