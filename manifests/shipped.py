"""Compatibility tables that ship with the package: laid under what the manifests declare for the product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

from manifests.address import is_name
from manifests.diagnostics import Span
from manifests.manifest import SHIPPED, Key, Manifests, Path
from manifests.schema.compatibility import Compatibility

FOLDER = "manifests.tables"


def with_tables(manifests: Manifests) -> Manifests:
    """The manifests with the tables of their fleets' products after what they declare themselves."""
    named = {fleet.release.product for fleet in manifests.fleets.values()}
    shipped = tables(named | {document.product for document in manifests.compatibility})
    if not shipped:
        return manifests
    own = Counter(document.product for document in manifests.compatibility)
    keys = {("Compatibility", f"{t.product}#{own[t.product]}"): t.product for t in shipped}

    def where(key: Key, path: Path) -> Span | None:
        product = keys.get(key)
        if product is None:
            return manifests.where(key, path)
        return place(product, str(path[0]), int(path[1])) if len(path) > 1 else None

    return replace(manifests, compatibility=(*manifests.compatibility, *shipped), where=where)


def shipped(product: str) -> Manifests:
    """What ships about a product, and nothing else; empty for most."""
    found = tables([product])

    def where(key: Key, path: Path) -> Span | None:
        known = key == ("Compatibility", f"{product}#0") and len(path) > 1
        return place(product, str(path[0]), int(path[1])) if known else None

    return Manifests(fleets={}, hosts={}, releases={}, compatibility=found, where=where)


def tables(products: Iterable[str]) -> tuple[Compatibility, ...]:
    """The shipped tables of these products, in order of their names; most products have none."""
    return tuple(found[0] for p in sorted(set(products)) if (found := _table(p)) is not None)


def place(product: str, key: str, index: int) -> Span | None:
    """Where an item of a shipped table's `pairs` or `environment` is written."""
    found = _table(product)
    line = None if found is None else found[1].get((key, index))
    return None if line is None else Span(f"{SHIPPED}tables/{product}.yaml", line, 5)


@cache
def _table(product: str) -> tuple[Compatibility, dict[tuple[str, int], int]] | None:
    file = resources.files(FOLDER) / f"{product}.yaml"
    if not is_name(product) or not file.is_file():
        return None
    import yaml

    text = file.read_text(encoding="utf-8")
    document = Compatibility.model_validate(_frozen(yaml.load(text, yaml.CSafeLoader)))
    lines: dict[tuple[str, int], int] = {}
    root = yaml.compose(text, yaml.CSafeLoader)
    assert isinstance(root, yaml.MappingNode)
    for key, value in root.value:
        if isinstance(value, yaml.SequenceNode):
            for i, item in enumerate(value.value):
                lines[key.value, i] = item.start_mark.line + 1
    return document, lines


def _frozen(value: Any) -> Any:
    """Lists become tuples, as the loader hands them to the models."""
    if isinstance(value, list):
        return tuple(_frozen(v) for v in value)
    if isinstance(value, dict):
        return {k: _frozen(v) for k, v in value.items()}
    return value
