"""The port of a supervisor: who keeps a node's process, as shell functions and as files to place.

A supervisor NAME is a fragment of POSIX sh that defines, for the guarded script,

    NAME_ready     whether it can be used on this host; sets sup_error
    NAME_facts     sets `instance`, the last start of the node, or nothing
    NAME_alive     whether that start still lives (never another process with its number)
    NAME_leftovers after NAME_alive said no: whether something of it is left, or is about to come back
    NAME_ending    after NAME_alive: whether its end is certain, without anything of ours
    NAME_clear     ends what is left
    NAME_install   makes ready what `place` has written; sets sup_error
    NAME_start     starts it; sets sup_code and sup_error when nothing was started
    NAME_abandon   a start that failed at once is not tried again
    NAME_started   OPERATION: whether this one did the last start (0), did not (1), may still (2)
    NAME_signal    SIGNAL: asks the node with its children to end
    NAME_reload    SIGNAL: to the node alone
    NAME_exit      sets exit_code of the last start where it is known
    NAME_log       prints the last lines of its output
    NAME_remove    takes back what NAME_install did; sets sup_error

and the files that `create` and `reload` place for it. All fragments are in every script, so that a node is stopped
by the supervisor that started it, whatever the manifest says now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from executors.driver import Operation
from executors.host.layout import Layout
from executors.host.placed import PlacedFile


@cache
def script(name: str) -> str:
    """A shell script of this package, by its file name."""
    return (resources.files("executors.host") / name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Placement:
    """What a supervisor places: files of its own in the node's folder, by name, and files elsewhere."""

    own: dict[str, str]
    files: tuple[PlacedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Supervisor:
    """One row of the supervisors' table. `fragment` names a script; `placement` gives its files."""

    name: str
    fragment: str
    placement: Callable[[Layout, Operation], Placement]
