"""Names and labels on a Docker engine. Physical names derive from the uid alone, so a rename needs no replacement."""

from __future__ import annotations

from typing import Final

from planner.spec import CONTAINER_DIR

PREFIX: Final = "fleetctl"
NODE_DIR: Final = CONTAINER_DIR
RECORD: Final = "record.json"

FLEET: Final = "fleetctl.fleet"
NODE: Final = "fleetctl.node"
UID: Final = "fleetctl.uid"
LINEAGE: Final = "fleetctl.lineage"
EPOCH: Final = "fleetctl.epoch"
GENERATION: Final = "fleetctl.generation"
OPERATION: Final = "fleetctl.operation"
ATTEMPT: Final = "fleetctl.attempt"
VERSION: Final = "fleetctl.version"
DIGEST: Final = "fleetctl.digest"
IMAGE: Final = "fleetctl.image"
FIELDS: Final = "fleetctl.fields"
PORT: Final = "fleetctl.port"
ADDRESS: Final = "fleetctl.address"
CONTAINER: Final = "fleetctl.container"
"""In the record only: the id of the container that it is about, since its volume outlives that container."""
ARTIFACT: Final = "fleetctl.artifact"
"""On images that were made from a root file system: the file's pin."""


def container(uid: str) -> str:
    """The one name a node's container can have: a second create of it is refused by the engine."""
    return f"{PREFIX}-{uid}"


def volume(uid: str, name: str) -> str:
    """A named volume of a node."""
    return f"{PREFIX}-{uid}-{name}"


FILES_VOLUME: Final = "files"
DATA_VOLUME: Final = "data"
