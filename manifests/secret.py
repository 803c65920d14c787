"""A reference to a secret, and a value that never prints.

A manifest, plan, journal or log holds references only (`env:NAME`, `file:PATH`); the value exists
between its resolution and its use, inside a `Secret`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

SCHEMES = ("env", "file", "command", "aws-sm", "aws-ssm")
_REF = re.compile(r"(?P<scheme>[a-z][a-z0-9-]*):(?P<locator>\S(?:.*\S)?)")


@dataclass(frozen=True, slots=True, order=True)
class SecretRef:
    """Where a secret is found: `scheme` (of SCHEMES) and `locator` (a variable's name, a path, a command, an AWS name)."""

    scheme: str
    locator: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.locator}"


def parse_ref(text: str) -> SecretRef | None:
    """The reference in `text`, or None when it is not of the form scheme:locator with a known scheme."""
    match = _REF.fullmatch(text)
    if match is None or match["scheme"] not in SCHEMES:
        return None
    return SecretRef(match["scheme"], match["locator"])


class Secret:
    """A secret's value. It prints as `(secret)` everywhere; `reveal()` is the one way to the text."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def keyed_digest(self, key: bytes) -> str:
        """HMAC-SHA-256 of the value, hex: tells whether a secret changed, and cannot be guessed without the key."""
        return hmac.new(key, self._value.encode(), hashlib.sha256).hexdigest()

    def __repr__(self) -> str:
        return "(secret)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "(secret)"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not to be pickled")
