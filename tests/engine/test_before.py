"""What is found out before a node is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from executors.transport import TransportError
from manifests.errors import ExitCode, FleetctlError, RefusedError, StaleError
from manifests.secret import Secret
from planner.observed import Loss
from planner.plan import Refusal
from planner.spec import ArtifactPin, SecretUse
from tests.engine import plans
from tests.engine.conftest import Room
from tests.engine.world import FakeDriver

THREE = ("web-0", "web-1", "web-2")


def test_an_artifact_that_cannot_be_had_stops_the_run_with_1_and_nothing_is_touched(room: Room) -> None:
    def missing(pin: ArtifactPin) -> Path:
        raise FleetctlError(f"the artifact {pin.source} is not there")

    result = room.apply(plans.plan(THREE, "1.0.0", room.recorded), fetch=missing)
    assert result.exit_code is ExitCode.ERROR
    assert "nothing was changed" in result.summary
    assert "/a/1.0.0 is not there" in result.summary
    assert room.world.nodes == {}
    assert room.recorded.open_run is None


def test_a_host_that_takes_no_artifact_fails_all_its_nodes(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: FakeDriver, pin: ArtifactPin, local_path: str, tell: object) -> None:
        raise TransportError("no route")

    monkeypatch.setattr(FakeDriver, "stage", refuse)
    result = room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    assert result.exit_code is ExitCode.ERROR
    assert "no route" in result.summary


def test_a_secret_that_does_not_resolve_is_an_error_before_anything_is_written(room: Room) -> None:
    plan = plans.plan(THREE, "1.0.0", room.recorded)
    fleet = plan.fleets[0]
    secret = fleet.specs["web-0"].model_copy(update={"env": {"TOKEN": SecretUse(secret="env:TOKEN")}})
    fleet = fleet.model_copy(update={"specs": {**fleet.specs, "web-0": secret}})
    plan = plans.sealed(plan.model_copy(update={"fleets": (fleet,)}))

    def unresolved(ref: str) -> Secret:
        raise FleetctlError(f"{ref} is not set")

    with pytest.raises(FleetctlError, match="env:TOKEN is not set"):
        room.apply(plan, resolve=unresolved)
    assert room.store.head(plans.FLEET).sequence == 0


def test_no_secret_reaches_the_journal(room: Room) -> None:
    plan = plans.plan(("web-0",), "1.0.0", room.recorded)
    fleet = plan.fleets[0]
    secret = fleet.specs["web-0"].model_copy(update={"env": {"TOKEN": SecretUse(secret="env:TOKEN")}})
    fleet = fleet.model_copy(update={"specs": {**fleet.specs, "web-0": secret}})
    plan = plans.sealed(plan.model_copy(update={"fleets": (fleet,)}))
    assert room.apply(plan, resolve=lambda ref: Secret("hunter2")).exit_code is ExitCode.OK
    assert "hunter2" not in str(list(room.store.read(plans.FLEET)))
    assert "keyed:" in str(room.world.nodes)


def test_a_refused_plan_is_not_carried_out(room: Room) -> None:
    plan = plans.plan(THREE, "1.0.0", room.recorded)
    refusal = Refusal(code="compat.unknown", summary="The transition is not declared", detail="")
    fleet = plan.fleets[0].model_copy(update={"refusals": (refusal,)})
    with pytest.raises(RefusedError, match="not declared"):
        room.apply(plans.sealed(plan.model_copy(update={"fleets": (fleet,)})))


def test_a_plan_whose_proof_fails_is_not_carried_out(room: Room) -> None:
    plan = plans.plan(THREE, "1.0.0", room.recorded)
    with pytest.raises(RefusedError, match="step 3 crosses the floor"):
        room.apply(plan, check=lambda p: ["step 3 crosses the floor"])
    assert room.store.head(plans.FLEET).sequence == 0


def test_an_empty_plan_takes_no_lease_and_writes_nothing(room: Room) -> None:
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    before = room.store.head(plans.FLEET)
    plan = plans.plan(THREE, "1.0.0", room.recorded)
    fleet = plan.fleets[0].model_copy(update={"steps": ()})
    result = room.apply(plans.sealed(plan.model_copy(update={"fleets": (fleet,)})))
    assert (result.exit_code, result.summary) == (ExitCode.OK, "nothing to do")
    assert room.store.head(plans.FLEET) == before


def test_what_would_be_lost_and_was_not_told_makes_a_plan_stale(room: Room) -> None:
    """Somebody saved the node's state after the plan was made and agreed to."""
    room.apply(plans.plan(THREE, "1.0.0", room.recorded))
    plan = plans.plan(("web-0", "web-1"), "1.1.0", room.recorded)
    nodes = {n.name: n for n in room.world.nodes.values()}
    nodes["web-2"].losses = (Loss(by="start", what="its saved state"),)
    nodes["web-1"].losses = (Loss(by="end", what="its firmware's variables"),)
    nodes["web-0"].losses = (Loss(by="start", what="its saved state"),)
    before = room.world.versions()
    with pytest.raises(
        StaleError, match="web-0: it would lose its saved state, which is not what the plan says"
    ):
        room.apply(plan)
    assert room.world.versions() == before
    nodes["web-0"].losses = ()
    assert room.apply(plan).exit_code is ExitCode.OK
