"""The canonical layout of a manifest: the same tokens and comments, at the places where everybody looks for them.

Two spaces a level, lists one level in from their key, one space after `-`, `:` and `,`, none inside brackets,
double quotes where nothing has to be escaped, at most one empty line in a row. Nothing is moved to another
line. A result that does not say exactly what the original says is never given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml
from yaml import tokens

from manifests.errors import FleetctlError, ManifestError
from manifests.formatting_levels import INDENT, Levels
from manifests.formatting_scalars import block_scalar, continued, requoted
from manifests.source import compose, decode

_OPENING = (tokens.FlowSequenceStartToken, tokens.FlowMappingStartToken)
_CLOSING = (tokens.FlowSequenceEndToken, tokens.FlowMappingEndToken)
_ON_THEIR_OWN = (tokens.DocumentStartToken, tokens.DocumentEndToken, tokens.DirectiveToken)
_COMMENT = re.compile(r"#[^\n]*")


class NotFormatted(FleetctlError):
    """A file's layout cannot be changed without changing what it says."""

    code = "fmt.meaning"


def formatted(data: bytes, file: str) -> str:
    """The text of a file in its canonical layout; formatting it again changes nothing.

    Arguments: the file's bytes, and its name for findings. Raises ManifestError with the places of what is
    not YAML, and NotFormatted where the result would not say what the original says.
    """
    _, findings = compose(data, file)
    if findings:
        raise ManifestError(findings)
    text = decode(data, file)[0].replace("\r\n", "\n").replace("\r", "\n")
    result = _Writer(text).written()
    if not says_the_same(text, result):
        raise NotFormatted(
            f"{file} has something that fleetctl fmt cannot lay out without changing what it says",
            hint="it is left as it is; please report it together with the file",
        )
    return result


def says_the_same(one: str, other: str) -> bool:
    """Whether two texts give the same documents, anchors and plain or quoted values, and the same comments."""
    try:
        return _said(one) == _said(other)
    except yaml.YAMLError:
        return False


def _said(text: str) -> tuple[list[Any], list[str]]:
    events = [_event(e) for e in yaml.parse(text, Loader=yaml.CSafeLoader)]
    comments, at = [], 0
    for token in _physical(text):
        comments += _COMMENT.findall(text[at : token.start_mark.index])
        at = token.end_mark.index
        if _is_block_scalar(token):
            written = text[token.start_mark.index : at].partition("\n")[0]
            comments += _COMMENT.findall(written)
    comments += _COMMENT.findall(text[at:])
    return events, [c.rstrip() for c in comments]


def _event(event: Any) -> tuple[object, ...]:
    facts = ("anchor", "tag", "implicit", "value", "flow_style", "explicit", "version", "tags")
    said = [getattr(event, fact, None) for fact in facts]
    folded = getattr(event, "style", None)
    return type(event), folded if folded in ("|", ">") else None, *said


def _physical(text: str) -> Iterator[Any]:
    """The tokens that are written, in order: not the marks of where a block begins and ends."""
    for token in yaml.scan(text, Loader=yaml.CSafeLoader):
        if token.start_mark.index != token.end_mark.index:
            yield token


def _is_block_scalar(token: Any) -> bool:
    return isinstance(token, tokens.ScalarToken) and token.style in ("|", ">")


class _Writer:
    """Writes one text's tokens anew. `_line` is the line being written, None between lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._lines: list[str] = []
        self._line: str | None = None
        self._last: Any = None
        self._key = False
        self._depth = 0
        self._flow_base = 0
        # The number of lines after which empty ones are content, as `|+` keeps them.
        self._kept = -1
        self._end = "\n"
        self._levels = Levels()

    def written(self) -> str:
        for token in yaml.scan(self._text, Loader=yaml.CSafeLoader):
            self._structure(token)
            if token.start_mark.index != token.end_mark.index:
                self._write(token)
        self._levels.clear()
        self._between(self._text[self._at :], None, 0)
        while self._lines and not self._lines[-1] and self._kept != len(self._lines):
            self._lines.pop()
        return "\n".join(self._lines) + self._end

    def _structure(self, token: Any) -> None:
        """What a token says of the levels of blocks, before it is written."""
        column = token.start_mark.column
        if isinstance(token, tokens.BlockMappingStartToken):
            self._levels.open(column, sequence=False)
        elif isinstance(token, tokens.BlockSequenceStartToken):
            self._levels.open(column, sequence=True)
        elif isinstance(token, tokens.BlockEndToken):
            self._levels.close()
        elif isinstance(token, _ON_THEIR_OWN):
            self._levels.clear()
        elif self._depth == 0 and isinstance(token, tokens.BlockEntryToken):
            self._levels.entry(column)
        elif self._depth == 0 and isinstance(token, tokens.KeyToken):
            self._levels.key()
            self._key = True
        elif self._depth == 0 and isinstance(token, tokens.ValueToken):
            self._levels.key()

    def _write(self, token: Any) -> None:
        start, end = token.start_mark.index, token.end_mark.index
        gap = self._text[self._at : start]
        closing = isinstance(token, _CLOSING)
        indent = self._indent(token, closing=closing)
        if self._line is None or "\n" in gap:
            self._between(gap, token, indent + INDENT if closing else indent)
            self._line = " " * indent
        else:
            self._line += " " * _space(self._last, token)
        self._at = end
        if isinstance(token, _OPENING):
            if self._depth == 0:
                begins = not self._line.strip()
                self._flow_base = (
                    indent if begins else self._levels.value() - (0 if self._levels.sequence else INDENT)
                )
            self._depth += 1
        elif closing:
            self._depth -= 1
        if _is_block_scalar(token):
            self._block_scalar(token)
        else:
            written = self._text[start:end]
            if isinstance(token, tokens.ScalarToken):
                written = requoted(token, written)
                written = continued(written, self._continuation(), plain=token.plain)
            self._line += written
            *whole, self._line = self._line.split("\n")
            self._lines += whole
        self._last, self._key = token, False
        self._levels.remember()

    def _indent(self, token: Any, *, closing: bool) -> int:
        """The column of a token that begins a line."""
        if isinstance(token, _ON_THEIR_OWN):
            return 0
        if self._depth > 0:
            return self._flow_base + INDENT * (self._depth - closing)
        if self._key or isinstance(token, (tokens.BlockEntryToken, tokens.KeyToken, tokens.ValueToken)):
            return self._levels.now
        return self._levels.value()

    def _continuation(self) -> int:
        return self._flow_base + INDENT * self._depth if self._depth else self._levels.value()

    def _block_scalar(self, token: Any) -> None:
        assert self._line is not None
        header, content, self._at = block_scalar(
            self._text, token, was=self._levels.was, now=self._levels.now, value=self._levels.value()
        )
        self._lines += [self._line + header, *content]
        self._line = None
        if content and not content[-1].strip():
            self._kept = len(self._lines)
        if self._at == len(self._text) and not self._text.endswith("\n") and "-" not in header:
            self._end = ""  # a line break at the file's end would be one more in the text

    def _between(self, gap: str, token: Any, comments: int) -> None:
        """Ends the line, and writes the comments and empty lines up to the next token."""
        first, *rest = gap.split("\n")
        if self._line is None:
            rest = [first, *rest]
        else:
            comment = first.lstrip()
            if comment:
                width = len(first) - len(comment)
                self._line += " " * (width if width > 1 and "\t" not in first else 2) + comment.rstrip()
            self._lines.append(self._line.rstrip() if not comment else self._line)
            self._line = None
        for line in rest if token is None else rest[:-1]:
            comment = line.strip()
            if comment:
                self._lines.append(" " * self._comment_column(line, token, comments) + comment)
            elif self._lines and (self._lines[-1] or self._kept == len(self._lines)):
                self._lines.append("")

    def _comment_column(self, line: str, token: Any, indent: int) -> int:
        if self._depth > 0:
            return indent
        was = 0 if token is None else token.start_mark.column
        return self._levels.comment(len(line) - len(line.lstrip()), was, indent)


def _space(last: Any, token: Any) -> int:
    """How many spaces stand between two tokens of a line."""
    if isinstance(token, (tokens.FlowEntryToken, *_CLOSING)) or isinstance(last, _OPENING):
        return 0
    if isinstance(token, tokens.ValueToken):
        return (
            1
            if isinstance(
                last, (tokens.AliasToken, tokens.FlowEntryToken, tokens.AnchorToken, tokens.TagToken)
            )
            else 0
        )
    return 1
