"""A finding's place as programs outside know it: the file's path from the top of the repository."""

from __future__ import annotations

import os
from pathlib import PurePosixPath

from manifests.diagnostics import Span
from manifests.manifest import SHIPPED


def from_top(span: Span | None, top: str) -> str | None:
    """The path with `/` between its parts; None for a place that is not below the top."""
    if span is None or span.file.startswith(SHIPPED):
        return None
    # By its text: a link that leads elsewhere is still the file that is reviewed.
    path = PurePosixPath(os.path.abspath(span.file))  # noqa: PTH100
    return path.relative_to(top).as_posix() if path.is_relative_to(top) else None
