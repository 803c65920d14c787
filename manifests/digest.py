"""sha256 pins, and canonical JSON (RFC 8785) for everything that is hashed or signed."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

DIGEST_PATTERN = r"sha256:[0-9a-f]{64}"
_DIGEST = re.compile(DIGEST_PATTERN)
# RFC 8785 numbers are IEEE 754 doubles; an integer past this is not portable and is refused.
INTEGER_MAX = 2**53 - 1


def is_digest(text: str) -> bool:
    """Whether `text` is a pin: sha256: and 64 lower-case hex digits."""
    return _DIGEST.fullmatch(text) is not None


def sha256(data: bytes) -> str:
    """The pin of these bytes: sha256:<64 hex>."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value (dict, list, tuple, str, int, float, bool, None).

    Raises ValueError for what JSON cannot say portably (NaN, integers past 2**53 - 1, other types).
    """
    if _is_plain(value):
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
        )
        # Python sorts keys by code point and the RFC by UTF-16 unit: the same for ASCII.
        if text.isascii():
            return text.encode()
    import rfc8785

    try:
        return rfc8785.dumps(_listed(value))
    except rfc8785.CanonicalizationError as e:
        raise ValueError(f"not canonical JSON: {e}") from e


def digest_of(value: Any) -> str:
    """The pin of a JSON value: sha256 of its canonical form."""
    return sha256(canonical_json(value))


def _is_plain(value: Any) -> bool:
    """Whether json.dumps and the RFC agree on it: no floats, integers in range, text keys."""
    stack = [value]
    pop = stack.pop
    while stack:
        v = pop()
        kind = type(v)
        if kind is str or v is None or kind is bool:
            continue
        if kind is int:
            if not -INTEGER_MAX <= v <= INTEGER_MAX:
                return False
        elif kind is dict:
            for k in v:
                if type(k) is not str:
                    return False
            stack.extend(v.values())
        elif kind is list or kind is tuple:
            stack.extend(v)
        else:
            return False
    return True


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _listed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_listed(v) for v in value]
    return value
