"""The live view's picture: what it says, that it fits, and that its bar never flatters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cli.views.board import Item
from fleetctl.cli.views.frame import bar, frame
from fleetctl.cli.views.scene import Gauge, Scene, Shot, Tail, Wave
from fleetctl.engine.events import Report
from planner.plan import Plan, StepKind
from tests.cli import plans
from tests.cli.test_progress import Hand

FULL = Shot(
    fleet="edge",
    begun_s=0.0,
    waves=(Wave(1, 1, 0, 1, False), Wave(2, 3, 1, 6, True), Wave(3, 0, 0, 3, False)),
    gauges=(Gauge("fleet", 8, 10, 8, 3), Gauge("group/web", 4, 4, 3, 1)),
    done=4,
    failed=1,
    count=10,
    tails=(Tail("web-1", "it is exited", ("one", "two")),),
)
ITEMS = [Item("web-4", "waiting for health", 5.0, "503"), Item("web-5", "start", 6.0)]


def texts(shot: Shot, columns: int, rows: int, items: list[Item] = ITEMS) -> list[str]:
    return [line.plain for line in frame(shot, items, 8.2, columns, rows, plain=True)]


def test_the_whole_picture() -> None:
    assert texts(FULL, 100, 20) == [
        "fleet/edge  wave 2 of 3, 4 of 10 done, 1 failed, for 8.2s",
        "available  [################################|........] 8 of 10, floor 8, reserve 3",
        "available  [#############################|##########] 4 of 4 in group/web, floor 3, reserve 1",
        "waves      1 done (1 node)  2 under way (3 of 6, 1 failed)  3 to come (3 nodes) ",
        "  web-4 waiting for health, for 3.2s (503)",
        "  web-5 start, for 2.2s",
        "  web-1 | one",
        "  web-1 | two",
    ]


def test_on_the_smallest_terminal_stands_how_it_is() -> None:
    assert texts(FULL, 40, 2)[0].startswith("fleet/edge  wave 2 of 3, 4 of 10 done")
    assert texts(FULL, 40, 2)[1] == "available  [######|..] 8 of 10, floor 8"


def test_what_does_not_fit_is_counted() -> None:
    many = [Item(f"web-{n}", "start", 0.0) for n in range(40)]
    lines = texts(FULL, 100, 12, many)
    shown = [x for x in lines if x.startswith("  web-") and "start" in x]
    assert f"  and {40 - len(shown)} more" in lines
    assert "  web-1 | two" in lines, "the last words have their place beside them"


def test_going_back_has_no_waves() -> None:
    back = Shot(
        **{n: getattr(FULL, n) for n in FULL.__slots__} | {"reverting": True, "halted": "stopping: x"}
    )
    lines = texts(back, 100, 20)
    assert lines[0].startswith("fleet/edge  going back, ")
    assert not any(x.startswith("waves") for x in lines)


@given(
    columns=st.integers(1, 250),
    rows=st.integers(1, 80),
    count=st.integers(0, 40),
    words=st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=300),
)
def test_nothing_is_ever_wider_or_higher_than_the_terminal(
    columns: int, rows: int, count: int, words: str
) -> None:
    """Wide characters count as what they take."""
    shot = Shot(
        **{n: getattr(FULL, n) for n in FULL.__slots__}
        | {"halted": words, "tails": (Tail(words, words, (words, words)),)}
    )
    lines = frame(shot, [Item(words, words, 0.0, words)] * count, 9.0, columns, rows, plain=False)
    assert len(lines) <= rows
    assert all(line.cell_len <= columns and "\n" not in line.plain for line in lines)


@given(
    count=st.integers(1, 500),
    available=st.integers(0, 500),
    floor=st.integers(0, 500),
    width=st.integers(1, 60),
)
def test_the_bar_reaches_its_mark_exactly_when_the_floor_is_kept(
    count: int, available: int, floor: int, width: int
) -> None:
    available, floor = min(available, count), min(floor, count)
    (left, right), (empty_left, empty_right), _ = bar(
        Gauge("fleet", available, count, floor, 0), width, plain=True
    )
    assert len(left) + len(right) + len(empty_left) + len(empty_right) == width
    if available >= floor:
        assert empty_left == ""
    elif len(left) + len(empty_left) > 0:
        assert empty_left != ""
        assert right == ""


def rolling() -> Plan:
    """web-0 as the canary, then web-1 and web-2; each is started and verified."""
    nodes = ["web-0", "web-1", "web-2"]
    kinds = (StepKind.START, StepKind.VERIFY)
    pairs = [(node, kind) for node in nodes for kind in kinds]
    steps = [
        plans.step(n, node, kind, phase=1 if node == "web-0" else 2) for n, (node, kind) in enumerate(pairs)
    ]
    return plans.plan(plans.fleet_plan([plans.upgrade(node) for node in nodes], steps))


def report(kind: str, node: str | None, **facts: object) -> Report:
    return Report(kind, node, kind, facts=facts)


def test_the_scene_counts_nodes_by_wave_and_forgets_waves_on_the_way_back() -> None:
    plan = rolling()
    (fleet,) = [f for f in plan.fleets if f.steps]
    steps = [s for s in fleet.steps if s.node is not None]
    first = steps[0].node
    scene = Scene(plan, Hand())
    assert scene.shot() == Shot(), "nothing was reported yet"
    scene.on_report(fleet.fleet, report("run", None, done=[]))
    for step in steps:
        if step.node == first:
            kind = "healthy" if step.kind is StepKind.VERIFY else "step"
            scene.on_report(fleet.fleet, report(kind, first, state="done", step=step.kind.value))
    shot = scene.shot()
    assert (shot.done, shot.failed, shot.count) == (1, 0, len({s.node for s in steps}))
    assert sum(w.done for w in shot.waves) == 1
    counts = {"available": 1, "count": 3, "floor": 2, "reserve": 1}
    scene.on_report(
        fleet.fleet, report("availability", None, **counts, under_way=0, wave=1, reverting=True, scopes={})
    )
    scene.on_report(fleet.fleet, report("step", steps[-1].node, state="done", step=steps[-1].kind.value))
    assert scene.shot().done == 1
    assert scene.shot().gauges == (Gauge("fleet", 1, 3, 2, 1),)


def test_nodes_that_were_done_before_a_run_goes_on_are_done() -> None:
    plan = rolling()
    (fleet,) = [f for f in plan.fleets if f.steps]
    names = sorted({s.node for s in fleet.steps if s.node is not None})
    scene = Scene(plan, Hand())
    scene.on_report(fleet.fleet, report("run", None, done=names[:2]))
    assert scene.shot().done == 2


@pytest.mark.parametrize("log", ["a\nb", "\x1b[2J\x1b[31ma\r\nb\x07"])
def test_the_tail_is_clean(log: str) -> None:
    plan = rolling()
    (fleet,) = [f for f in plan.fleets if f.steps]
    scene = Scene(plan, Hand())
    scene.on_report(fleet.fleet, report("run", None, done=[]))
    scene.on_report(fleet.fleet, report("evidence", "web-0", state="exited", exit_code=3, detail="", log=log))
    assert [t.lines for t in scene.shot().tails] == [("a", "b")]
