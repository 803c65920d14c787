"""One document laid over another: mappings merge by key, lists of named things by name, the rest is replaced.

The rules, which the reference repeats:

- A mapping merges key by key, at every level; `null` takes a key away that the base wrote.
- A list of named things (`LISTS`) merges by name, in the order of the base; new ones follow.
- Every other value, and every other list, is replaced as a whole. So is one env variable.
"""

from __future__ import annotations

from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from manifests.source import COLLECTION
from manifests.tree import entry

# By kind and key path (list places left out): what names an item of the list.
LISTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("Fleet", "groups"): ("name",),
    ("Fleet", "groups", "nodes"): ("name",),
    ("Fleet", "groups", "process", "files"): ("path",),
    ("Fleet", "groups", "nodes", "process", "files"): ("path",),
    ("Fleet", "groups", "container", "volumes"): ("name",),
    ("Fleet", "groups", "domain", "volumes"): ("name",),
    ("Release", "artifacts"): ("substrate", "arch"),
}
# Free names whose value is one thing, whatever form it has.
WHOLE: frozenset[tuple[str, ...]] = frozenset(
    {("Fleet", "groups", "process", "env"), ("Fleet", "groups", "nodes", "process", "env")}
)
# What an item has that does not say.
_DEFAULTS = {"arch": "any"}


def lay(
    kind: str, base: MappingNode, base_value: dict[str, Any], over: MappingNode, over_value: dict[str, Any]
) -> tuple[MappingNode, dict[str, Any]]:
    """The node and the value of `over` laid over `base`. Every node in the result is one that was written."""
    return _mapping((kind,), base, base_value, over, over_value)


def _mapping(
    path: tuple[str, ...],
    base: MappingNode,
    base_value: dict[str, Any],
    over: MappingNode,
    over_value: dict[str, Any],
) -> tuple[MappingNode, dict[str, Any]]:
    pairs: list[tuple[ScalarNode, Node]] = []
    value: dict[str, Any] = {}
    for key in (*base_value, *(k for k in over_value if k not in base_value)):
        below, above = entry(base, key), entry(over, key)
        if above is None or key not in over_value:
            if below is not None:
                pairs.append(below)
                value[key] = base_value[key]
            continue
        if below is None or key not in base_value:
            pairs.append(above)
            value[key] = over_value[key]
            continue
        if over_value[key] is None:
            continue
        node, laid = _value((*path, key), below[1], base_value[key], above[1], over_value[key], path in WHOLE)
        pairs.append((above[0], node))
        value[key] = laid
    return MappingNode(COLLECTION, pairs, over.start_mark, over.end_mark), value


def _value(
    path: tuple[str, ...], base: Node, base_value: Any, over: Node, over_value: Any, whole: bool
) -> tuple[Node, Any]:
    both = isinstance(base_value, dict) and isinstance(over_value, dict)
    if both and not whole and isinstance(base, MappingNode) and isinstance(over, MappingNode):
        return _mapping(path, base, base_value, over, over_value)
    named = LISTS.get(path)
    if named is not None and isinstance(base_value, tuple) and isinstance(over_value, tuple):
        return _named(path, named, base, base_value, over, over_value)
    return over, over_value


def _named(
    path: tuple[str, ...],
    named: tuple[str, ...],
    base: Node,
    base_value: tuple[Any, ...],
    over: Node,
    over_value: tuple[Any, ...],
) -> tuple[Node, Any]:
    above = {_name(named, v): i for i, v in enumerate(over_value)}
    if len(above) < len(over_value):
        # Two items of one name: the rules will say so, at the place where they stand.
        return over, over_value
    nodes: list[Node] = []
    values: list[Any] = []
    used: set[int] = set()
    for i, item in enumerate(base_value):
        j = above.get(_name(named, item))
        node, value = base.value[i], item
        if j is not None:
            used.add(j)
            node, value = _value(path, node, item, over.value[j], over_value[j], whole=False)
        nodes.append(node)
        values.append(value)
    for j, item in enumerate(over_value):
        if j not in used:
            nodes.append(over.value[j])
            values.append(item)
    return SequenceNode(COLLECTION, nodes, over.start_mark, over.end_mark), tuple(values)


def _name(named: tuple[str, ...], item: Any) -> tuple[Any, ...]:
    """What names an item; an item that does not say is like no other."""
    if isinstance(item, dict) and all(isinstance(item.get(k, _DEFAULTS.get(k)), str) for k in named):
        return tuple(item.get(k, _DEFAULTS.get(k)) for k in named)
    return (id(item),)
