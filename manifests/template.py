"""Leaf texts with `{{ … }}`: rendered once when the file is read (only `vars`), or once per node.

Jinja2 without its reach: no calls, no assignments, no macros, no nested loops, a list of filters, and no
attribute but the keys of what is handed in. So a template cannot run long, grow large, draw lots or touch
Python objects. Plain `{{ a.b }}` and `{{ a.b | default('text') }}`, nearly all there are, need no Jinja2
and do not import it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from manifests.errors import TemplateError
from manifests.placeholder import MARK, VARS, Reference

if TYPE_CHECKING:
    from manifests.sandbox import Compiled

# A configuration file for one node; more is data and belongs into an artifact.
OUTPUT_CHARACTERS_MAX = 1024 * 1024

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_SIMPLE = re.compile(
    rf"""\{{\{{ \s* ({_NAME}(?:\.{_NAME})+) \s*
    (?: \| \s* default\( \s* (?: '([^'\\]*)' | "([^"\\]*)" ) \s* \) \s* )? \}}\}}""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name's value goes, and what stands there when it has none."""

    reference: Reference
    default: str | None


_Part = str | Place


class Renderer:
    """Compiles each distinct text once, and renders it with a context."""

    __slots__ = ("_compiled",)

    def __init__(self) -> None:
        self._compiled: dict[str, tuple[_Part, ...] | Compiled] = {}

    def render(self, text: str, context: Mapping[str, Any]) -> str:
        """The text with its names replaced. A text without `{` comes back untouched.

        Arguments: `context` maps the names of `NAMESPACES` to mappings of text, whole numbers, truth
        values, and lists and mappings of these. Raises TemplateError for a broken template, a name
        without a value, what the sandbox forbids, and output past OUTPUT_CHARACTERS_MAX.
        """
        if "{" not in text:
            return text
        compiled = self._compile(text)
        if not isinstance(compiled, tuple):
            return compiled.render(context)
        out: list[str] = []
        for part in compiled:
            out.append(_resolve(text, part, context) if isinstance(part, Place) else part)
        rendered = "".join(out)
        if len(rendered) > OUTPUT_CHARACTERS_MAX:
            raise too_large(text)
        return rendered

    def references(self, text: str) -> tuple[Reference, ...]:
        """Every name the text uses, each with the keys that follow it; raises TemplateError if it is broken."""
        if "{" not in text:
            return ()
        compiled = self._compile(text)
        if isinstance(compiled, tuple):
            return tuple(part.reference for part in compiled if isinstance(part, Place))
        return compiled.references

    def _compile(self, text: str) -> tuple[_Part, ...] | Compiled:
        compiled = self._compiled.get(text)
        if compiled is None:
            compiled = _cut(text)
            if compiled is None:
                from manifests.sandbox import compile_text

                compiled = compile_text(text)
            self._compiled[text] = compiled
        return compiled


def shown(text: str, value: Any) -> str:
    """How a value stands in rendered text; raises TemplateError for what is no scalar."""
    if type(value) is str:
        return value
    if value is True or value is False:
        # As it was written, never as Python writes it.
        return "true" if value else "false"
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return repr(value)
    raise TemplateError(
        text, "a list, a mapping or nothing cannot stand in text", hint="use its items, or | join"
    )


def too_large(text: str) -> TemplateError:
    """What rendered too much."""
    return TemplateError(
        text, f"it renders to more than {OUTPUT_CHARACTERS_MAX:,} characters", code="template.too-large"
    )


def missing(text: str, name: str) -> TemplateError:
    """A name that has no value."""
    hint = None
    if name.startswith(f"{VARS}."):
        key = name.removeprefix(f"{VARS}.")
        hint = f"give it with --var {key}=VALUE or a --var-file, or write {{{{ {name} | default('…') }}}}"
    return TemplateError(text, f"{name} has no value", hint=hint, code="template.undefined")


def _resolve(text: str, place: Place, context: Mapping[str, Any]) -> str:
    value: Any = context
    reference, default = place.reference, place.default
    for i, key in enumerate(reference):
        if not isinstance(value, Mapping) or key not in value:
            if default is not None and i == len(reference) - 1:
                return default
            raise missing(text, ".".join(reference[: i + 1]))
        value = value[key]
    return value if type(value) is str else shown(text, value)


def _parts(text: str) -> Iterator[_Part]:
    end = 0
    for match in _SIMPLE.finditer(text):
        if match.start() > end:
            yield text[end : match.start()]
        single, double = match[2], match[3]
        yield Place(tuple(match[1].split(".")), double if single is None else single)
        end = match.end()
    if end < len(text):
        yield text[end:]


def _cut(text: str) -> tuple[_Part, ...] | None:
    """The text cut at its names; None when anything but plain names stands in it."""
    parts = tuple(_parts(text))
    if any(isinstance(part, str) and MARK.search(part) for part in parts):
        return None
    # `{{{ a }}`: to Jinja2 the first two braces open the expression.
    if any(isinstance(part, str) and part.endswith("{") for part in parts[:-1]):
        return None
    return parts
