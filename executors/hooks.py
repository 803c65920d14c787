"""Hooks: the operator's own programs, each run once, beside fleetctl or on a node's host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from executors.outcome import Outcome


@dataclass(frozen=True, slots=True)
class HookCall:
    """One run of a hook, bound to its identity in the ledger.

    `env` is what the program finds beside the environment of the place; `as_node`: the node's own variables as well.
    `where`: here, where fleetctl was started, or on the node's host, in the node's folder. `uid` is that of the node
    that it is about, empty for the whole rollout.
    """

    operation_id: str
    attempt: int
    epoch: int
    moment: str
    argv: tuple[str, ...]
    timeout_s: float
    where: str = "here"
    uid: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    as_node: bool = False


class Hooks(Protocol):
    """A place where hooks run. Safe for several threads."""

    def perform(self, call: HookCall) -> Outcome:
        """Runs the program at most once for this operation id; a repeat gives the recorded answer.

        Its exit status 0 is `succeeded`; another one, and the end of its timeout, `failed`.
        """
        ...

    def lookup(self, call: HookCall) -> Outcome:
        """What became of it: by its recorded exit, else `unknown`. One that was never begun is barred for good."""
        ...


@runtime_checkable
class HookPlace(Protocol):
    """A driver on whose host hooks can run."""

    def hooks(self) -> Hooks: ...
