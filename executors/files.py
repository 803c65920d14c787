"""The content of a node's managed files, for the substrates that place them without a host's script."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from manifests.secret import Secret
from planner.spec import FileSpec


def bytes_of(file: FileSpec, secrets: Mapping[str, Secret]) -> bytes:
    """A file's content: written out, from its source (verified against its digest), or a secret's value.

    Raises ValueError when the source has changed since the plan was made, and OSError when it is gone.
    """
    if file.secret is not None:
        return secrets[file.secret].reveal().encode()
    if file.source is not None:
        data = Path(file.source).read_bytes()
        if file.digest is not None and "sha256:" + hashlib.sha256(data).hexdigest() != file.digest:
            raise ValueError(f"{file.source} has changed since the plan was made")
        return data
    return (file.content or "").encode()
