"""A change: the difference between what is wanted and what is there, with reasons that decide nothing.

The keys of every model here are in alphabetical order (see `planner.ordered`).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from manifests.schema.base import Model
from planner.ordered import AsText
from planner.spec import ReleaseIdentity


class Action(StrEnum):
    """What a change does to a node."""

    CREATE = "create"
    REPLACE = "replace"
    RESTART = "restart"
    RELOAD = "reload"
    DESTROY = "destroy"
    ADOPT = "adopt"
    STOP = "stop"
    NOOP = "no-op"


class Reason(Model):
    """Why. `code` is an open set for display (`release`, `env`, `not-running`, …); `before` and `after` are texts."""

    after: str | None = None
    before: str | None = None
    code: str
    field: str = ""


class Change(Model):
    """One node's change; every node of the fleet has one, `no-op` where nothing happens to it.

    `generation` is the one it will have. `available`: it serves now. `live`: its process may be running
    now, so its version counts as live (an unreachable node's too). `counted`: the budget is about it; it is
    not about nodes that the manifest does not declare (any more). `drift`: it was changed outside of
    fleetctl. `data_lost`: its data folder goes with it; `losses`: what else goes for good, in words.
    """

    action: Annotated[Action, AsText]
    after: ReleaseIdentity | None = None
    available: bool = False
    before: ReleaseIdentity | None = None
    counted: bool = True
    data_lost: bool = False
    drift: bool = False
    generation: int
    group: str
    host: str
    live: bool = False
    losses: tuple[str, ...] = ()
    node: str
    reasons: tuple[Reason, ...] = ()
    uid: str
