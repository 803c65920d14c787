"""What guests boot from is needed by them, and by the way back, whichever part of it the release is."""

from __future__ import annotations

from typing import Any

from fleetctl.engine.events import Stage
from fleetctl.engine.garbage import needed
from fleetctl.engine.hands import Hands
from fleetctl.ledger.entries import Kind
from manifests.digest import sha256
from manifests.schema.domain import Boot, PinnedFile
from planner.recorded import Recorded, RecordedNode
from planner.spec import NodeSpec
from tests.executors.libvirt.nodes import KERNEL, UID, artifact, domain, spec

OLD = spec(artifact=artifact(b"old"))
NEW_KERNEL = PinnedFile(source="/images/newer", digest=sha256(b"newer"))
NEW = spec(domain=domain(boot=Boot(artifact="initrd", kernel=NEW_KERNEL)))


def life(of: NodeSpec) -> list[dict[str, Any]]:
    """What the journal says of a node that was placed and became healthy."""
    placed = {"kind": Kind.NODE_PLACED.value, "uid": UID, "spec": of.model_dump(mode="json")}
    return [placed, {"kind": Kind.NODE_HEALTHY.value, "uid": UID}]


def test_kernels_beside_the_artifact_are_not_collected() -> None:
    node = RecordedNode(UID, "guest-0", "g", "vm", None, 2, spec=NEW, last_healthy=NEW)
    entries = [*life(OLD), *life(NEW)]
    found = needed([(Recorded(fleet="guests", nodes={UID: node}), entries)])["vm", "qemu"]
    assert set(found) == {OLD.artifact.digest, KERNEL.digest, NEW.artifact.digest, NEW_KERNEL.digest}


def test_all_files_of_a_guest_are_brought_by_its_one_step() -> None:
    brought = []

    class Driver:
        def stage(self, pin: Any, local: str) -> None:
            brought.append((pin.name, local))

    hands = Hands.__new__(Hands)
    hands.fetch = lambda pin: f"/cache/{pin.name}"  # type: ignore[assignment,return-value]
    hands.driver = lambda host, substrate: Driver()  # type: ignore[assignment,method-assign,return-value]
    hands.clock = type("Clock", (), {"monotonic": lambda self: 1.0})()
    pin, *more = NEW.pins
    done = hands.stage(Stage("0", "vm", "qemu", pin, tuple(more)))
    assert done.error is None
    assert brought == [("initrd", "/cache/initrd"), ("kernel", "/cache/kernel")]
