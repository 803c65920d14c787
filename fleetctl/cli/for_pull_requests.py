"""Plans as `--format markdown` and `--format github` print them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fleetctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from fleetctl.cli.against import Comparison
    from fleetctl.cli.views.markdown import Page
    from manifests.diagnostics import Diagnostic
    from manifests.manifest import Manifests
    from planner.plan import Plan

FORMATS = ("markdown", "github")


def guard(invocation: Invocation, form: str) -> None:
    """From here on talk is no command to a runner, whatever it says."""
    if form == "github":
        from fleetctl.cli.views import github

        invocation.terminal.guard = github.harmless


def write(
    invocation: Invocation,
    plans: Sequence[Plan],
    form: str,
    manifests: Manifests | None,
    found: Sequence[Diagnostic] = (),
    compared: Comparison | None = None,
) -> None:
    """Prints the plans, and adds them to the step's summary. With `manifests`, changes are told at their lines.

    `found` is what policies say of the plans, `compared` how the one plan differs from the approved one.
    """
    from fleetctl.cli import step_summary
    from fleetctl.cli.views import github, plan_markdown, plan_text, remarks
    from planner.explain import rows

    terminal = invocation.terminal
    errors = sum(f.is_error for f in found)
    pages = [
        plan_markdown.page(plan, n, len(plans), more_refusals=errors if n == 1 else 0)
        for n, plan in enumerate(plans, 1)
    ]
    _beside(pages[0], found, compared)
    if form == "markdown":
        terminal.data("\n".join(page.render() for page in pages))
        return
    step_summary.add(invocation, pages)
    # Paths are told from the top of the checkout, which the runner names; elsewhere from where we are.
    top = os.path.abspath(invocation.environ.get("GITHUB_WORKSPACE") or ".")  # noqa: PTH100
    report = "\n\n".join(plan_text.render_plan(plan) for plan in plans)
    report = "\n\n".join([report, *([] if compared is None else [compared.render()])])
    told = [*found]
    told += [remark for plan in plans for remark in remarks.of_fleets(rows(plan), manifests)]
    terminal.data(github.log(report, remarks.by_weight(told), top))


def _beside(page: Page, found: Sequence[Diagnostic], compared: Comparison | None) -> None:
    """What is said about a plan, on its page: in the open, and in folds with every detail."""
    from fleetctl.cli.views import plan_markdown
    from fleetctl.cli.views.diagnostics import render_diagnostics
    from fleetctl.cli.views.markdown import Fold, bullets, code

    if compared is not None:
        page.head += bullets([f"**{code(compared.heading)}**"])
        if not compared.same:
            page.folds.insert(0, Fold.of("Against the approved plan", compared.render()))
    if found:
        page.head += bullets([plan_markdown.finding(f) for f in found])
        page.folds.insert(0, Fold.of("Policies", render_diagnostics(found)))
