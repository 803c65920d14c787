"""YAML text -> nodes with positions. Composed, never constructed; limits on size, depth and aliases.

A document's root and everything in it are PyYAML nodes: each has `start_mark` (file, line, column), each
scalar the text as it was written. `manifests.tree` gives them values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml
from yaml._yaml import CParser
from yaml.nodes import MappingNode, Node, ScalarNode

from manifests import expansion
from manifests.diagnostics import Diagnostic, Span, error
from manifests.expansion import DEPTH_MAX, span_of, too_deep

# A manifest of 100,000 nodes written out one by one has some 15 MB; more is not a manifest.
FILE_BYTES_MAX = 32 * 1024 * 1024
# 100,000 nodes with twenty values each.
NODES_MAX = 2_500_000

PLAIN = "plain"
TEXT = "text"
COLLECTION = "collection"
_CORE = "tag:yaml.org,2002:"
# Tags that say what is so anyway.
HARMLESS_TAGS = {_CORE + "str": TEXT, _CORE + "map": COLLECTION, _CORE + "seq": COLLECTION}
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document of a file: its root node (a mapping), and whether the file was given whole."""

    file: str
    root: MappingNode


class _LimitError(Exception):
    """A limit was passed while composing; says which, and where."""

    def __init__(self, finding: Diagnostic) -> None:
        super().__init__(finding.summary)
        self.finding = finding


class _Stream:
    """Bytes with a name: the one way to tell the parser the file's name, which every position then has."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._at = 0
        self.name = name

    def read(self, size: int = -1, /) -> bytes:
        at = self._at
        if size < 0:
            size = len(self._data)
        self._at = at + size
        return self._data[at : self._at]


class _Composer(CParser):
    """The C composer, which calls back for each node: here that only counts and tells plain from quoted."""

    def __init__(self, text: str, file: str) -> None:
        CParser.__init__(self, _Stream(text.encode(), file))
        self.file = file
        self.count = 0
        self.depth = 0

    def descend_resolver(self, parent: Any, index: Any) -> None:  # noqa: ARG002 - the parser's callback
        self.count += 1
        self.depth += 1
        if self.depth > DEPTH_MAX or self.count > NODES_MAX:
            raise _LimitError(self._finding(parent))

    def ascend_resolver(self) -> None:
        self.depth -= 1

    def resolve(self, kind: type[Node], value: str, implicit: tuple[bool, bool]) -> str:  # noqa: ARG002
        if kind is ScalarNode:
            return PLAIN if implicit[0] else TEXT
        return COLLECTION

    def _finding(self, parent: Node | None) -> Diagnostic:
        span = None if parent is None else span_of(parent, self.file)
        if self.depth > DEPTH_MAX:
            return too_deep(span)
        return error(
            "yaml.too-many-values",
            "The file holds too many values",
            f"More than {NODES_MAX:,} values; a typing mistake, or several fleets in one file.",
            span=span,
            hint="split it into several files",
        )


def decode(data: bytes, file: str) -> tuple[str, list[Diagnostic]]:
    """The text of a file's bytes: UTF-8, a byte order mark of its own kind is dropped; else a finding."""
    if len(data) > FILE_BYTES_MAX:
        return "", [
            error(
                "yaml.too-large",
                "The file is too large for a manifest",
                f"{len(data):,} bytes; at most {FILE_BYTES_MAX:,} are read.",
                span=Span(file, 1, 1),
            )
        ]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:4] == b"\x00\x00\xfe\xff":
        return "", [
            error(
                "yaml.encoding",
                "The file is not UTF-8",
                "It begins with the byte order mark of UTF-16 or UTF-32.",
                span=Span(file, 1, 1),
                hint="save it as UTF-8",
            )
        ]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        before = data[: e.start].decode("utf-8", "replace")
        return "", [
            error(
                "yaml.encoding",
                "The file is not UTF-8",
                f"Byte {e.start} (0x{data[e.start]:02x}) does not continue any character.",
                span=Span(file, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1),
                hint="save it as UTF-8",
            )
        ]
    found = _CONTROL.search(text)
    if found is not None:
        at = found.start()
        return "", [
            error(
                "yaml.control-character",
                "The file holds a control character",
                f"U+{ord(found[0]):04X} is not allowed in YAML; the file may be damaged.",
                span=Span(file, text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1),
            )
        ]
    return text, []


def compose(data: bytes, file: str) -> tuple[list[Document], list[Diagnostic]]:
    """The documents of a file, empty ones skipped, and every finding on the way.

    Arguments: the file's bytes, and its name as findings should show it. Never raises for bad input:
    what cannot be composed is a finding with line and column, and the documents before it are given.
    """
    text, findings = decode(data, file)
    if findings:
        return [], findings
    documents: list[Document] = []
    composer = _Composer(text, file)
    try:
        while composer.check_node():
            root = composer.get_node()
            if root is None:
                break
            if isinstance(root, MappingNode):
                problem = expansion.check(root) if "*" in text and "&" in text else None
                if problem is None:
                    documents.append(Document(file, root))
                else:
                    findings.append(problem)
            elif not _is_empty(root):
                findings.append(
                    error(
                        "yaml.not-a-mapping",
                        "A document is not a mapping",
                        "A manifest begins with `api_version:` and `kind:`.",
                        span=span_of(root, file),
                    )
                )
    except _LimitError as e:
        findings.append(e.finding)
    except yaml.MarkedYAMLError as e:
        findings.append(_syntax(e, text, file))
    except yaml.YAMLError as e:
        findings.append(error("yaml.syntax", "The file is not YAML", str(e), span=Span(file, 1, 1)))
    finally:
        composer.dispose()
    if not documents and not findings:
        findings.append(
            error(
                "yaml.empty",
                "The file holds no document",
                "An empty manifest is never read as the wish for nothing.",
                span=Span(file, 1, 1),
                hint="write a document, or leave the file out",
            )
        )
    return documents, findings


def _is_empty(root: Node) -> bool:
    return isinstance(root, ScalarNode) and root.tag == PLAIN and root.value in ("", "~", "null")


def _syntax(e: yaml.MarkedYAMLError, text: str, file: str) -> Diagnostic:
    mark = e.problem_mark or e.context_mark
    line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    lines = text.split("\n", line + 1)
    written = lines[line] if line < len(lines) else ""
    detail = "; ".join(part for part in (e.context, e.problem) if part)
    hint = None
    if "\t" in written[: column + 1] and not written[: column + 1].strip(" \t"):
        hint = "indent with spaces; YAML forbids tabs there"
    elif "document start" in detail:
        hint = "text after `...` needs a line `---` before it"
    elif "mapping values are not allowed" in detail:
        hint = "quote a value that holds `: `"
    elif "cannot start any token" in detail:
        hint = "quote a value that begins with @, `, % or a template"
    elif "nesting depth" in detail:
        return too_deep(Span(file, line + 1, column + 1))
    return error(
        "yaml.syntax", "The file is not YAML", detail + ".", span=Span(file, line + 1, column + 1), hint=hint
    )
