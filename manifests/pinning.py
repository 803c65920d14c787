"""The pins in Release documents: where they are written, and texts with other digests in their places.

Works on the text as it was written, so that comments, order and layout stay; documents need not be valid yet, since
a digest that is missing is what pinning is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from manifests.errors import FleetctlError, ManifestError
from manifests.schema.base import API_VERSION
from manifests.source import compose, decode

INDENT = 2


class Unpinnable(FleetctlError):
    """A Release document cannot be pinned as it stands."""

    code = "pin.document"


@dataclass(frozen=True, slots=True)
class Pinned:
    """One artifact of a Release document, as written. `digest` is None where there is none yet.

    `place` is file:line; `_source` and `_digest` are the scalars that may be replaced.
    """

    product: str
    version: str
    substrate: str
    arch: str
    source: str
    digest: str | None
    place: str
    _source: ScalarNode
    _digest: ScalarNode | None
    _flow: bool
    _column: int

    @property
    def address(self) -> str:
        """`hello 1.1.0 host/any`."""
        return f"{self.product} {self.version} {self.substrate}/{self.arch}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an artifact is to be pinned to: its source as it is to be written, and its digest."""

    source: str
    digest: str


Edit = tuple[int, int, str]
"""Characters from, to, and what stands there afterwards."""


def text_of(data: bytes, file: str) -> str:
    """The text that the places are in. Raises ManifestError for what is not YAML."""
    _, findings = compose(data, file)
    if findings:
        raise ManifestError(findings)
    return decode(data, file)[0]


def pins(data: bytes, file: str) -> list[Pinned]:
    """Every artifact of every Release document of a file. Raises ManifestError, and Unpinnable."""
    documents, findings = compose(data, file)
    if findings:
        raise ManifestError(findings)
    return [pin for d in documents if _text(d.root, "kind") == "Release" for pin in _release(d.root, file)]


def _release(root: MappingNode, file: str) -> Iterator[Pinned]:
    product, version = _text(root, "product"), _text(root, "version")
    listed = _value(root, "artifacts")
    line = root.start_mark.line + 1
    if product is None or version is None or not isinstance(listed, SequenceNode):
        raise Unpinnable(
            f"{file}:{line}: a Release has no product, no version or no artifacts",
            hint="write them; only `digest` may be missing",
        )
    for item in listed.value:
        source = _value(item, "source") if isinstance(item, MappingNode) else None
        substrate = _text(item, "substrate") if isinstance(item, MappingNode) else None
        place = f"{file}:{item.start_mark.line + 1}"
        if not isinstance(source, ScalarNode) or substrate is None:
            raise Unpinnable(f"{place}: an artifact has no substrate or no source", hint="write both")
        digest = _value(item, "digest")
        yield Pinned(
            product,
            version,
            substrate,
            _text(item, "arch") or "any",
            source.value,
            digest.value if isinstance(digest, ScalarNode) else None,
            place,
            source,
            digest if isinstance(digest, ScalarNode) else None,
            bool(item.flow_style),
            item.value[0][0].start_mark.column,
        )


def edits(pin: Pinned, wanted: Wanted, text: str) -> list[Edit]:
    """What makes an artifact say what is wanted; nothing where it does."""
    made: list[Edit] = []
    if wanted.source != pin.source:
        made.append((*_span(pin._source, text), _scalar(wanted.source, pin._source)))
    if pin._digest is not None:
        if wanted.digest != pin.digest:
            made.append((*_span(pin._digest, text), f'"{wanted.digest}"'))
        return made
    written = f'digest: "{wanted.digest}"'
    _, end = _span(pin._source, text)
    if pin._flow:
        made.append((end, end, f", {written}"))
    else:
        at = text.find("\n", end)
        at = len(text) if at < 0 else at
        made.append((at, at, "\n" + " " * pin._column + written))
    return made


def edited(text: str, made: list[Edit]) -> str:
    """The text with its edits, which do not overlap."""
    for start, end, new in sorted(made, reverse=True):
        text = text[:start] + new + text[end:]
    return text


def release_document(product: str, version: str, artifacts: Mapping[tuple[str, str], Wanted]) -> str:
    """A new Release document; `artifacts` by substrate and architecture."""
    lines = [
        f"api_version: {API_VERSION}",
        "kind: Release",
        f"product: {product}",
        f'version: "{version}"',
        "artifacts:",
        *(line for key, wanted in artifacts.items() for line in _item(*key, wanted)),
    ]
    return "\n".join(lines) + "\n"


def appended(text: str, document: str) -> str:
    """A file's text with one more document at its end."""
    if not text.strip():
        return document
    return f"{text.rstrip()}\n---\n{document}"


def with_artifact(
    data: bytes, file: str, release: tuple[str, str], key: tuple[str, str], wanted: Wanted
) -> Edit:
    """What adds an artifact to a Release that is there, as the last of its list. Raises Unpinnable."""
    text = text_of(data, file)
    for document in compose(data, file)[0]:
        root = document.root
        if _text(root, "kind") != "Release" or (_text(root, "product"), _text(root, "version")) != release:
            continue
        listed = _value(root, "artifacts")
        if not isinstance(listed, SequenceNode) or listed.flow_style or not listed.value:
            break
        dash = text.rfind("-", 0, listed.value[0].start_mark.index)
        column = dash - (text.rfind("\n", 0, dash) + 1)
        at = text.find("\n", _last(listed.value[-1]).end_mark.index)
        at = len(text) if at < 0 else at
        return at, at, "".join("\n" + " " * (column - INDENT) + line for line in _item(*key, wanted))
    raise Unpinnable(
        f"{file}: an artifact cannot be added to the list of {' '.join(release)}",
        hint="write the artifacts as a list with dashes, each on its own line",
    )


def _item(substrate: str, arch: str, wanted: Wanted) -> list[str]:
    return [
        f"  - substrate: {substrate}",
        f"    arch: {arch}",
        f"    source: {_scalar(wanted.source, None)}",
        f'    digest: "{wanted.digest}"',
    ]


def _scalar(value: str, before: ScalarNode | None) -> str:
    """A text as it was quoted before; in double quotes where a bare one could be read as something else."""
    bare = (
        value
        and all(c.isalnum() or c in "./_-+:@" for c in value)
        and value[0].isalnum() | (value[0] in "./")
    )
    if bare and (before is None or not before.style) and not value.endswith(":"):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _span(node: Node, text: str) -> tuple[int, int]:
    """The characters of a scalar, without the line breaks that end one after `|` or `>`."""
    start = node.start_mark.index
    return start, start + len(text[start : node.end_mark.index].rstrip())


def _value(node: Node, key: str) -> Any:
    if isinstance(node, MappingNode):
        return next((value for k, value in node.value if k.value == key), None)
    return None


def _text(node: Node, key: str) -> str | None:
    found = _value(node, key)
    return found.value if isinstance(found, ScalarNode) else None


def _last(node: Node) -> Node:
    """The scalar that ends a value: a block's own end mark lies behind the comments that follow it."""
    while isinstance(node, (MappingNode, SequenceNode)) and node.value and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return node
