"""Something that runs and that fleetctl did not make: what it runs with, as far as that can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from manifests.errors import FleetctlError
from manifests.schema.release import Substrate


class NotThere(FleetctlError):
    """There is no such container or unit, or nothing can be read of it."""

    code = "import.not-there"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A container or a unit. `artifact` is what the pin is of: an image's reference, or a file on its host.

    `command` is its whole argument list. `settings` are keys of `container:`; `limits` of `process.limits`.
    `volumes` are named volumes with the paths where they are mounted. `lost` says what a fleetctl node cannot take
    over from it, each in a sentence.
    """

    name: str
    host: str
    substrate: Substrate
    running: bool
    artifact: str
    digest: str
    version: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    user: str | None = None
    port: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    limits: Mapping[str, object] = field(default_factory=dict)
    volumes: tuple[tuple[str, str], ...] = ()
    lost: tuple[str, ...] = ()
    stop: str = ""
