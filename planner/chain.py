"""What a change of a node is made of: the chain of its steps, as a table by action and substrate.

A host's folder is used again by the next generation; a container or domain itself has to go before another
can bear its name. A restart of what only stopped places nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from planner.change import Action
from planner.ordered import ordered
from planner.plan import StepKind
from planner.spec import NodeHooks, NodeSpec

# How long one effect may take before its outcome is looked up. Generous: a slow disk is not a failure.
CREATE_MS = 60_000
START_MS = 60_000
DESTROY_MS = 60_000
RELOAD_MS = 30_000
ADOPT_MS = 30_000
# Beyond the drain's own timeout: the SIGKILL, and the record of it; or the probe that is under way.
STOP_SLACK_MS = 15_000
DRAIN_SLACK_MS = 10_000
# Beyond a hook's own timeout: its end by force, and the record of it.
HOOK_SLACK_MS = 10_000
# Beyond the health deadline and min_ready: the probe that is under way.
VERIFY_SLACK_MS = 5_000


class Expects(Enum):
    """What a step finds when it starts: the node as it was seen, no record of it, or what the chain placed."""

    NOW = 0
    ABSENT = 1
    PLACED = 2


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """One step of a chain. `takes_down`: an available node is not available after it; `back`: it is again.

    `old`: it acts on the generation that was seen, not on the one that will be. `deadline_ms` is added to
    what the node's own specification allows for it. `hook` is its hook's number. There is one of each, told apart
    by identity.
    """

    kind: StepKind
    expects: Expects | None
    deadline_ms: int
    takes_down: bool = False
    back: bool = False
    old: bool = False
    hook: int | None = None


Chain = tuple[Link, ...]

DRAIN = Link(StepKind.DRAIN, Expects.NOW, DRAIN_SLACK_MS, takes_down=True, old=True)
STOP = Link(StepKind.STOP, Expects.NOW, STOP_SLACK_MS, takes_down=True, old=True)
CLEAR = Link(StepKind.DESTROY, Expects.NOW, DESTROY_MS, old=True)
CREATE_OVER = Link(StepKind.CREATE, Expects.NOW, CREATE_MS)
CREATE_NEW = Link(StepKind.CREATE, Expects.ABSENT, CREATE_MS)
START_PLACED = Link(StepKind.START, Expects.PLACED, START_MS)
START_AGAIN = Link(StepKind.START, Expects.NOW, START_MS)
RELOAD = Link(StepKind.RELOAD, Expects.NOW, RELOAD_MS, takes_down=True)
ADOPT = Link(StepKind.ADOPT, Expects.NOW, ADOPT_MS, old=True)
VERIFY = Link(StepKind.VERIFY, None, VERIFY_SLACK_MS, back=True)

_NEW: Chain = (CREATE_NEW, START_PLACED, VERIFY)
_OVER: dict[str, Chain] = {
    "host": (CREATE_OVER, START_PLACED, VERIFY),
    "docker": (CLEAR, *_NEW),
    "qemu": (CLEAR, *_NEW),
}


@dataclass(frozen=True, slots=True)
class Calls:
    """What a node's own specification puts into its chain: hooks by number, and the drain's call."""

    pre_drain: int = 0
    drain: bool = False
    post_start: int = 0


NO_CALLS = Calls()
_NO_HOOKS = ordered(NodeHooks())


def calls(spec: NodeSpec, *, serves: bool) -> Calls:
    """The calls of a specification. A node that does not serve has nothing to drain, and might not even answer."""
    drain = spec.drain
    drains = serves and (drain.http is not None or drain.command is not None)
    if spec.hooks is _NO_HOOKS and not drains:
        return NO_CALLS
    return Calls(len(spec.hooks.pre_drain), drains, len(spec.hooks.post_start))


@cache
def hook(kind: StepKind, number: int) -> Link:
    """The step that runs one hook of a node."""
    before = kind is not StepKind.POST_START
    expects = Expects.NOW if before else Expects.PLACED
    takes_down = kind is StepKind.PRE_DRAIN  # out of a load balancer, it serves nobody
    return Link(kind, expects, HOOK_SLACK_MS, takes_down=takes_down, old=before, hook=number)


def hooks(kind: StepKind, count: int) -> Chain:
    """The steps of all hooks of one moment."""
    return tuple(hook(kind, n) for n in range(count))


@cache
def backed_up(links: Chain, count: int) -> Chain:
    """The chain with its backup: when the node has stopped, and before anything of the next version is placed."""
    at = next(i for i, link in enumerate(links) if link.kind in (StepKind.DESTROY, StepKind.CREATE))
    return (*links[:at], *hooks(StepKind.BACKUP, count), *links[at:])


@cache
def chain(
    action: Action, substrate: str, *, running: bool, places: bool, adopts: bool, own: Calls = NO_CALLS
) -> Chain:
    """The steps of a change, in order.

    `running`: there is something to stop; `places`: a restart that places a new generation; `adopts`: the
    record has to be taken over first.
    """
    links = _bare(action, substrate, running=running, places=places)
    if own is not NO_CALLS:
        links = _with_calls(links, own)
    return (ADOPT, *links) if adopts else links


def _with_calls(links: Chain, own: Calls) -> Chain:
    out: list[Link] = []
    for link in links:
        if link is STOP:
            out += hooks(StepKind.PRE_DRAIN, own.pre_drain)
            out += [DRAIN] if own.drain else []
        out.append(link)
        if link.kind is StepKind.START:
            out += hooks(StepKind.POST_START, own.post_start)
    return tuple(out)


def _bare(action: Action, substrate: str, *, running: bool, places: bool) -> Chain:
    links: Chain = ()
    stop: Chain = (STOP,) if running else ()
    if action is Action.CREATE:
        links = _NEW
    elif action is Action.REPLACE or (action is Action.RESTART and places):
        links = (*stop, *_OVER[substrate])
    elif action is Action.RESTART:
        links = (*stop, START_AGAIN, VERIFY)
    elif action is Action.RELOAD:
        links = (RELOAD, VERIFY)
    elif action is Action.DESTROY:
        links = (*stop, CLEAR)
    elif action is Action.STOP:
        links = stop
    return links


@cache
def part(links: Chain, kinds: frozenset[StepKind]) -> Chain:
    """Those steps of a chain that are of these kinds."""
    return tuple(link for link in links if link.kind in kinds)


@cache
def takes_down(links: Chain) -> bool:
    """Whether an available node is not available at some moment of these steps."""
    return any(link.takes_down for link in links)


@cache
def brings_back(links: Chain) -> bool:
    """Whether a node is available after these steps."""
    return any(link.back for link in links)


@cache
def starts(links: Chain) -> bool:
    """Whether an artifact has to be on the host for these steps."""
    return any(link.kind is StepKind.START for link in links)
