"""A plan's text: what is lost first, a legend of the marks that occur, and the sums at the end."""

from __future__ import annotations

from fleetctl.cli.terminal import Paint
from fleetctl.cli.views.plan_text import NO_CHANGES, counts, render_plan
from planner.change import Action, Reason
from planner.plan import Refusal, Verdict
from tests.cli.plans import change, fleet_plan, plan, step, upgrade


def test_sums_are_the_last_lines() -> None:
    shown = plan(
        fleet_plan([upgrade("web-0"), upgrade("web-1"), change("web-2", Action.CREATE)], [step(0, "web-0")])
    )
    assert render_plan(shown).splitlines()[-2:] == [
        "Plan: 1 to add, 2 to change, 0 to destroy.",
        "Availability: never below 2 of 3 (floor 2, reserve 1).",
    ]


def test_legend_names_only_marks_that_occur() -> None:
    text = render_plan(plan(fleet_plan([change("web-0", Action.CREATE)], [step(0, "web-0")])))
    assert "  + create" in text
    assert "-/+" not in text
    assert "  - destroy" not in text


def test_what_is_destroyed_stands_first_and_lost_data_is_said() -> None:
    shown = plan(
        fleet_plan(
            [
                change("web-0", Action.CREATE),
                upgrade("web-1"),
                change("web-9", Action.DESTROY, data_lost=True),
            ],
            [step(0, "web-0")],
        )
    )
    text = render_plan(shown)
    assert text.index("web-9") < text.index("web-1") < text.index("web-0")
    assert "its data is removed and cannot be brought back" in text


def test_nodes_that_serve_stand_before_those_that_do_not() -> None:
    shown = plan(fleet_plan([upgrade("web-0", available=False), upgrade("web-1")], [step(0, "web-0")]))
    text = render_plan(shown)
    assert text.index("web-1") < text.index("web-0")
    assert "node/hello/web-0 will be replaced on localhost, which is not available now" in text


def test_reasons_show_before_and_after_and_never_a_secret() -> None:
    reasons = (
        Reason(code="env", field="env.GREETING", before="hello", after="good day"),
        Reason(code="env", field="env.TOKEN", before="keyed:aaaa", after="keyed:bbbb"),
        Reason(code="command", field="command", before="run\x00--fast", after="run\x00--slow"),
        Reason(code="env", field="env.EVIL", before=None, after="\x1b[2J"),
    )
    text = render_plan(
        plan(fleet_plan([change("web-0", Action.RESTART, reasons=reasons)], [step(0, "web-0")]))
    )
    assert "env.GREETING: hello -> good day" in text
    assert "env.TOKEN: (secret) -> (secret)" in text
    assert "command: run --fast -> run --slow" in text
    assert "aaaa" not in text
    assert "\x1b" not in text


def test_a_hundred_alike_are_one_line() -> None:
    text = render_plan(plan(fleet_plan([upgrade(f"web-{n}") for n in range(100)], [step(0, "web-0")])))
    assert "100 nodes of group web (web-0, web-1, web-2, …, web-97, web-98, web-99)" in text
    assert text.count("will be replaced") == 1
    assert "Plan: 0 to add, 100 to change, 0 to destroy." in text


def test_no_changes() -> None:
    shown = plan(fleet_plan([change("web-0", Action.NOOP)]))
    assert render_plan(shown) == NO_CHANGES


def test_a_refusal_says_what_where_why_and_the_line_that_would_allow_it() -> None:
    refusal = Refusal(
        code="compat.unknown",
        summary="No pair is declared",
        detail="Nothing says that 1.1.0 and 2.0.0 may serve side by side.",
        place="releases.yaml:38",
        hint='add under pairs:\n- {from: "1.1.0", to: "2.0.0", mode: rolling}',
    )
    shown = plan(fleet_plan([upgrade("web-0")], refusals=(refusal,)))
    assert (
        "  Refused: No pair is declared\n"
        "    at releases.yaml:38\n"
        "    Nothing says that 1.1.0 and 2.0.0 may serve side by side.\n"
        "    Hint: add under pairs:\n"
        '          - {from: "1.1.0", to: "2.0.0", mode: rolling}' in render_plan(shown)
    )


def test_verdicts_show_the_way_back_and_the_place() -> None:
    verdicts = (
        Verdict(
            product="hello", from_="1.0.0", to="1.1.0", mode="rolling", reverse="never", place="r.yaml:3"
        ),
        Verdict(product="hello", from_="1.0.0", to="1.2.0", mode="full", reverse="rolling", reason="format"),
    )
    text = render_plan(plan(fleet_plan([upgrade("web-0")], [step(0, "web-0")], verdicts=verdicts)))
    assert "hello 1.0.0 -> 1.1.0: rolling; no way back is declared (r.yaml:3)" in text
    assert "hello 1.0.0 -> 1.2.0: full; back: rolling, format" in text


def test_order_shows_the_canary_first() -> None:
    steps = [step(0, "web-0", phase=1), step(1, "web-1", phase=2), step(2, "web-2", phase=2)]
    text = render_plan(plan(fleet_plan([upgrade(f"web-{n}") for n in range(3)], steps)))
    assert "  Order:\n    1. web-0\n    2. web-1, web-2" in text


def test_adoption_is_counted_apart() -> None:
    assert counts(plan(fleet_plan([change("web-0", Action.ADOPT)]))) == (
        "Plan: 1 to take over, 0 to add, 0 to change, 0 to destroy."
    )


def test_colour_changes_nothing_but_colour() -> None:
    from fleetctl.cli.terminal import clean

    shown = plan(fleet_plan([upgrade("web-0"), change("web-9", Action.DESTROY)], [step(0, "web-0")]))
    assert clean(render_plan(shown, Paint(enabled=True))) == render_plan(shown)


def test_what_goes_with_a_node_stands_with_it() -> None:
    """Snapshots and saved states are lost like data is: nobody may approve that without having read it."""
    gone = change("web-9", Action.DESTROY, data_lost=True, losses=("1 snapshot (before)", "its saved state"))
    alike = [upgrade(f"web-{n}", losses=("1 snapshot (x)",)) for n in range(10)]
    shown = plan(fleet_plan([gone, *alike], [step(0, "web-0")]))
    text = render_plan(shown)
    assert "lost with it, and cannot be brought back: 1 snapshot (before)" in text
    assert "lost with it, and cannot be brought back: its saved state" in text


def test_nodes_that_lose_something_else_are_not_told_in_one_line() -> None:
    changes = [upgrade(f"web-{n}") for n in range(10)] + [upgrade("web-10", losses=("its saved state",))]
    text = render_plan(plan(fleet_plan(changes, [step(0, "web-0")])))
    assert text.count("will be replaced") == 2
