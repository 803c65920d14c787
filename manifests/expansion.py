"""What aliases make of a document, measured without expanding it."""

from __future__ import annotations

from yaml.nodes import Node, ScalarNode, SequenceNode

from manifests.diagnostics import Diagnostic, Span, error

# The deepest manifest key lies ten levels down.
DEPTH_MAX = 40
# What aliases may add to what is written: a block of twenty values for 10,000 nodes, several times over.
# Nine lists of nine aliases each (396 bytes) would make 387 million of them.
ALIASED_NODES_MAX = 1_000_000


class _RefusedError(Exception):
    """The walk ends here; has the finding."""

    def __init__(self, finding: Diagnostic) -> None:
        super().__init__(finding.summary)
        self.finding = finding


class _Walk:
    """Size and depth of each node, each computed once. Aliases point back, so a node is met where it is
    written before it is met again, and the walk goes no deeper than what is written.
    """

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, int]] = {}
        self.open: set[int] = set()

    def measure(self, node: Node) -> tuple[int, int]:
        known = self.known.get(id(node))
        if known is not None:
            return known
        if id(node) in self.open:
            raise _RefusedError(
                error(
                    "yaml.recursive-alias",
                    "An alias refers to the value that it is part of",
                    "The value would have no end.",
                    span=span_of(node),
                )
            )
        size, depth = 1, 1
        if not isinstance(node, ScalarNode):
            self.open.add(id(node))
            children = (
                node.value if isinstance(node, SequenceNode) else [n for pair in node.value for n in pair]
            )
            for child in children:
                below, levels = self.measure(child)
                size += below
                depth = max(depth, levels + 1)
            self.open.discard(id(node))
            if depth > DEPTH_MAX:
                raise _RefusedError(too_deep(span_of(node)))
        self.known[id(node)] = size, depth
        return size, depth


def check(root: Node) -> Diagnostic | None:
    """The finding about a document's aliases, or None: recursion, depth, or more values than the limit."""
    walk = _Walk()
    try:
        size, _ = walk.measure(root)
    except _RefusedError as e:
        return e.finding
    added = size - len(walk.known)
    if added > ALIASED_NODES_MAX:
        return error(
            "yaml.alias-bomb",
            "Aliases make the document too large",
            f"They add {added:,} values to {len(walk.known):,} written ones; at most {ALIASED_NODES_MAX:,}.",
            span=span_of(root),
        )
    return None


def too_deep(span: Span | None) -> Diagnostic:
    """More levels than any manifest has."""
    return error(
        "yaml.too-deep",
        "The document is nested too deeply",
        f"More than {DEPTH_MAX} levels; no manifest needs them.",
        span=span,
    )


def span_of(node: Node, file: str | None = None) -> Span:
    """The place of a node: where its value begins, 1-based."""
    start = node.start_mark
    # A collection that is still being composed has no end yet.
    end = node.end_mark or start
    return Span(file or start.name, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
