"""Compatibility: what the declared pairs say of each transition, and of every set of versions live together.

A mixed set may be made live only if every two versions in it are joined by a pair that is rolling in some
direction, and each moving node's own transition is rolling (design section 4). Judged by twos: a set is
declared exactly if all its twos are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

from manifests.manifest import SHIPPED, Manifests
from manifests.schema.compatibility import Pair, When
from planner.change import Action
from planner.plan import Verdict
from planner.work import Work

Mode = Literal["rolling", "full", "refuse", "unknown", "same"]
Way = Literal["rolling", "full", "never", "evidence"]
# The longest path of declared transitions that a refusal proposes.
PATH_MAX = 8


class Pairs:
    """The declared transitions of one product that hold for a fleet, with the place of each.

    Of several pairs between the same versions, the first whose condition holds is the one; one without a
    condition comes last. Those whose condition does not hold are kept, so that a refusal can name them.
    """

    def __init__(self, manifests: Manifests, product: str, works: Iterable[Work] = ()) -> None:
        self.product = product
        self.last_place: str | None = None
        self.elsewhere: dict[tuple[str, str], tuple[Verdict, When]] = {}
        self._declared: dict[tuple[str, str], Verdict] = {}
        self._back: dict[tuple[str, str], Verdict] = {}
        self._verdicts: dict[tuple[str, str], Verdict] = {}
        always: list[tuple[Pair, Verdict]] = []
        conditional: list[tuple[Pair, Verdict]] = []
        for n, doc in enumerate(d for d in manifests.compatibility if d.product == product):
            for i, pair in enumerate(doc.pairs):
                span = manifests.where(("Compatibility", f"{product}#{n}"), ("pairs", i))
                place = None if span is None else str(span)
                if place is not None and not place.startswith(SHIPPED):
                    self.last_place = place
                (always if pair.when is None else conditional).append((pair, _verdict(product, pair, place)))
        held = list(works) if conditional else []
        for pair, verdict in conditional:
            if pair.when is not None and not holds(pair.when, held):
                self.elsewhere.setdefault((plain(pair.from_), plain(pair.to)), (verdict, pair.when))
            else:
                self._add(verdict)
        for _, verdict in always:
            self._add(verdict)

    def _add(self, verdict: Verdict) -> None:
        key = (plain(verdict.from_), plain(verdict.to))
        self._declared.setdefault(key, verdict)
        self._back.setdefault((key[1], key[0]), verdict)

    def transition(self, old: str, new: str) -> Verdict:
        """What is declared of going from one version to another."""
        key = (old, new)
        found = self._verdicts.get(key)
        if found is None:
            found = self._verdicts[key] = self._judge(old, new)
        return found

    def _judge(self, old: str, new: str) -> Verdict:
        if old == new:
            return Verdict(from_=old, mode="same", product=self.product, reverse="rolling", to=new)
        key = (plain(old), plain(new))
        declared, other = self._declared.get(key), self._back.get(key)
        if declared is not None:
            if (declared.from_, declared.to) != (old, new):
                declared = declared.model_copy(update={"from_": old, "to": new})
            if other is None:
                return declared
            # The other direction is written out as well: it says what the way back is.
            both = declared.changes_format or other.changes_format
            return declared.model_copy(
                update={"changes_format": both, "evidence": None, "reverse": _way(other.mode)}
            )
        if other is not None:
            return Verdict(
                changes_format=other.changes_format,
                from_=old,
                mode=_mode(other.reverse),
                place=other.place,
                product=self.product,
                reason=other.reason,
                reverse=_way(other.mode),
                to=new,
            )
        return Verdict(from_=old, mode="unknown", product=self.product, to=new)

    def together(self, one: str, other: str) -> Verdict | None:
        """The rolling transition that joins two versions, in whichever direction there is one."""
        for verdict in (self.transition(one, other), self.transition(other, one)):
            if verdict.mode in ("rolling", "same"):
                return verdict
        return None

    def path(self, old: str, new: str) -> list[Verdict]:
        """The shortest declared way of more than one transition; empty when there is none."""
        v = "v" if old.startswith("v") and new.startswith("v") else ""
        old, new = plain(old), plain(new)
        ways: dict[str, list[str]] = defaultdict(list)
        for key in [*self._declared, *self._back]:
            if self.transition(*key).mode in ("rolling", "full") and key[1] not in ways[key[0]]:
                ways[key[0]].append(key[1])
        queue: deque[tuple[str, ...]] = deque([(old,)])
        seen = {old}
        while queue:
            way = queue.popleft()
            if len(way) > PATH_MAX:
                break
            for step in ways[way[-1]]:
                if step == new:
                    whole = (*way, new)
                    return [self.transition(v + a, v + b) for a, b in pairwise(whole)]
                if step not in seen:
                    seen.add(step)
                    queue.append((*way, step))
        return []


def plain(version: str) -> str:
    """A version without its leading v: pairs hold for v1.0.0 as for 1.0.0, though the two are other texts."""
    return version.removeprefix("v")


def _verdict(product: str, pair: Pair, place: str | None) -> Verdict:
    return Verdict(
        changes_format=pair.changes_format,
        evidence=None if pair.evidence is None else pair.evidence.log,
        from_=pair.from_,
        mode=pair.mode,
        place=place,
        product=product,
        reason=pair.reason,
        reverse=pair.reverse,
        to=pair.to,
    )


def holds(when: When, works: Iterable[Work]) -> bool:
    """Whether every node has these settings, as it is wanted and, where it runs, as it was seen."""
    for work in works:
        sides = [work.wanted] if work.wanted is not None else []
        if work.running and work.seen is not None:
            sides.append(work.seen.fields)
        for fields in sides:
            if any(fields.get(f"env.{name}") != value for name, value in when.env.items()):
                return False
    return True


def _way(mode: str) -> Way:
    return {"rolling": "rolling", "full": "full"}.get(mode, "never")  # type: ignore[return-value]


def _mode(reverse: Way) -> Mode:
    return "full" if reverse == "full" else "rolling" if reverse == "rolling" else "refuse"


def transitions(works: Iterable[Work]) -> dict[tuple[str, str], list[Work]]:
    """Each transition from one version to another, and the nodes that make it."""
    found: dict[tuple[str, str], list[Work]] = {}
    for work in works:
        if work.links and work.old is not None and work.new is not None and work.old != work.new:
            found.setdefault((work.old, work.new), []).append(work)
    return found


def mixed(works: list[Work], *, full: bool = False) -> list[tuple[str, str]]:
    """Every two versions that can be live at one moment on two nodes, in a rolling plan or in a full one.

    A full plan stops what it changes first: old and new versions of changed nodes never meet. Twos that
    are live now already, on nodes that keep their versions, are looked at only when some version moves.
    """
    moving = any(w.links and w.new is not None and w.old != w.new for w in works)
    holders: dict[str, set[str]] = defaultdict(set)
    now: set[str] = set()
    for work in works:
        old = work.old if work.change.live else None
        if old is not None:
            now.add(old)
        changed = work.links and work.change.action is not Action.ADOPT
        if old is not None and not (full and changed and work.running):
            holders[old].add(work.change.uid)
        if changed and work.new is not None:
            holders[work.new].add(work.change.uid)
    found = []
    versions = sorted(holders)
    for i, one in enumerate(versions):
        for other in versions[i + 1 :]:
            if not moving and one in now and other in now:
                continue
            if len(holders[one] | holders[other]) > 1:
                found.append((one, other))
    return found
