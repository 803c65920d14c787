"""Compatibility tables for people and machines: each row with its place and its source."""

from __future__ import annotations

from typing import Any

from fleetctl.cli.terminal import clean
from fleetctl.cli.views import table
from manifests.manifest import Manifests
from manifests.schema.compatibility import Compatibility, Environment, When
from planner.compat import Pairs
from planner.strategy import way


def rows(manifests: Manifests, product: str) -> list[dict[str, Any]]:
    """The pairs of a product in the order in which they are asked, as JSON values."""
    found = []
    for n, document in enumerate(_documents(manifests, product)):
        for i, pair in enumerate(document.pairs):
            span = manifests.where(("Compatibility", f"{product}#{n}"), ("pairs", i))
            found.append(
                pair.model_dump(mode="json", by_alias=True) | {"place": None if span is None else str(span)}
            )
    return found


def render(manifests: Manifests, product: str) -> str:
    """The pairs as a table, then what each says why and whence, then what versions make of their environment."""
    found = rows(manifests, product)
    header = ("from", "to", "way", "back", "where")
    cells = [(r["from"], r["to"], r["mode"] + _when(r["when"]), _back(r), r["place"] or "-") for r in found]
    lines = table.render(header, cells)
    told = [(r, "; ".join(clean(t) for t in (r["reason"], r["source"]) if t)) for r in found]
    lines += ["", *(f"{r['from']} -> {r['to']}{_when(r['when'])}: {text}" for r, text in told if text)]
    rules = [rule for d in _documents(manifests, product) for rule in d.environment]
    if rules:
        lines += ["", "Environment:", *(f"  {_rule(rule)}" for rule in rules)]
    return "\n".join(lines)


def answer(manifests: Manifests, product: str, old: str, new: str) -> dict[str, Any]:
    """What the tables say of one transition, as a JSON value; `path` is the declared way round, if there is one."""
    pairs = Pairs(manifests, product)
    verdict = pairs.transition(old, new)
    declared = [r for r in rows(manifests, product) if {r["from"], r["to"]} == {old, new}]
    path = [] if verdict.mode in ("rolling", "full", "same") else pairs.path(old, new)
    return {
        "product": product,
        "from": old,
        "to": new,
        "mode": verdict.mode,
        "reverse": verdict.reverse,
        "reason": verdict.reason,
        "place": verdict.place,
        "rows": declared,
        "path": way(path) if path else None,
    }


_SAYS = {
    "rolling": "rolling: both may be live together",
    "full": "full: everything stops, changes, and starts again, with the downtime accepted",
    "refuse": "refused",
    "unknown": "unknown: no pair goes there, so nothing says that both can serve together",
    "same": "the same version",
}


def render_answer(said: dict[str, Any]) -> str:
    """The answer in sentences."""
    lines = [f"{said['product']} {said['from']} -> {said['to']}: {_SAYS[said['mode']]}"]
    if said["mode"] in ("rolling", "full"):
        lines.append(f"  the way back: {said['reverse']}")
    for row in said["rows"]:
        text = "; ".join(clean(t) for t in (row["reason"], row["source"]) if t)
        lines.append(
            f"  {row['place'] or 'a document made by a program'}: {row['from']} -> {row['to']} {row['mode']}"
            f"{_when(row['when'])}, back {_back(row)}" + (f": {text}" if text else "")
        )
    if said["path"]:
        lines.append(f"  declared is: {said['path']}; plan it with: fleetctl plan --via")
    return "\n".join(lines)


def _documents(manifests: Manifests, product: str) -> list[Compatibility]:
    return [d for d in manifests.compatibility if d.product == product]


def _when(when: dict[str, Any] | None) -> str:
    if when is None:
        return ""
    settings = When.model_validate(when).env
    return f" where {', '.join(f'{name}={value}' for name, value in settings.items())}"


def _back(row: dict[str, Any]) -> str:
    return f"if the log has {row['evidence']['log']!r}" if row["evidence"] else str(row["reverse"])


def _rule(rule: Environment) -> str:
    parts = []
    if rule.refuses:
        parts.append(f"does not start with {', '.join(rule.refuses)}")
    if rule.requires:
        parts.append(f"does not start without {', '.join(rule.requires)}")
    parts += [f"calls {old} now {new}" for old, new in rule.renamed.items()]
    until = f" to before {rule.until}" if rule.until else " on"
    return f"from {rule.since}{until}: {'; '.join(parts)}"
