"""Budgets in whole nodes: a rollout must be able to start, and must not be able to take everything.

Percentages round down, and one that rounds to zero is refused, never bumped. `max_unavailable` must be less
than `count - reserve` when `reserve` is above 0 (design section 4).
"""

from __future__ import annotations

from fractions import Fraction

from manifests.bounds import resolve
from manifests.manifest import Key, Path
from manifests.rules.review import Review, fleet_key, listed, size
from manifests.schema.fleet import Fleet, Group
from manifests.suggest import did_you_mean


def check(review: Review) -> None:
    """The budget of every fleet, and of every group that has its own."""
    for fleet in review.manifests.fleets.values():
        key = fleet_key(fleet)
        rollout = fleet.rollout
        count = sum(size(group) for group in fleet.groups)
        _budget(
            review, key, ("rollout",), f"fleet {fleet.name}", count, rollout.max_unavailable, rollout.reserve
        )
        for i, group in enumerate(fleet.groups):
            if group.budget is not None:
                path: Path = ("groups", i, "budget")
                budget = group.budget
                _budget(
                    review,
                    key,
                    path,
                    f"group {group.name}",
                    size(group),
                    budget.max_unavailable,
                    budget.reserve,
                )
        _canary(review, fleet, count)
        _labels(review, fleet)


def arithmetic(bound: int | str, count: int) -> str:
    """How a bound became a number: `25% of 3 is 0.75, rounded down to 0`."""
    if isinstance(bound, int):
        return str(bound)
    exact = Fraction(count * int(bound.removesuffix("%")), 100)
    whole = resolve(bound, count)
    shown = f"{float(exact):g}"
    return f"{bound} of {count} is {shown}" + ("" if exact == whole else f", rounded down to {whole}")


def _budget(
    review: Review, key: Key, path: Path, what: str, count: int, bound: int | str, reserve_bound: int | str
) -> None:
    if count == 0:
        return
    down, reserve = resolve(bound, count), resolve(reserve_bound, count)
    if down == 0:
        rounded = isinstance(bound, str) and bound != "0%"
        review.error(
            "budget.rounds-to-zero" if rounded else "budget.zero",
            "A percentage rounds to zero nodes" if rounded else "No node may be down",
            f"max_unavailable of {what}: {arithmetic(bound, count)}; ports are fixed, so a rollout takes each node "
            "down once and could never start.",
            key,
            (*path, "max_unavailable"),
            f"write a number, such as 1, or at least {-(-100 // count)}%"
            if count <= 100
            else "write a number from 1",
        )
        return
    if isinstance(reserve_bound, str) and reserve == 0 and reserve_bound != "0%":
        review.error(
            "budget.rounds-to-zero",
            "A percentage rounds to zero nodes",
            f"reserve of {what}: {arithmetic(reserve_bound, count)}; it would protect nothing.",
            key,
            (*path, "reserve"),
            f"write a number, such as 1, or at least {-(-100 // count)}%",
        )
    elif reserve > 0 and not down < count - reserve:
        review.error(
            "budget.reserve",
            "A budget reaches into its reserve",
            f"{what}: max_unavailable {arithmetic(bound, count)}, reserve {arithmetic(reserve_bound, count)}; "
            f"{down} is not less than {count} - {reserve}.",
            key,
            (*path, "max_unavailable"),
            f"write max_unavailable {count - reserve - 1} or less"
            if count - reserve > 1
            else f"{count} node{'s' if count > 1 else ''} cannot roll and keep a reserve of {reserve}: lower it",
        )
    elif down == count > 1:
        review.warn(
            "budget.all",
            "A rollout may take every node down at once",
            f"max_unavailable of {what}: {arithmetic(bound, count)}, which is all of them.",
            key,
            (*path, "max_unavailable"),
        )


def _canary(review: Review, fleet: Fleet, count: int) -> None:
    canary = fleet.rollout.canary
    if canary is not None and 0 < count <= canary.count:
        review.error(
            "rollout.canary",
            "The canary is the whole fleet",
            f"{canary.count} of {count} nodes would go first, and no other would follow.",
            fleet_key(fleet),
            ("rollout", "canary", "count"),
            f"write {count - 1} or less" if count > 1 else "remove `canary`",
        )


def _labels(review: Review, fleet: Fleet) -> None:
    """A bound per label is about every node, so every node says where it belongs."""
    for label in fleet.rollout.max_unavailable_per_label:
        without = [
            name for group in fleet.groups if label not in group.labels for name in _unlabelled(group, label)
        ]
        if without:
            known = {k for group in fleet.groups for k in group.labels}
            known |= {k for group in fleet.groups for node in group.nodes or () for k in node.labels}
            review.error(
                "rollout.label",
                "A bound is about a label that nodes do not have",
                f"Without label {label}: {listed(without)}.",
                fleet_key(fleet),
                ("rollout", "max_unavailable_per_label", label),
                (None if label in known else did_you_mean(label, known))
                or f"write `labels: {{{label}: …}}` in their groups or nodes",
            )


def _unlabelled(group: Group, label: str) -> list[str]:
    """The nodes of a group without the label, or the group itself where it only counts them."""
    if group.nodes is None:
        return [f"group {group.name}"] if size(group) else []
    return [node.name for node in group.nodes if label not in node.labels]
