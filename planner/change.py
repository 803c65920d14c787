"""A change: the difference between what is wanted and what is there, with reasons that decide nothing."""

from __future__ import annotations

from enum import StrEnum

from manifests.schema.base import Model
from planner.spec import ReleaseIdentity


class Action(StrEnum):
    """What a change does to a node."""

    CREATE = "create"
    REPLACE = "replace"
    RESTART = "restart"
    RELOAD = "reload"
    DESTROY = "destroy"
    ADOPT = "adopt"
    NOOP = "no-op"


class Reason(Model):
    """Why. `code` is an open set for display (`release`, `env`, `not-running`, …); `before` and `after` are texts."""

    code: str
    field: str = ""
    before: str | None = None
    after: str | None = None


class Change(Model):
    """One node's change. `generation` is the one it will have; `drift` marks what was changed outside of fleetctl."""

    node: str
    uid: str
    group: str
    host: str
    action: Action
    generation: int
    reasons: tuple[Reason, ...] = ()
    before: ReleaseIdentity | None = None
    after: ReleaseIdentity | None = None
    drift: bool = False
    available: bool = False
    data_lost: bool = False
