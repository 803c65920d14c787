"""What an unquoted scalar means: text, whole number, truth value, nothing, or something YAML versions dispute.

YAML 1.1 and 1.2 read `yes`, `1.10`, `12e03`, `0644`, `9022:22` or `2022-01-16` as truth values, numbers or
dates, and do not agree on which. None of them is guessed here: each becomes `Ambiguous`, which no key
accepts, so that the finding can say what to write. Sources: YAML 1.1 type repository, YAML 1.2.2 section
10.3.2 (core schema), and the resolvers of the parsers in use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "false": False}
# Longer ones are no counts or ports, and JSON cannot carry integers past 2**53 - 1 portably.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,14}")
_WORDS = {
    word: meaning
    for meaning, words in {
        "a truth value": "y Y n N yes Yes YES no No NO on On ON off Off OFF True TRUE False FALSE",
        "a number": ".inf .Inf .INF +.inf +.Inf +.INF -.inf -.Inf -.INF .nan .NaN .NAN",
        "a special key": "= <<",
    }.items()
    for word in words.split()
}
# A superset of both versions' rules, on purpose: 22:60 is no number to any parser, but 22:59 is, and a
# list of port pairs must not change its meaning from line to line.
_DISPUTED = (
    (re.compile(r"[-+]?[0-9][0-9_]*(:[0-9_]+)+(\.[0-9_]*)?"), "a number in base 60"),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s]+[0-9]{1,2}:[0-9]{2}(:[0-9.]+)?.*)?"), "a date"),
    (re.compile(r"[-+]?0[0-7_]+|0o[0-7]+"), "a number in base 8"),
    (re.compile(r"[-+]?0x[0-9a-fA-F_]+"), "a number in base 16"),
    (re.compile(r"[-+]?0b[01_]+"), "a number in base 2"),
    (re.compile(r"[-+]?(\.[0-9_]+|[0-9][0-9_]*\.?[0-9_]*)([eE][-+]?[0-9]+)?"), "a number"),
)
# What the disputed forms can begin with; everything else is text without looking further.
_BEGINNINGS = frozenset("0123456789+-.")


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """An unquoted scalar that some YAML version reads as `meaning` and not as the text it is."""

    text: str
    meaning: str


Scalar = str | int | bool | Ambiguous | None


def plain(text: str) -> Scalar:
    """The value of an unquoted scalar as it was written; never raises."""
    if text in _WORDS:
        return Ambiguous(text, _WORDS[text])
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if text in NOTHING:
        return None
    if text[0] not in _BEGINNINGS:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    # A lone sign or dots are text to every version.
    if text.strip("+-._") == "":
        return text
    for pattern, meaning in _DISPUTED:
        if pattern.fullmatch(text):
            return Ambiguous(text, meaning)
    return text


def disputes_truth(value: Scalar) -> bool:
    """Whether the value is one of `yes`, `no`, `on`, `off` and their kin."""
    return isinstance(value, Ambiguous) and value.meaning == "a truth value"
