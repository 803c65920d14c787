"""From two trees of manifests to a review: load both, suppose the older one applied, plan the newer one."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from executors.clock import rfc3339
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.options import Sources, resolve_settings
from manifests.errors import ExitCode, FleetctlError, ManifestError

if TYPE_CHECKING:
    from fleetctl.cli.trees import Tree, Trees
    from fleetctl.cli.views.review_document import ReviewDocument, Seen, Side
    from manifests.diagnostics import Diagnostic
    from manifests.manifest import Manifests
    from planner.options import Options


class BaseError(FleetctlError):
    """What is compared with cannot be used itself."""

    code = "review.base-invalid"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. `given`: the sources' paths were named, and are not the current folder."""

    base: str | None
    head: str | None
    sources: Sources
    given: bool
    state: str | None
    observed: Path | None
    accept_downtime: bool


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A review, and what it was made from.

    `lines` are those of the newer files, `root` the folder that places are told from, `paths` the manifests
    below it, and `exit_code` how a review of manifests that are not valid ends.
    """

    document: ReviewDocument
    lines: dict[str, list[str]]
    root: str
    paths: tuple[str, ...]
    exit_code: ExitCode = ExitCode.OK


def review(invocation: Invocation, asked: Asked) -> Reviewed:
    """Compares; asks git, and the state when it was named, but no host. Raises FleetctlError."""
    from fleetctl.cli import findings
    from fleetctl.cli.trees import find
    from fleetctl.cli.views import remarks, review_document
    from planner.applied import applied
    from planner.options import Options
    from planner.review import compare

    # As for a plan: many small values that live until the end.
    gc.disable()
    with invocation.timings.phase("git"):
        trees = find(invocation, asked.base, asked.head, asked.sources, asked.given)
    older, newer = _side(trees.base), _side(trees.head)
    now = rfc3339(invocation.clock.now())
    options = Options(accept_downtime=asked.accept_downtime)
    try:
        with invocation.timings.phase("load"):
            head = trees.head.load(trees.sources)
    except ManifestError as error:
        return _invalid(trees, older, newer, error)
    base = _base(invocation, trees)
    with invocation.timings.phase("plan"):
        try:
            world = applied(base, head, now)
        except ManifestError as error:
            raise _base_error(trees, error) from error
        try:
            compared, plan = compare(base, head, world, options, now)
        except ManifestError as error:
            return _invalid(trees, older, newer, error)
    seen = _seen(invocation, asked, trees, head, options, now)
    found = tuple(findings.of_head(base, head, compared, plan))
    told = tuple(remarks.of_review(compared, head))
    document = review_document.valid(older, newer, compared, found, told, seen)
    return Reviewed(document, trees.head.lines(), trees.root, trees.below_root())


def _side(tree: Tree) -> Side:
    from fleetctl.cli.views.review_document import Side

    return Side(tree.name, tree.commit)


def _base(invocation: Invocation, trees: Trees) -> Manifests:
    """The older manifests. Raises BaseError."""
    try:
        with invocation.timings.phase("load"):
            return trees.base.load(trees.sources, may_lack=True)
    except ManifestError as error:
        raise _base_error(trees, error) from error


def _base_error(trees: Trees, error: ManifestError) -> BaseError:
    first = next(d for d in error.diagnostics if d.is_error)
    place = f" ({first.span})" if first.span is not None else ""
    return BaseError(
        f"what is compared with, {trees.base.name}, cannot be used: {error.message}; the first: "
        f"{first.summary}{place}: {first.detail}",
        hint="compare with a revision that is valid: fleetctl review BASE",
    )


def _invalid(trees: Trees, older: Side, newer: Side, error: ManifestError) -> Reviewed:
    from fleetctl.cli.views import review_document

    document = review_document.invalid(older, newer, error.diagnostics)
    return Reviewed(document, trees.head.lines(), trees.root, trees.below_root(), error.exit_code)


def _seen(
    invocation: Invocation, asked: Asked, trees: Trees, head: Manifests, options: Options, now: str
) -> Seen | None:
    """What the fleet as last seen makes of the newer manifests; None when nothing was named that tells of it."""
    from fleetctl.cli import look
    from fleetctl.cli.propose import tell_cut_off
    from fleetctl.cli.views.review_document import NOTHING, Seen
    from planner.last_seen import as_observed, as_recorded
    from planner.make import make
    from planner.review import PlanRows

    named = asked.state or invocation.environ.get("FLEETCTL_STATE")
    if asked.observed is None and not named:
        return None
    settings = resolve_settings(invocation, trees.sources.folder, asked.state, None)
    known = look.know(invocation, head, settings)
    tell_cut_off(invocation, known)
    recorded = known.recorded
    if asked.observed is not None:
        snapshot = look.read_snapshot(invocation, asked.observed)
        supposed = as_observed(snapshot, head)
        recorded |= {name: supposed[name] for name, known in recorded.items() if known.lineage is None}
    else:
        snapshot = as_recorded(recorded, head, now)
    source: Literal["state", "observed"] = "state" if asked.observed is None else "observed"
    with invocation.timings.phase("seen"):
        try:
            # Values of secrets are not asked for: what is under review is not to make this machine resolve anything.
            rows = PlanRows.of(make(head, snapshot, recorded, options, now, {}, seal=False))
        except ManifestError as error:
            errors: tuple[Diagnostic, ...] = error.diagnostics
            return Seen(source, snapshot.taken_at, (), NOTHING, errors)
    return Seen(source, snapshot.taken_at, rows.fleets, rows.sums, ())
