"""Texts while a manifest is laid out anew: their quotes, and the lines of those that go over several."""

from __future__ import annotations

import re
from typing import Any

_LINE = re.compile("[^\n]*\n|[^\n]+")
_HEADER = re.compile(r"([|>][-+0-9]*)[ \t]*(#.*)?")


def requoted(token: Any, written: str) -> str:
    """A single-quoted text in double quotes, where these need no escapes."""
    if token.style != "'" or "\n" in written or any(c in '\\"' or not c.isprintable() for c in token.value):
        return written
    return f'"{token.value}"'


def continued(written: str, indent: int, *, plain: bool) -> str:
    """A plain or quoted text, its further lines beginning at `indent`: line breaks in it are folded anyway."""
    first, *rest = written.split("\n")
    if not rest:
        return written
    lines = [first]
    for line in rest:
        text = line.lstrip(" \t")
        lines.append(" " * indent + text if text else "")
    return "\n".join(line.rstrip() for line in lines) if plain else "\n".join(lines)


def block_scalar(text: str, token: Any, *, was: int, now: int, value: int) -> tuple[str, list[str], int]:
    """A text after `|` or `>`: its header, its lines, and the index where it ends.

    Arguments: the columns of the level that it belongs to, before and after, and the column for its content,
    unless the header itself says how far that is in. Empty lines at the end belong to it only where `+` keeps them.
    """
    lines = (m[0] for m in _LINE.finditer(text, token.start_mark.index))
    head = next(lines)
    matched = _HEADER.fullmatch(head.rstrip())
    assert matched is not None, "the scanner has read the header"
    stated = next((int(c) for c in matched[1] if c.isdigit()), 0)
    inside, new = (was + stated, now + stated) if stated else (was + 1, value)
    content: list[str] = []
    end = token.start_mark.index + len(head)
    kept = 0, end
    for line in lines:
        if not stated and line.strip():  # the first line with text says how far in the content is
            inside, stated = max(inside, _indent(line)), 1
        if line.strip() and _indent(line) < inside:
            break
        said = line.removesuffix("\n")[inside:]
        content.append(" " * new + said if said else "")
        end += len(line)
        if said or "+" in matched[1]:
            kept = len(content), end
    header = matched[1] + (f"  {matched[2].rstrip()}" if matched[2] else "")
    return header, content[: kept[0]], kept[1]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
