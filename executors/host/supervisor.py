"""The port of a supervisor: who keeps a node's process, as shell functions and as files to place.

A supervisor is a fragment of POSIX sh that defines, for the guarded script,

    sup_facts     sets `instance`, this very start of the node, or nothing
    sup_alive     whether that start still lives (never another process with its number)
    sup_leftovers whether the node is gone and has left children behind
    sup_install   makes ready what `place` has written; sets sup_error
    sup_start     starts it; sets sup_code and sup_error when nothing was started
    sup_started   OPERATION: whether this one did the last start
    sup_signal    NAME: to the node with its children
    sup_reload    NAME: to the node alone
    sup_exit      sets exit_code of the last start where it is known
    sup_remove    takes back what sup_install did; sets sup_error

and of the files that `create` and `reload` place beside the node for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from executors.driver import Operation
from executors.host.layout import Layout


@cache
def script(name: str) -> str:
    """A shell script of this package, by its file name."""
    return (resources.files("executors.host") / name).read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Supervisor:
    """One row of the supervisors' table. `fragment` names a script; `files` gives more files by name."""

    name: str
    fragment: str
    files: Callable[[Layout, Operation], dict[str, str]]


def _runner(layout: Layout, operation: Operation) -> dict[str, str]:
    del layout, operation
    return {"run": script("runner.sh")}


PROCESS = Supervisor("process", "supervisor_process.sh", _runner)
SUPERVISORS = {s.name: s for s in (PROCESS,)}
