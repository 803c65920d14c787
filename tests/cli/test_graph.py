"""A plan drawn: every step once, every edge between things that are drawn, and no name that breaks the syntax."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cli.views import graph
from planner.change import Action
from planner.plan import StepKind
from tests.cli.plans import change, fleet_plan, plan, step, upgrade

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z0-9_]*|->|[{}\[\];=,]|\d+|\s+')


def two_waves() -> graph.Part:
    steps = [
        step(0, None, StepKind.STAGE, 0),
        step(1, "web-0", StepKind.STOP, 1).model_copy(update={"disrupts": True}),
        step(2, "web-0", StepKind.START, 1).model_copy(update={"after": (1,)}),
        step(3, "web-1", StepKind.STOP, 2),
        step(4, "web-1", StepKind.START, 2).model_copy(update={"after": (3, 0)}),
    ]
    (part,) = graph.parts(plan(fleet_plan([upgrade("web-0"), upgrade("web-1")], steps, no_return=4)))
    return part


def test_dot() -> None:
    assert (
        graph.render_dot((two_waves(),))
        == r"""digraph plan {
  compound=true; rankdir=LR; newrank=true;
  node [shape=box, style=rounded, fontname="sans-serif"];
  subgraph cluster_f0 {
    label="fleet/hello";
    subgraph cluster_f0_w1 {
      label="wave 1"; style=dashed;
      f0_0 [label="stage on localhost"];
    }
    subgraph cluster_f0_w2 {
      label="wave 2"; style=dashed;
      f0_1 [label="stop web-0\n3 available, then 2", color=orange];
      f0_2 [label="start web-0"];
      f0_1 -> f0_2;
    }
    subgraph cluster_f0_w3 {
      label="wave 3"; style=dashed;
      f0_3 [label="stop web-1"];
      f0_4 [label="start web-1", color=red, penwidth=2];
      f0_3 -> f0_4;
    }
  }
  f0_0 -> f0_1 [ltail=cluster_f0_w1, lhead=cluster_f0_w2, style=bold];
  f0_2 -> f0_3 [ltail=cluster_f0_w2, lhead=cluster_f0_w3, style=bold];
}"""
    )


def test_mermaid() -> None:
    assert (
        graph.render_mermaid((two_waves(),))
        == """flowchart LR
  subgraph f0["fleet/hello"]
    subgraph f0_w1["wave 1"]
      f0_0["stage on localhost"]
    end
    subgraph f0_w2["wave 2"]
      f0_1["stop web-0<br/>3 available, then 2"]:::disrupts
      f0_2["start web-0"]
      f0_1 --> f0_2
    end
    subgraph f0_w3["wave 3"]
      f0_3["stop web-1"]
      f0_4["start web-1"]:::final
      f0_3 --> f0_4
    end
  end
  f0_w1 ==> f0_w2
  f0_w2 ==> f0_w3
  classDef disrupts stroke:orange
  classDef final stroke:red,stroke-width:3px"""
    )


def test_by_node_the_steps_of_a_wave_are_one_box() -> None:
    steps = [
        step(n, "web-0", kind, 1) for n, kind in enumerate((StepKind.STOP, StepKind.CREATE, StepKind.START))
    ]
    (part,) = graph.parts(plan(fleet_plan([upgrade("web-0")], steps)), by_node=True)
    assert [b.label for w in part.waves for b in w.boxes] == ["stop, create, start web-0"]


def test_a_fleet_waits_for_the_one_before_and_one_with_nothing_to_do_is_left_out() -> None:
    one = fleet_plan([upgrade("web-0")], [step(0, "web-0")])
    drawn = graph.parts(plan(one, fleet_plan([change("a", Action.NOOP)], fleet="idle"), one))
    assert [p.id for p in drawn] == ["f0", "f2"]
    assert "  f0_w1 ==> f2_w1" in graph.render_mermaid(drawn)


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4, unique=True), st.booleans())
def test_no_name_breaks_the_syntax(names: list[str], by_node: bool) -> None:
    steps = [step(n, name, phase=n % 2) for n, name in enumerate(names)]
    drawn = graph.parts(plan(fleet_plan([], steps, fleet=names[0])), by_node=by_node)
    dot = graph.render_dot(drawn)
    at = 0
    while at < len(dot):
        token = TOKEN.match(dot, at)
        assert token is not None, dot[at:]
        at = token.end()
    ids = {b.id for p in drawn for w in p.waves for b in w.boxes}
    assert {i for edge in re.findall(r"^ +(\w+) -> (\w+)", dot, re.M) for i in edge} <= ids
    for line in graph.render_mermaid(drawn).splitlines()[1:]:
        assert line.count('"') in (0, 2)
        quoted = re.search(r'"(.*)"', line)
        if quoted is not None:
            assert not re.search(r"[<>&`\\]", quoted[1].replace("<br/>", ""))


def test_a_drawing_that_mermaid_refuses_is_known() -> None:
    steps = [step(n, f"n-{n}", phase=1) for n in range(2000)]
    assert graph.too_large_for_mermaid(graph.render_mermaid(graph.parts(plan(fleet_plan([], steps)))))
    assert not graph.too_large_for_mermaid(graph.render_mermaid((two_waves(),)))
