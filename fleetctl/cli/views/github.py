"""What a GitHub runner reads: annotations as workflow commands, and everything else kept from being one.

A line that begins with `::` is a command to the runner, whoever wrote it. So the report stands between
`::stop-commands::TOKEN` and `::TOKEN::`, and only what is escaped here is a command.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from fleetctl.cli.terminal import clean
from fleetctl.cli.views.located import from_top
from fleetctl.cli.views.markdown import SUMMARY_MAX_B, Page, octets
from manifests.diagnostics import Diagnostic, Severity
from manifests.digest import sha256

# GitHub shows this many annotations of each type that one step makes.
ANNOTATIONS_MAX = 10
TITLE_MAX = 255
MESSAGE_MAX = 2_000
_TYPES = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def log(report: str, remarks: Sequence[Diagnostic], top: str) -> str:
    """What goes to stdout: the report, as text that cannot command, then the annotations."""
    return "\n".join([*quoted(report), *commands(remarks, top)])


def quoted(text: str) -> Iterator[str]:
    """The text between a stop and its end. The token is the text's own digest, which no text can contain."""
    body = clean(text)
    token = sha256(body.encode("utf-8", "surrogatepass")).removeprefix("sha256:")
    yield f"::stop-commands::{token}"
    yield body.rstrip("\n")
    yield f"::{token}::"


def commands(remarks: Iterable[Diagnostic], top: str) -> Iterator[str]:
    """One command for each remark, within what GitHub shows of each type; the last says how many are missing."""
    found = list(remarks)
    counts = Counter(r.severity for r in found)
    given: Counter[Severity] = Counter()
    for remark in found:
        given[remark.severity] += 1
        number, count = given[remark.severity], counts[remark.severity]
        if number < ANNOTATIONS_MAX or count <= ANNOTATIONS_MAX:
            yield annotation(remark, top)
        elif number == ANNOTATIONS_MAX:
            more = f"{count - ANNOTATIONS_MAX + 1} more; all of them are in the step's summary and log"
            yield f"::{_TYPES[remark.severity]} title=fleetctl::{_data(more)}"


def annotation(remark: Diagnostic, top: str) -> str:
    """`::warning file=fleet.yaml,line=5,col=3,title=…::…`"""
    fields = {}
    path = from_top(remark.span, top)
    span = remark.span
    if path is not None and span is not None:
        fields = {"file": path, "line": str(span.line)}
        # Columns are only taken for a place within one line.
        if span.end_line in (0, span.line):
            fields |= {"col": str(span.column)}
            if span.end_column > span.column:
                fields |= {"endColumn": str(span.end_column)}
    fields["title"] = remark.summary[:TITLE_MAX]
    text = remark.detail or remark.summary
    if span is not None and path is None:
        text += f" (at {span})"
    if remark.hint:
        text += f"\nHint: {remark.hint}"
    properties = ",".join(f"{name}={_property(value)}" for name, value in fields.items())
    return f"::{_TYPES[remark.severity]} {properties}::{_data(text[:MESSAGE_MAX])}"


def harmless(text: str) -> str:
    """Talk that is no command whatever it says, for what cannot stand between a stop and its end.

    A command begins with `::` after anything that a runner takes for blank, or with `##[` anywhere.
    """
    return text.replace("::", ": :").replace("##[", "## [")


def write_summary(path: Path, pages: Sequence[Page]) -> None:
    """Adds the pages to the step's summary, within what GitHub takes of it. Raises OSError."""
    there = path.stat().st_size if path.exists() else 0
    with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
        for n, page in enumerate(pages):
            room = (SUMMARY_MAX_B - 1 - there) // (len(pages) - n)
            text = page.render(room, octets)
            there += octets(text)
            if there < SUMMARY_MAX_B:
                file.write(text)


def _data(text: str) -> str:
    """A message: what would end it, escaped."""
    return clean(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    """A property's value: what would end it, escaped."""
    return _data(text).replace(":", "%3A").replace(",", "%2C")
