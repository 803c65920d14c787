"""Where the cause of a change was written: the line of the manifest that a reviewer looks at."""

from __future__ import annotations

from manifests.diagnostics import Span
from manifests.manifest import SHIPPED, Manifests, Path
from manifests.schema.fleet import File, Fleet, Group, Node
from planner.change import Reason
from planner.pins import artifact_place


class Places:
    """The places of one fleet's values. Asked for each node, answered once for each key path."""

    def __init__(self, manifests: Manifests, fleet: str) -> None:
        self._manifests = manifests
        self._fleet: Fleet | None = manifests.fleets.get(fleet)
        self._key = ("Fleet", fleet)
        groups = self._fleet.groups if self._fleet is not None else ()
        self._groups = {group.name: (i, group) for i, group in enumerate(groups)}
        self._nodes = {
            (group.name, node.name): (j, node) for group in groups for j, node in enumerate(group.nodes or ())
        }
        self._known: dict[Path, Span | None] = {}

    def of(self, group: str, node: str, reason: Reason | None) -> Span | None:
        """The place of what makes this node change; that of the node itself where nothing nearer is known."""
        if self._fleet is None:
            return None
        if group not in self._groups:
            return self.at("groups")
        if reason is not None and reason.code == "rebuild":
            return self._artifact(group, node, reason)
        return self.at(*self._path(group, node, reason))

    def at(self, *path: str | int) -> Span | None:
        """The place of a value of the fleet's document; None for what nobody wrote."""
        if path not in self._known:
            span = self._manifests.where(self._key, path)
            self._known[path] = None if span is None or span.file.startswith(SHIPPED) else span
        return self._known[path]

    def _path(self, group_name: str, node_name: str, reason: Reason | None) -> Path:
        i, group = self._groups[group_name]
        j, node = self._nodes.get((group_name, node_name), (None, None))
        of: Path = ("groups", i)
        own: Path = (*of, "count") if j is None else (*of, "nodes", j)
        if reason is None or not reason.field:
            if group.nodes is not None and j is None:
                return (*of, "nodes")
            return self._release(of, own, group, node) if reason and reason.code in _VERSIONS else own
        first, _, rest = reason.field.partition(".")
        match first:
            case "release" | "artifact":
                return self._release(of, own, group, node)
            case "env" | "files" | "command" | "user" | "limits":
                return self._process(of, own, group, node, first, rest)
            case "port":
                return (*own, "port") if node is not None and node.port is not None else (*of, "port")
            case "data":
                return (*of, "data", *rest.split("."))
            case "container" | "domain":
                return (*of, first, *rest.split("."))
            case _:
                return own

    def _release(self, of: Path, own: Path, group: Group, node: Node | None) -> Path:
        """The pin that holds for the node: its own, its group's or the fleet's."""
        if node is not None and node.release is not None:
            return (*own, "release", "version")
        return (*of, "release", "version") if group.release is not None else ("release", "version")

    def _process(self, of: Path, own: Path, group: Group, node: Node | None, first: str, rest: str) -> Path:
        """A value of the process: in the node's own part where it stands there, else in the group's."""
        override = node.process if node is not None else None
        if override is not None:
            given = getattr(override, first)
            number = _numbered(override.files, rest) if first == "files" else None
            if number is not None:
                return (*own, "process", "files", number)
            if (first == "env" and rest in override.env) or (
                first not in ("env", "files") and given is not None
            ):
                return (*own, "process", first, *([rest] if rest else []))
        if first == "files":
            number = _numbered(group.process.files, rest)
            return (*of, "process", "files") if number is None else (*of, "process", "files", number)
        return (*of, "process", first, *([rest] if rest else []))

    def _artifact(self, group_name: str, node_name: str, reason: Reason) -> Span | None:
        """The digest in the Release that the node runs."""
        _, group = self._groups[group_name]
        _, node = self._nodes.get((group_name, node_name), (None, None))
        assert self._fleet is not None
        pin = (node.release if node is not None else None) or group.release or self._fleet.release
        release = self._manifests.releases.get((pin.product, pin.version))
        if release is None:
            return self.at("release", "version")
        arch = next((a.arch for a in release.artifacts if a.digest == reason.after), "any")
        return artifact_place(self._manifests, release, f"{group.substrate}/{arch}")


_VERSIONS = frozenset({"downgrade", "same-precedence"})


def _numbered(files: tuple[File, ...], path: str) -> int | None:
    """The number of the file that is written to this path, as far as its path is no template."""
    return next((n for n, file in enumerate(files) if file.path == path), None)
