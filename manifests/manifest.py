"""What loading gives: typed, pinned, validated documents, and where each value was written.

The one value that the planner, the views and the drivers take from this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from manifests.diagnostics import Diagnostic, Span
from manifests.errors import FleetctlError
from manifests.schema.compatibility import Compatibility
from manifests.schema.fleet import Fleet
from manifests.schema.host import Host
from manifests.schema.policy import Policy
from manifests.schema.release import Release

LOCALHOST = "localhost"
SHIPPED = "fleetctl:"
"""Begins the name of a file that comes with this program, and that nobody edits."""
Key = tuple[str, str]
"""A document's identity: (kind, name); a Release's name is product@version, a Compatibility's product#N,
where N is its place among those of the product in `Manifests.compatibility`, from 0."""
Path = tuple[str | int, ...]


Render = Callable[[str, Mapping[str, Any]], str]
"""Renders one leaf text with what is known about a node; raises FleetctlError for what it cannot."""


def unrendered(text: str, context: Mapping[str, Any]) -> str:
    """No renderer was given: documents that were made by a program hold plain names at most."""
    del context
    raise FleetctlError(f"nothing can render {text!r}", code="template.no-renderer")


def nowhere(key: Key, path: Path) -> Span | None:
    """No place is known: documents that were made by a program."""
    del key, path
    return None


@dataclass(frozen=True)
class Manifests:
    """All documents of one invocation, already valid as a whole.

    `fleets` by name; `hosts` by name, `localhost` always there, `root` absolute; `releases` by
    (product, version), artifact paths absolute; `compatibility` in the order of the files; `policies` by name,
    programs with a slash in their name absolute;
    `vars` for rendering; `digests` maps each file as given on the command line to its sha256 pin;
    `where(key, path)` finds the place of a value, or of the nearest one around it; `render(text, context)`
    renders the leaf texts that are left for the planner, per node.
    """

    fleets: Mapping[str, Fleet]
    hosts: Mapping[str, Host]
    releases: Mapping[tuple[str, str], Release]
    compatibility: tuple[Compatibility, ...] = ()
    policies: Mapping[str, Policy] = field(default_factory=dict)
    vars: Mapping[str, Any] = field(default_factory=dict)
    digests: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()
    where: Callable[[Key, Path], Span | None] = nowhere
    render: Render = unrendered
