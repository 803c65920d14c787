"""Rules across documents. Pure: every finding has a code, constant summary, the place, and what to write."""

from __future__ import annotations

from manifests.diagnostics import Diagnostic, warning
from manifests.manifest import Manifests
from manifests.rules import (
    budgets,
    calls,
    domains,
    fleets,
    hosts,
    pairs,
    policies,
    ports,
    processes,
    releases,
)
from manifests.rules.review import Review

RULES = (
    fleets.check,
    releases.check,
    pairs.check,
    hosts.check,
    budgets.check,
    processes.check,
    domains.check,
    calls.check,
    ports.check,
    policies.check,
)


def validate(manifests: Manifests, incomplete: frozenset[str] = frozenset()) -> list[Diagnostic]:
    """Every finding about documents that are valid one by one, in the order of the rules.

    `incomplete` names the kinds of which some document could not be read: what refers to them is not judged,
    so that one typing mistake is one finding.
    """
    review = Review(manifests, incomplete)
    for rule in RULES:
        rule(review)
    if not manifests.fleets and "Fleet" not in incomplete and (manifests.releases or manifests.compatibility):
        review.findings.append(
            warning(
                "manifest.no-fleet",
                "There is no fleet",
                "The manifests declare no document of kind Fleet, so there is nothing to plan.",
            )
        )
    return review.findings
