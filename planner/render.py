"""Leaf texts rendered per node: plain `{{ a.b }}` at once, everything else by the manifests' renderer.

Nearly every template of a fleet is a plain name, and 10,000 nodes have some 30,000 of them. What is
resolved here gives what Jinja gives; what is not plain is left to it (`Manifests.render`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from manifests.manifest import Render

_NAME = re.compile(r"\{\{\s*([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)\s*\}\}")
_MARK = re.compile(r"\{[{%#]")
# Jinja looks for an attribute before it looks for a key, so these names mean methods of a dict.
_METHODS = frozenset(dir(dict))

Parts = tuple[str | tuple[str, ...], ...]
"""A template cut up: plain texts, and names as their parts."""


class Renderer:
    """Renders with one set of manifests; remembers how each text was cut up."""

    __slots__ = ("_cut", "_render")

    def __init__(self, render: Render) -> None:
        self._render = render
        self._cut: dict[str, Parts | None] = {}

    def needs(self, text: str) -> bool:
        """Whether the text is a template at all."""
        return "{" in text and _MARK.search(text) is not None

    def __call__(self, text: str, context: Mapping[str, Any]) -> str:
        """The rendered text; raises FleetctlError for a name that is not known, or a broken template."""
        if "{" not in text:
            return text
        parts = self._cut.get(text, ())
        if parts == ():
            parts = self._cut[text] = cut(text)
        if parts is None:
            return self._render(text, context)
        out = []
        for part in parts:
            if type(part) is str:
                out.append(part)
                continue
            value: Any = context
            for name in part:
                try:
                    value = value[name]
                except (KeyError, TypeError):
                    return self._render(text, context)
            out.append(value if type(value) is str else str(value))
        return "".join(out)


def cut(text: str) -> Parts | None:
    """The parts of a template that holds plain names only; None for any other template."""
    parts: list[str | tuple[str, ...]] = []
    end = 0
    for match in _NAME.finditer(text):
        names = tuple(match[1].split("."))
        if not _METHODS.isdisjoint(names[1:]):
            return None
        parts += [text[end : match.start()], names]
        end = match.end()
    parts.append(text[end:])
    plain = [p for p in parts if type(p) is str]
    if any(_MARK.search(p) for p in plain):
        return None
    return tuple(p for p in parts if p)
