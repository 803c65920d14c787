"""The desired nodes: placed, rendered and resolved into full specifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from manifests.diagnostics import error
from manifests.errors import FleetctlError
from manifests.manifest import Path
from manifests.schema.domain import Domain
from manifests.schema.fleet import Health
from planner import calls
from planner.frame import Frame, frame_of
from planner.ordered import built, in_order, ordered
from planner.placement import Placed, place
from planner.situation import Findings, Situation
from planner.spec import CONTAINER_DIR, FileSpec, NodeSpec, fields


@dataclass(frozen=True, slots=True)
class Desired:
    """One node as it is wanted. `fields` are its managed fields, flat."""

    placed: Placed
    spec: NodeSpec
    fields: dict[str, str]

    @property
    def name(self) -> str:
        return self.placed.name


class _UnrenderableError(Exception):
    """A leaf text could not be rendered; the finding is already noted."""


def desire(situation: Situation, findings: Findings) -> tuple[list[Desired], set[str]]:
    """The fleet's desired nodes in the manifest's order, and the uids of all that have a place.

    What cannot be made is noted in the findings.
    """
    frames: dict[tuple[object, ...], Frame | None] = {}
    out = []
    uids = set()
    for placed in place(situation, findings):
        uids.add(placed.uid)
        back = situation.options.back.get(placed.uid)
        if back is not None:
            out.append(Desired(placed, back, fields(back, situation.secrets)))
            continue
        node = placed.node
        pin = (node.release if node else None) or placed.group.release or situation.fleet.release
        own = node.name if node is not None and node.process is not None else None
        key = (placed.group_index, placed.host, pin.version, pin.product, own)
        if key in frames:
            frame = frames[key]
        else:
            frame = frames[key] = frame_of(situation, findings, placed, pin)
        if frame is None:
            continue
        try:
            spec = _Maker(situation, findings, placed, frame).spec()
        except _UnrenderableError:
            continue
        out.append(Desired(placed, spec, fields(spec, situation.secrets)))
    return out, uids


class _Maker:
    """Makes one node's specification from what it shares with others and what is its own."""

    __slots__ = ("_context", "_findings", "_frame", "_labels", "_on_change", "_placed", "_situation")

    def __init__(self, situation: Situation, findings: Findings, placed: Placed, frame: Frame) -> None:
        self._situation, self._findings, self._placed, self._frame = situation, findings, placed, frame
        self._on_change = dict(frame.on_change)
        node = placed.node
        labels = placed.group.labels
        self._labels = {**labels, **node.labels} if node is not None and node.labels else labels
        in_container = placed.group.substrate == "docker"
        folder = CONTAINER_DIR if in_container else f"{frame.root}/nodes/{placed.uid}"
        known: dict[str, Any] = {
            "name": placed.name,
            "uid": placed.uid,
            "host": placed.host,
            "dir": folder,
            "labels": self._labels,
            "address": (node.address if node is not None else None) or frame.address,
        }
        if placed.port is not None:
            known["port"] = placed.port
        if placed.index is not None:
            known["index"] = placed.index
        if frame.data_path is not None:
            known["data_dir"] = f"{folder}/{frame.data_path}"
        self._context = {**frame.context, "node": known}
        domain = placed.group.domain
        if domain is not None and domain.address.value is not None:
            of = ("groups", placed.group_index, "domain", "address")
            known["address"] = self._render(domain.address.value, "value", of=of)

    def spec(self) -> NodeSpec:
        """Raises _UnrenderableError when a text cannot be rendered."""
        frame, render = self._frame, self._render
        values = dict(frame.values)
        values["address"] = self._context["node"]["address"]
        values["port"] = self._placed.port
        values["command"] = tuple(
            [
                text if how is None else self._known(how) or render(text, "command", i)
                for i, (text, how) in enumerate(frame.command)
            ]
        )
        values["env"] = {
            name: value
            if how is None or not isinstance(value, str)
            else self._known(how) or render(value, "env", name)
            for name, value, how in frame.env
        }
        if frame.files:
            values["files"] = tuple(self._file(i) for i in range(len(frame.files)))
        if self._placed.group.domain is not None:
            values["domain"] = self._domain(self._placed.group.domain)
        if self._frame.health is not None:
            values["health"] = self._health(self._frame.health)
        if frame.rollout is not None:
            values["drain"], values["hooks"] = calls.rendered(
                frame.rollout, lambda text, path: self._render(text, of=path)
            )
        if self._labels:
            values["labels"] = in_order(self._labels)
        if self._on_change:
            values["on_change"] = in_order(self._on_change)
        return built(NodeSpec, values)

    def _known(self, name: str) -> str | None:
        """What `{{ node.NAME }}` stands for; None where there is no such value, or the template is another."""
        value = self._context["node"].get(name)
        return None if value is None else str(value)

    def _file(self, i: int) -> FileSpec:
        file = self._frame.files[i]
        path = self._render(file.path, "files", i, "path")
        if file.on_change is not None:
            self._on_change[f"files.{path}"] = file.on_change
        digest = None
        if file.source is not None:
            digest = self._situation.manifests.digests.get(file.source)
            if digest is None:
                raise self._failed(
                    "file.unread",
                    "The file's bytes are not known",
                    f"{file.source} was not read when the manifests were",
                    None,
                    (*self._frame.process_path, "files", i, "source"),
                )
        return FileSpec(
            path=path,
            content=None if file.content is None else self._render(file.content, "files", i, "content"),
            source=file.source,
            digest=digest,
            secret=file.secret,
            mode=file.mode,
        )

    def _domain(self, domain: Domain) -> Domain:
        of = ("groups", self._placed.group_index, "domain")
        args = self._render(domain.boot.kernel_args, "boot", "kernel_args", of=of)
        value = domain.address.value
        update = {
            "address": domain.address.model_copy(
                update={"value": value and self._context["node"]["address"]}
            ),
            "boot": domain.boot.model_copy(update={"kernel_args": " ".join(args.split())}),
        }
        return ordered(domain.model_copy(update=update))

    def _health(self, health: Health) -> Health:
        of = ("groups", self._placed.group_index, "health")
        update: dict[str, Any] = {}
        if health.http is not None:
            path = self._render(health.http.path, "http", "path", of=of)
            update["http"] = health.http.model_copy(update={"path": path})
        if health.command is not None:
            command = tuple(
                self._render(t, "command", "command", i, of=of) for i, t in enumerate(health.command.command)
            )
            update["command"] = health.command.model_copy(update={"command": command})
        return ordered(health.model_copy(update=update))

    def _render(self, text: str, *path: str | int, of: Path | None = None) -> str:
        """The rendered text of the leaf at `path` inside the process, or inside what `of` leads to."""
        try:
            return self._situation.manifests.render(text, self._context)
        except FleetctlError as e:
            where = (*(of or self._frame.process_path), *path)
            raise self._failed(
                e.code,
                "A template cannot be rendered",
                f"{e.message} (for {self._placed.name})",
                e.hint,
                where,
            ) from e

    def _failed(
        self, code: str, summary: str, detail: str, hint: str | None, where: Path
    ) -> _UnrenderableError:
        span = self._situation.manifests.where(self._situation.key, where)
        path = ".".join(map(str, where))
        self._findings.errors.append(error(code, summary, detail, span=span, hint=hint, path=path))
        return _UnrenderableError()
