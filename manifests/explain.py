"""What a key means: read from the annotated example of its kind, which a test holds against the schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from manifests.errors import FleetctlError
from manifests.schema.kinds import ANY_KEY, ITEM, KINDS, key_paths
from manifests.source import compose
from manifests.suggest import did_you_mean


class UnknownKeyError(FleetctlError):
    """There is no such kind or key."""

    code = "explain.unknown"


def explain(key_path: str) -> str:
    """What a key means, in the words of the reference, and how it is written there.

    Arguments: `key_path` is a kind and keys with dots between, without list places: `Fleet`,
    `fleet.groups.health.deadline`. Raises UnknownKeyError, with a suggestion where one is near.
    """
    name, *steps = [part for part in key_path.split(".") if part not in ("", "[]", "*")] or [""]
    kind = next((k for k in KINDS if k.lower() == name.lower()), None)
    if kind is None:
        raise UnknownKeyError(
            f"{name!r} is no kind", hint=did_you_mean(name, KINDS) or f"there are {', '.join(KINDS)}"
        )
    text, roots = reference(kind)
    if not steps:
        return _heading(text)
    known = documented(kind)
    if tuple(steps) not in known:
        siblings = sorted({path[-1] for path in known if path[:-1] == tuple(steps[:-1])})
        hint = did_you_mean(steps[-1], siblings) or (f"there are {', '.join(siblings)}" if siblings else None)
        raise UnknownKeyError(f"{kind} has no key {'.'.join(steps)}", hint=hint)
    lines = text.split("\n")
    sections = [_section(lines, key) for root in roots for key in _find(root, tuple(steps))]
    # The first place that has a comment is where the key is explained.
    best = next((section for section in sections if section[0].startswith("#")), sections[0])
    return "\n".join(best) + "\n"


def documented(kind: str) -> frozenset[tuple[str, ...]]:
    """The key paths of a kind as `explain` takes them: without list places and free names."""
    paths = key_paths(KINDS[kind])
    return frozenset(tuple(step for step in path if step not in (ITEM, ANY_KEY)) for path in paths)


@cache
def reference(kind: str) -> tuple[str, tuple[MappingNode, ...]]:
    """The text of a kind's annotated example, and its documents as nodes."""
    name = f"{kind.lower()}.yaml"
    data = (resources.files("manifests") / "reference" / name).read_bytes()
    documents, findings = compose(data, name)
    assert not findings, findings
    return data.decode(), tuple(document.root for document in documents)


def _find(node: Node, steps: tuple[str, ...]) -> Iterator[ScalarNode]:
    """Every place of a key; list places and free names are passed through."""
    if isinstance(node, SequenceNode):
        for item in node.value:
            yield from _find(item, steps)
    elif isinstance(node, MappingNode):
        named = [(key, value) for key, value in node.value if key.value == steps[0]]
        for key, value in named:
            if len(steps) == 1:
                yield key
            else:
                yield from _find(value, steps[1:])
        if not named:
            for _, value in node.value:
                if isinstance(value, MappingNode):
                    yield from _find(value, steps)


def _section(lines: list[str], key: ScalarNode) -> list[str]:
    """The comment above a key, and the key with its value, without the indentation they share."""
    first, column = key.start_mark.line, key.start_mark.column
    start = first
    while start > 0 and lines[start - 1].strip().startswith("#"):
        start -= 1
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > column):
        end += 1
    section = lines[start:end]
    while section[-1].strip() == "" or section[-1].strip().startswith("#"):
        section.pop()
    comments = [line.strip() for line in section[: first - start]]
    # A key that opens a list item stands behind its dash.
    return comments + [line[column:] for line in section[first - start :]]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _heading(text: str) -> str:
    """The comment that opens a reference file."""
    lines = text.split("\n")
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end]) + "\n"
