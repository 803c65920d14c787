"""What a template may name, and whether a text is one. Pure: rendering is in `manifests.template`."""

from __future__ import annotations

import re
from collections.abc import Mapping

Reference = tuple[str, ...]
"""A name as its parts: ("node", "port")."""
VARS = "vars"
_UNKNOWN = object()
NAMESPACES: Mapping[str, frozenset[str] | None] = {
    "fleet": frozenset({"name", "trust_domain"}),
    "group": frozenset({"name", "labels", "port"}),
    "node": frozenset(
        {"name", "index", "uid", "host", "port", "address", "dir", "data_dir", "labels"},
    ),
    "host": frozenset({"name", "address", "root", "labels", "arch"}),
    "release": frozenset({"product", "version", "commit", "protocol"}),
    "artifact": frozenset({"path", "digest", "name", "source", "arch"}),
    VARS: None,
}
"""What a template may name. None: any key, as given by --var and --var-file."""

MARK = re.compile(r"\{[{%#]")


def is_template(text: str) -> bool:
    """Whether the text holds anything to render: `{{`, `{%` or `{#`."""
    return "{" in text and MARK.search(text) is not None


def unknown(reference: Reference) -> str | None:
    """Why a name can have no value, whatever the node; None when it may have one."""
    known = NAMESPACES.get(reference[0], _UNKNOWN)
    if known is _UNKNOWN:
        return f"{reference[0]} is not known; there are {', '.join(NAMESPACES)}"
    if isinstance(known, frozenset) and len(reference) > 1 and reference[1] not in known:
        return f"{reference[0]} has no {reference[1]}; it has {', '.join(sorted(known))}"
    return None


def only_vars(references: tuple[Reference, ...]) -> bool:
    """Whether a text with these names can be rendered before any node is known."""
    return all(reference[0] == VARS for reference in references)
