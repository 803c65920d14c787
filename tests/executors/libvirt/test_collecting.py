"""What guests boot from is needed by them, and by the way back, whichever part of it the release is."""

from __future__ import annotations

from typing import Any

from fleetctl.engine.garbage import needed
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
