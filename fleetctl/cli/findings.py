"""What is found about the manifests under review, beside what the planner says: the one place it is collected.

Whatever judges a review (the loader's warnings, the rules of policies) adds its diagnostics here. They are
shown first in every format, and an error among them is a refusal (exit 3).
"""

from __future__ import annotations

from collections.abc import Iterator

from manifests.diagnostics import Diagnostic
from manifests.manifest import Manifests
from planner.plan import Plan
from planner.policy import Question, judge
from planner.review import Review


def of_head(base: Manifests, head: Manifests, review: Review, plan: Plan) -> Iterator[Diagnostic]:
    """Every finding about the newer manifests. `plan` leads from the base, applied and healthy, to them."""
    del base, review
    yield from head.warnings
    # Nobody knows when it will be applied, and no program that is under review is run.
    yield from judge(plan, plan.policies, Question(moment=None))
