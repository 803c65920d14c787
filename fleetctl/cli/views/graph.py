"""A plan as a picture: its steps, what each waits for, and the waves, as Graphviz DOT or as Mermaid.

A wave is a barrier: it begins when every step of the earlier ones has succeeded. So waves are drawn as boxes with
one edge between them, and only what holds inside a wave is drawn from step to step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from fleetctl.cli.terminal import one_line
from planner.plan import FleetPlan, Plan, Step

# What Mermaid draws before its user raises a limit, as on GitHub.
MERMAID_EDGES_MAX = 500
MERMAID_CHARACTERS_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Box:
    """One thing that is drawn: a step, or all steps of a node in a wave. `ends_for_good`: no way back leads from it."""

    id: str
    label: str
    disrupts: bool = False
    ends_for_good: bool = False


@dataclass(frozen=True, slots=True)
class Wave:
    """Boxes that may be under way together, as far as their edges and the window allow."""

    id: str
    label: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Part:
    """One fleet."""

    id: str
    label: str
    waves: tuple[Wave, ...]


def parts(plan: Plan, *, by_node: bool = False) -> tuple[Part, ...]:
    """What is drawn, fleet by fleet in the order in which they are carried out; those with nothing to do are left out."""
    return tuple(_part(f, n, by_node=by_node) for n, f in enumerate(plan.fleets) if f.steps)


def _part(fleet: FleetPlan, number: int, *, by_node: bool) -> Part:
    waves = []
    for order, phase in enumerate(sorted({s.phase for s in fleet.steps}), 1):
        steps = [s for s in fleet.steps if s.phase == phase]
        firsts: dict[str | None, int] = {}
        of = {
            s.id: f"f{number}_{firsts.setdefault(s.uid, s.id) if by_node and s.uid is not None else s.id}"
            for s in steps
        }
        groups: dict[str, list[Step]] = {}
        for step in steps:
            groups.setdefault(of[step.id], []).append(step)
        boxes = tuple(
            Box(
                key,
                _label(inside),
                any(s.disrupts for s in inside),
                any(s.id == fleet.no_return for s in inside),
            )
            for key, inside in groups.items()
        )
        edges = dict.fromkeys(
            (of[a], of[s.id]) for s in steps for a in s.after if a in of and of[a] != of[s.id]
        )
        waves.append(Wave(f"f{number}_w{order}", _wave(fleet, phase, order), boxes, tuple(edges)))
    return Part(f"f{number}", f"fleet/{fleet.fleet}", tuple(waves))


def _label(steps: list[Step]) -> str:
    first = steps[0]
    who = first.node if first.node is not None else f"on {first.host}"
    text = f"{', '.join(s.kind.value for s in steps)} {who}"
    available = [s.available for s in steps if s.available is not None and s.disrupts]
    if available:
        text += f"\n{available[0].before} available, then {min(a.during for a in available)}"
    return text


def _wave(fleet: FleetPlan, phase: int, order: int) -> str:
    canary = fleet.rollout.canary_phase
    return f"wave {order}" + (" (the canary ends here)" if canary is not None and phase == canary else "")


def render_dot(drawn: tuple[Part, ...]) -> str:
    """Graphviz: `fleetctl graph | dot -Tsvg`."""
    lines = [
        "digraph plan {",
        "  compound=true; rankdir=LR; newrank=true;",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    for part in drawn:
        lines += [f"  subgraph cluster_{part.id} {{", f"    label={_dot(part.label)};"]
        for wave in part.waves:
            lines += [f"    subgraph cluster_{wave.id} {{", f"      label={_dot(wave.label)}; style=dashed;"]
            for box in wave.boxes:
                colour = (
                    ", color=red, penwidth=2"
                    if box.ends_for_good
                    else ", color=orange"
                    if box.disrupts
                    else ""
                )
                lines.append(f"      {box.id} [label={_dot(box.label)}{colour}];")
            lines += [f"      {a} -> {b};" for a, b in wave.edges]
            lines.append("    }")
        lines.append("  }")
    lines += [
        f"  {before.boxes[-1].id} -> {after.boxes[0].id} "
        f"[ltail=cluster_{before.id}, lhead=cluster_{after.id}, style=bold];"
        for before, after in _barriers(drawn)
    ]
    return "\n".join([*lines, "}"])


def render_mermaid(drawn: tuple[Part, ...]) -> str:
    """Mermaid, as Markdown on many sites draws it."""
    lines = ["flowchart LR"]
    for part in drawn:
        lines.append(f"  subgraph {part.id}[{_mermaid(part.label)}]")
        for wave in part.waves:
            lines.append(f"    subgraph {wave.id}[{_mermaid(wave.label)}]")
            for box in wave.boxes:
                mark = ":::final" if box.ends_for_good else ":::disrupts" if box.disrupts else ""
                lines.append(f"      {box.id}[{_mermaid(box.label)}]{mark}")
            lines += [f"      {a} --> {b}" for a, b in wave.edges]
            lines.append("    end")
        lines.append("  end")
    lines += [f"  {before.id} ==> {after.id}" for before, after in _barriers(drawn)]
    return "\n".join(
        [*lines, "  classDef disrupts stroke:orange", "  classDef final stroke:red,stroke-width:3px"]
    )


def too_large_for_mermaid(text: str) -> bool:
    """Whether Mermaid refuses it, as it is set on most sites."""
    return len(text) > MERMAID_CHARACTERS_MAX or text.count("-->") + text.count("==>") > MERMAID_EDGES_MAX


def _barriers(drawn: tuple[Part, ...]) -> Iterator[tuple[Wave, Wave]]:
    """Each wave with the one that waits for it; a fleet waits for those before it."""
    waves = [wave for part in drawn for wave in part.waves]
    yield from pairwise(waves)


def _dot(text: str) -> str:
    lines = [one_line(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'


def _mermaid(text: str) -> str:
    """In quotes; what Mermaid or a browser would read as more than a character is written by its number."""
    lines = [one_line(line) for line in text.split("\n")]
    return (
        '"'
        + "<br/>".join("".join(c if c not in '#"&<>;\\`' else f"#{ord(c)};" for c in line) for line in lines)
        + '"'
    )
