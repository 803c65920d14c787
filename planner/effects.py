"""What a plan does, apart from how it is told: the part of it that an approval binds.

Two plans with the same effects may have been made at other times, from manifests in other folders or other
words, and from a state that has gone on elsewhere. Bound are, of every fleet with steps: its lineage; for each
node that is touched the action, the release before and after, the generation and the whole specification; every
step with its target, place in the order and precondition; how the rollout is carried out, the budgets, what was
accepted, the verdicts, and how the hosts are reached. Not bound are ids and times, reasons and warnings, places,
the numbers of what was available, nodes that are not touched, and where bytes come from that are pinned by
their digest. A plan without steps has no effects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from manifests.digest import digest_of
from manifests.schema.host import Host
from planner.change import Action, Change
from planner.plan import FleetPlan, Plan, Step

# How this machine reaches a host, as against which host that is.
_OWN_WAYS: dict[str, frozenset[str]] = {
    "ssh": frozenset(
        {
            "config_file",
            "connect_timeout",
            "identity_file",
            "known_hosts",
            "pubkey_algorithms",
            "sessions_max",
        }
    ),
    "docker": frozenset({"timeout", "tls"}),
    "libvirt": frozenset({"timeout"}),
}
_FILE = "file:"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that two plans would do otherwise; `approved` and `present` are texts, None where it is absent."""

    address: str
    what: str
    approved: str | None
    present: str | None


def effects(plan: Plan) -> dict[str, Any]:
    """The effects as a JSON value, by fleet."""
    return {fleet.fleet: _fleet(fleet) for fleet in plan.fleets if fleet.steps}


def effects_digest(plan: Plan) -> str:
    """The pin of a plan's effects: equal for plans that do the same."""
    return digest_of(effects(plan))


def differences(approved: Plan, present: Plan) -> tuple[Difference, ...]:
    """What the present plan would do otherwise than the approved one, nodes first; empty when they do the same."""
    before, after = effects(approved), effects(present)
    found: list[Difference] = []
    for fleet in dict.fromkeys((*before, *after)):
        found += _between(fleet, before.get(fleet), after.get(fleet))
    return tuple(found)


def _fleet(plan: FleetPlan) -> dict[str, Any]:
    touched = {c.uid: c for c in plan.changes if c.action is not Action.NOOP}
    hosts = {step.host for step in plan.steps}
    specs: dict[str, set[str]] = {}
    for step in plan.steps:
        if step.uid is not None and step.spec in plan.specs:
            specs.setdefault(step.uid, set()).add(step.spec)
    return {
        "lineage": plan.lineage,
        "rollout": plan.rollout.model_dump(mode="json"),
        "budgets": {
            b.scope: b.model_dump(mode="json", exclude={"available_now", "minimum", "scope"})
            for b in plan.budgets
        },
        "verdicts": {
            f"{v.product} {v.from_} -> {v.to}{' (together)' if v.together else ''}": {
                "mode": v.mode,
                "reverse": v.reverse,
                "evidence": v.evidence,
                "changes_format": v.changes_format,
            }
            for v in plan.verdicts
        },
        "hooks": _bound(plan.hooks.model_dump(mode="json", by_alias=True)),
        "hosts": {name: _host(host) for name, host in sorted(plan.hosts.items()) if name in hosts},
        "nodes": {uid: _node(plan, change, specs.get(uid, set())) for uid, change in sorted(touched.items())},
        "steps": [_step(plan, step) for step in plan.steps],
    }


def _node(plan: FleetPlan, change: Change, specs: set[str]) -> dict[str, Any]:
    return {
        "node": change.node,
        "group": change.group,
        "host": change.host,
        "action": change.action.value,
        "before": None if change.before is None else change.before.model_dump(mode="json"),
        "after": None if change.after is None else change.after.model_dump(mode="json"),
        "generation": change.generation,
        "data_lost": change.data_lost,
        "losses": sorted(change.losses),
        "specs": [_bound(plan.specs[key].model_dump(mode="json", by_alias=True)) for key in sorted(specs)],
    }


def _step(plan: FleetPlan, step: Step) -> dict[str, Any]:
    told: dict[str, Any] = step.model_dump(
        mode="json",
        include={"after", "disrupts", "floor", "generation", "hook", "host", "kind", "node", "phase", "uid"},
    )
    told["precondition"] = None if step.precondition is None else step.precondition.model_dump(mode="json")
    # A stage step names a node whose artifact it brings; which of several it is says nothing.
    told["brings"] = (
        [pin.digest for pin in plan.specs[step.spec].pins]
        if step.uid is None and step.spec in plan.specs
        else None
    )
    return told


def _host(host: Host) -> Any:
    told = host.model_dump(mode="json", by_alias=True)
    for key, own in _OWN_WAYS.items():
        if isinstance(told[key], dict):
            told[key] = {k: v for k, v in told[key].items() if k not in own}
    return _bound(told)


def _bound(value: Any) -> Any:
    """Without the sources of bytes that a digest pins, and without the folders of secrets' files."""
    if isinstance(value, dict):
        pinned = value.get("digest") is not None
        return {
            key: _secret(inner) if key == "secret" and isinstance(inner, str) else _bound(inner)
            for key, inner in value.items()
            if not (pinned and key == "source")
        }
    if isinstance(value, list):
        return [_bound(inner) for inner in value]
    return value


def _secret(reference: str) -> str:
    return _FILE + reference.rpartition("/")[2] if reference.startswith(_FILE) else reference


def _between(fleet: str, before: Any, after: Any) -> Iterator[Difference]:
    was, now = before or {}, after or {}
    explained = False
    for uid in dict.fromkeys((*was.get("nodes", ()), *now.get("nodes", ()))):
        old, new = was.get("nodes", {}).get(uid), now.get("nodes", {}).get(uid)
        address = f"node/{fleet}/{(new or old)['node']}"
        if old is None or new is None:
            explained = True
            yield Difference(address, "change", _told(old), _told(new))
        else:
            explained |= old != new
            yield from _of_node(address, old, new)
    if not was or not now:
        return
    for part in ("lineage", "rollout", "budgets", "verdicts", "hooks", "hosts"):
        for what, one, other in _leaves(was[part], now[part], part):
            explained = True
            yield Difference(f"fleet/{fleet}", what, one, other)
    if not explained:
        for number, (one, other) in enumerate(zip_longest(was["steps"], now["steps"])):
            for what, left, right in _leaves(one, other, f"step {number}"):
                yield Difference(f"fleet/{fleet}", what, left, right)


def _of_node(address: str, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Difference]:
    one, other = _told(old), _told(new)
    told = () if one == other else ("action", "before", "after")
    if told:
        yield Difference(address, "change", one, other)
    was, now = ({k: v for k, v in node.items() if k not in told} for node in (old, new))
    for what, left, right in _leaves(was, now):
        yield Difference(address, what, left, right)


def _told(node: dict[str, Any] | None) -> str | None:
    if node is None:
        return None
    versions = [node[side]["version"] for side in ("before", "after") if node[side] is not None]
    return " ".join((node["action"], " -> ".join(dict.fromkeys(versions)))).strip()


def _leaves(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, str | None, str | None]]:
    """The places where two JSON values differ, as deep as both go."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            yield from _leaves(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _leaves(left, right, f"{path}.{i}" if len(one) > 1 else path)
    else:
        yield path, _text(one), _text(other)


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)
