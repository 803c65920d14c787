"""What every rule gets: the documents, what could not be read, and a place for findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from manifests.diagnostics import Diagnostic, error, warning
from manifests.manifest import Key, Manifests, Path
from manifests.schema.fleet import Fleet, Group


@dataclass
class Review:
    """One run of the rules. `incomplete`: kinds of which some document could not be read."""

    manifests: Manifests
    incomplete: frozenset[str]
    findings: list[Diagnostic] = field(default_factory=list)

    def error(
        self, code: str, summary: str, detail: str, key: Key, path: Path, hint: str | None = None
    ) -> None:
        """Notes an error at a key path of a document."""
        self._note(error, code, summary, detail, key, path, hint)

    def warn(
        self, code: str, summary: str, detail: str, key: Key, path: Path, hint: str | None = None
    ) -> None:
        """Notes a warning at a key path of a document."""
        self._note(warning, code, summary, detail, key, path, hint)

    def place(self, key: Key, path: Path) -> str:
        """A place as text, for details that name a second one."""
        span = self.manifests.where(key, path)
        return "elsewhere" if span is None else str(span)

    def _note(
        self,
        make: Callable[..., Diagnostic],
        code: str,
        summary: str,
        detail: str,
        key: Key,
        path: Path,
        hint: str | None,
    ) -> None:
        span = self.manifests.where(key, path)
        self.findings.append(make(code, summary, detail, span=span, hint=hint, path=".".join(map(str, path))))


def fleet_key(fleet: Fleet) -> Key:
    """A fleet's key."""
    return "Fleet", fleet.name


def size(group: Group) -> int:
    """How many nodes a group has."""
    return len(group.nodes) if group.nodes is not None else group.count or 0


def listed(names: Iterable[str], limit: int = 8) -> str:
    """Names for a sentence, cut where there are many."""
    known = sorted(names)
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more if known else "none"
