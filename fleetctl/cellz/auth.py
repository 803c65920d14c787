"""API keys: SHA-256 of what the client sends against every configured digest, in constant time (H3)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from fleetctl.cellz.errors import Forbidden, Unauthorized
from fleetctl.cellz.settings import ApiKey

# A key is a short random text; hashing a megabyte for a stranger is a gift.
_KEY_BYTES_MAX = 512


def check(headers: Iterable[tuple[bytes, bytes]], keys: tuple[ApiKey, ...], *, writes: bool) -> str:
    """Return the role of the key in `Authorization: Bearer` or `X-API-Key`; "writer" when no keys are set.

    Raises Unauthorized (always the same) or Forbidden. All keys are compared, as bytes, without early exit.
    """
    if not keys:
        return "writer"
    given = _given(headers)
    if not given or len(given) > _KEY_BYTES_MAX:
        raise Unauthorized
    digest = hashlib.sha256(given).digest()
    role = ""
    for key in keys:
        if hmac.compare_digest(digest, key.sha256) and role != "writer":
            role = key.role
    if not role:
        raise Unauthorized
    if writes and role != "writer":
        raise Forbidden
    return role


def _given(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return the one key given, or b"" for none, several, or another scheme."""
    found: list[bytes] = []
    for name, value in headers:
        if name == b"x-api-key":
            found.append(value)
        elif name == b"authorization":
            scheme, _, rest = value.partition(b" ")
            found.append(rest if scheme.lower() == b"bearer" else b"")
    return found[0] if len(found) == 1 else b""
