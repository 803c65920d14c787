"""What a node's own manifest asks of its change: how it is drained, and its hooks; rendered for each node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from manifests.manifest import Path
from manifests.schema.fleet import CommandProbe, Drain, DrainCall, Drained, Hook, Hooks, HttpProbe, Rollout
from planner.ordered import ordered
from planner.spec import NodeHooks

_Command = TypeVar("_Command", CommandProbe, Hook)
_Request = TypeVar("_Request", HttpProbe, DrainCall)
_DRAIN: Path = ("rollout", "drain")
Render = Callable[[str, Path], str]
"""The rendered text of the leaf at this path of the fleet."""


def node_hooks(hooks: Hooks) -> NodeHooks:
    """Those around one node's change."""
    return ordered(NodeHooks(backup=hooks.backup, post_start=hooks.post_start, pre_drain=hooks.pre_drain))


def templated(rollout: Rollout) -> bool:
    """Whether anything of it differs from node to node."""
    found: list[str] = []

    def note(text: str, path: Path) -> str:
        del path
        found.append(text)
        return text

    rendered(rollout, note)
    return any("{" in text for text in found)


def rendered(rollout: Rollout, render: Render) -> tuple[Drain, NodeHooks]:
    """The drain and the hooks of one node."""
    drain = rollout.drain
    update: dict[str, Any] = {}
    if drain.http is not None:
        update["http"] = _request(drain.http, (*_DRAIN, "http"), render)
    if drain.command is not None:
        update["command"] = _command(drain.command, (*_DRAIN, "command"), render)
    if drain.until is not None:
        update["until"] = _until(drain.until, (*_DRAIN, "until"), render)
    hooks = {
        moment: tuple(
            _command(hook, ("rollout", "hooks", moment, n), render)
            for n, hook in enumerate(getattr(rollout.hooks, moment))
        )
        for moment in NodeHooks.model_fields
    }
    return ordered(drain.model_copy(update=update)), ordered(NodeHooks(**hooks))


def _until(until: Drained, path: Path, render: Render) -> Drained:
    update: dict[str, Any] = {}
    if until.http is not None:
        update["http"] = _request(until.http, (*path, "http"), render)
    if until.command is not None:
        update["command"] = _command(until.command, (*path, "command"), render)
    return until.model_copy(update=update)


def _request(model: _Request, path: Path, render: Render) -> _Request:
    return model.model_copy(update={"path": render(model.path, (*path, "path"))})


def _command(model: _Command, path: Path, render: Render) -> _Command:
    words = tuple(render(word, (*path, "command", i)) for i, word in enumerate(model.command))
    return model.model_copy(update={"command": words})
