"""What a shell offers behind a word: names out of the manifests that the command would read.

A shell waits for this at each press of a key, so manifests are composed and not loaded: no schema, no template, no
other import than YAML's. Whatever goes wrong offers nothing and says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem
    from yaml.nodes import Node

# A larger file takes longer to read than a person waits for a key.
FILE_B_MAX = 2 * 2**20
# More than this nobody reads; a shell asks again with the next letter.
OFFERED_MAX = 200
_SUFFIXES = (".yaml", ".yml")
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem[str]]"]


@dataclass(slots=True)
class Names:
    """What the manifests name; `nodes` and `groups` by fleet, `versions` by product."""

    fleets: dict[str, None] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, None] = field(default_factory=lambda: {"localhost": None})
    versions: dict[str, list[str]] = field(default_factory=dict)


def _completer(find: Callable[[click.Context, str], Iterable[str]]) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        del param
        try:
            found = [text for text in dict.fromkeys(find(ctx, incomplete)) if text.startswith(incomplete)]
        except Exception:  # noqa: BLE001 - a shell's prompt is no place for an error
            return []
        return [CompletionItem(text) for text in found[:OFFERED_MAX]]

    return complete


def _addresses(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """The kinds first, then the names of the kind that was begun: a fleet of a thousand nodes is not offered whole."""
    kind, slash, _ = incomplete.partition("/")
    if not slash:
        yield from ("fleet/", "group/", "node/", "host/")
        return
    found = names(ctx)
    if kind == "fleet":
        yield from (f"fleet/{name}" for name in found.fleets)
    elif kind == "host":
        yield from (f"host/{name}" for name in found.hosts)
    elif kind in ("group", "node"):
        of = found.groups if kind == "group" else found.nodes
        yield from (f"{kind}/{fleet}/{name}" for fleet, inside in of.items() for name in inside)


def _versions(ctx: click.Context, incomplete: str) -> Iterator[str]:
    del incomplete
    product = ctx.params.get("product")
    for name, versions in names(ctx).versions.items():
        if product in (None, name):
            yield from versions


def _keys(ctx: click.Context, incomplete: str) -> Iterator[str]:
    """Keys of the annotated examples, one level at a time."""
    del ctx
    from importlib import resources

    kind, dot, rest = incomplete.partition(".")
    folder = resources.files("manifests") / "reference"
    if not dot:
        yield from (p.name.removesuffix(".yaml") for p in folder.iterdir() if p.name.endswith(".yaml"))
        return
    before = rest.rpartition(".")[0]
    steps = before.split(".") if before else []
    for document in _compose((folder / f"{kind.lower()}.yaml").read_bytes()):
        level = [document]
        for step in steps:
            level = [value for node in level for key, value in _pairs(node) if key == step]
        yield from (".".join([kind, *steps, key]) for node in level for key, _ in _pairs(node))


addresses = _completer(_addresses)
"""`--target`: fleet/NAME, group/FLEET/NAME, node/FLEET/NAME, host/NAME."""
fleets = _completer(lambda ctx, _: names(ctx).fleets)
nodes = _completer(lambda ctx, _: (name for inside in names(ctx).nodes.values() for name in inside))
hosts = _completer(lambda ctx, _: names(ctx).hosts)
products = _completer(lambda ctx, _: ["celld", *names(ctx).versions])
versions = _completer(_versions)
keys = _completer(_keys)


def names(ctx: click.Context) -> Names:
    """The names in the manifests that are named on the command line so far; without any, in the current folder."""
    given = [*(ctx.params.get("files") or ()), *(ctx.params.get("paths") or ())] or [Path()]
    found = Names()
    for path in given:
        for file in _files(Path(path)):
            for document in _compose(file.read_bytes()):
                _read(document, found)
    return found


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        listed = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES and not p.name.startswith("."))
    else:
        listed = [path]
    yield from (p for p in listed if p.is_file() and p.stat().st_size <= FILE_B_MAX)


def _compose(data: bytes) -> list[Node]:
    """The documents of a file; those before a mistake where there is one."""
    import yaml

    found: list[Node] = []
    with suppress(yaml.YAMLError):
        found.extend(yaml.compose_all(data, Loader=yaml.CSafeLoader))
    return found


def _read(document: Node, found: Names) -> None:
    top = dict(_pairs(document))
    name = _text(top.get("name"))
    match _text(top.get("kind")):
        case "Host" if name:
            found.hosts[name] = None
        case "Release":
            found.versions.setdefault(_text(top.get("product")), []).append(_text(top.get("version")))
        case "Fleet" if name:
            found.fleets[name] = None
            for group in _items(top.get("groups")):
                _read_group(name, dict(_pairs(group)), found)


def _read_group(fleet: str, group: dict[str, Node], found: Names) -> None:
    name, count = _text(group.get("name")), _text(group.get("count"))
    inside = found.nodes.setdefault(fleet, [])
    if name:
        found.groups.setdefault(fleet, []).append(name)
    if count.isdigit():
        inside += [f"{name}-{n}" for n in range(min(int(count), 10_000))]
    inside += [_text(dict(_pairs(node)).get("name")) for node in _items(group.get("nodes"))]


def _pairs(node: Any) -> Iterator[tuple[str, Node]]:
    """The keys and values of a mapping; of a list, those of its items."""
    value = getattr(node, "value", None)
    if not isinstance(value, list):
        return
    for item in value:
        if isinstance(item, tuple):
            yield str(item[0].value), item[1]
        else:
            yield from _pairs(item)


def _items(node: Any) -> list[Node]:
    value = getattr(node, "value", None)
    return value if isinstance(value, list) else []


def _text(node: Any) -> str:
    value = getattr(node, "value", "")
    return value if isinstance(value, str) else ""
