"""A review as Markdown for a pull request: losses and refusals in the open, the detail in folds."""

from __future__ import annotations

from collections.abc import Iterable

from fleetctl.cli.views import plan_markdown, review_text
from fleetctl.cli.views.diagnostics import render_diagnostics
from fleetctl.cli.views.markdown import Fold, Page, bullets, code
from fleetctl.cli.views.review_document import ReviewDocument, Seen


def page(document: ReviewDocument, paths: Iterable[str], lines: dict[str, list[str]]) -> Page:
    """The page of a review of the manifests at `paths`, which tell its comment from that of other manifests."""
    sides = f"{code(str(document.base))} → {code(str(document.head))}"
    made = Page(plan_markdown.marker("review", paths), ["### fleetctl review", "", sides, ""])
    if not document.valid:
        made.head += [f"**{review_text.NOT_VALID}**", ""]
    else:
        errors = review_text.refusals(document) - sum(len(f.refusals) for f in document.fleets)
        nothing = review_text.NOTHING.rstrip(".") if not document.changes else "No node is touched"
        made.head += plan_markdown.closing(
            document.fleets, document.sums, nothing=nothing, more_refusals=errors
        )
    made.head += bullets([plan_markdown.finding(f) for f in document.findings])
    made.head += plan_markdown.summary(document.fleets)
    made.head += _rest(document)
    if document.findings:
        made.folds.append(Fold.of("Findings", render_diagnostics(document.findings, sources=lines)))
    made.folds += plan_markdown.folds(document.fleets)
    if document.documents:
        count = len(document.documents)
        written = "\n".join(review_text.written(d) for d in document.documents)
        made.folds.append(
            Fold.of(f"Written differently: {count} document{'' if count == 1 else 's'}", written)
        )
    if document.seen is not None:
        made.head += _seen(document.seen)
        made.folds += [
            Fold(f"As last seen: {f.title}", f.lines) for f in plan_markdown.folds(document.seen.fleets)
        ]
    return made


def _rest(document: ReviewDocument) -> list[str]:
    """What else a reviewer must see: fleets that are let go, pins, secrets."""
    lines = bullets([f"**Not declared any more:** {code(line)}" for line in review_text.left(document)])
    moved = [p for p in document.pins if p.kind != "release"]
    lines += bullets([f"**Other bytes under the same name:** {code(review_text.pin(p))}" for p in moved])
    lines += bullets([f"Pin: {code(review_text.pin(p))}" for p in document.pins if p.kind == "release"])
    lines += bullets([f"**Declared otherwise:** {code(review_text.pair(p))}" for p in document.pairs])
    lines += bullets([f"**New secret:** {code(review_text.secret(s))}" for s in document.secrets])
    lines += bullets([f"**New program:** {code(review_text.program(p))}" for p in document.programs])
    return lines


def _seen(seen: Seen) -> list[str]:
    title = review_text.seen_title(seen).rstrip(":")
    lines = [
        "",
        f"**{title.partition(' (')[0]}** ({code(title.partition(' (')[2].rstrip(')'))}): {seen.sums}.",
        "",
    ]
    lines += bullets([plan_markdown.finding(f) for f in seen.findings])
    return lines + plan_markdown.summary(seen.fleets)
