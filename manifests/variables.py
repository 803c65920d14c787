"""The values of `vars`: texts of --var, and mappings from --var-file."""

from __future__ import annotations

import re
from typing import Any

from yaml.nodes import ScalarNode

from manifests.diagnostics import Diagnostic, error
from manifests.expansion import span_of
from manifests.manifest import Path
from manifests.scalars import Ambiguous, disputes_truth, plain
from manifests.source import PLAIN, Document, compose
from manifests.template import Renderer
from manifests.tree import Broken, Reader, locate

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def from_option(name: str, text: str, findings: list[Diagnostic]) -> dict[str, Any]:
    """One --var NAME=TEXT: true, false and whole numbers as such, everything else as the text it is.

    A text cannot lose anything here (1.10 stays 1.10), but `no` as text would count as true in a condition,
    so the words for truth values that YAML versions dispute are refused.
    """
    if not _NAME.fullmatch(name):
        findings.append(
            error(
                "vars.name",
                "A variable's name is not usable",
                f"--var {name}=…: names are letters, digits and underscores, and templates use them as vars.NAME.",
            )
        )
        return {}
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return {name: text[1:-1]}
    value = plain(text)
    if disputes_truth(value):
        findings.append(
            error(
                "vars.ambiguous",
                "A variable's value must be clear",
                f"--var {name}={text}: it is a truth value to some YAML programs and text to others.",
                hint=f"write --var {name}=true or false, or as text: --var '{name}=\"{text}\"'",
            )
        )
        return {}
    return {name: text if value is None or isinstance(value, Ambiguous) else value}


def from_file(data: bytes, file: str, findings: list[Diagnostic]) -> dict[str, Any]:
    """The mapping in a --var-file; its values follow the rules of manifests, its texts are no templates."""
    documents, problems = compose(data, file)
    findings += problems
    values: dict[str, Any] = {}
    for document in documents:
        reader = Reader(Renderer(), {}, findings, templates=False)
        value = reader.value(document.root)
        if isinstance(value, Broken):
            continue
        for name, item in value.items():
            if not _NAME.fullmatch(name):
                findings.append(
                    error(
                        "vars.name",
                        "A variable's name is not usable",
                        f"`{name}`: names are letters, digits and underscores, and templates use them as vars.NAME.",
                        span=span_of(locate(document.root, (name,))[1] or document.root),
                    )
                )
            elif name in values:
                findings.append(
                    error(
                        "yaml.duplicate-key",
                        "A key is written twice",
                        f"`{name}` also stands in an earlier document of this file.",
                        span=span_of(locate(document.root, (name,))[0]),
                    )
                )
            else:
                _check(document, item, (name,), findings)
                values[name] = item
    return values


def _check(document: Document, value: Any, path: Path, findings: list[Diagnostic]) -> None:
    """No value inside may be ambiguous or nothing: no template could use it."""
    if isinstance(value, dict):
        for key, item in value.items():
            _check(document, item, (*path, key), findings)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            _check(document, item, (*path, i), findings)
    elif value is None or isinstance(value, Ambiguous):
        node = locate(document.root, path)[0]
        text = node.value if isinstance(node, ScalarNode) and node.tag == PLAIN else ""
        meaning = value.meaning if isinstance(value, Ambiguous) else "nothing"
        findings.append(
            error(
                "vars.ambiguous",
                "A variable's value must be clear",
                f"`{'.'.join(map(str, path))}: {text}` is {meaning} to some YAML programs.",
                span=span_of(node),
                hint=f'write "{text}" in quotes',
            )
        )
