"""Rules across documents. Pure: every finding has a code, constant summary, the place, and what to write."""

from __future__ import annotations

from manifests.diagnostics import Diagnostic
from manifests.manifest import Manifests


def validate(manifests: Manifests, incomplete: frozenset[str] = frozenset()) -> list[Diagnostic]:
    """Every finding about documents that are valid one by one.

    `incomplete` names the kinds of which some document could not be read: what refers to them is not judged.
    """
    del manifests, incomplete
    return []
