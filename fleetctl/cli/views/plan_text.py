"""A plan for people: what is lost first, then what serves now and will be touched, then the rest, and the sums.

Glyphs are those people know: `+` create, `~` change in place, `-` destroy, `-/+` stop and place anew,
`=` take over; the legend names only those that occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line
from planner.change import Action, Change, Reason
from planner.explain import lost, sums
from planner.hooks import told
from planner.plan import FleetPlan, Plan, Refusal, StepKind, Verdict

GLYPHS = {
    Action.DESTROY: ("  -", "red", "destroy"),
    Action.REPLACE: ("-/+", "yellow", "replace (stop, place the new one, start)"),
    Action.RESTART: ("  ~", "yellow", "change in place"),
    Action.RELOAD: ("  ~", "yellow", "change in place"),
    Action.STOP: ("  !", "yellow", "stop"),
    Action.ADOPT: ("  =", "cyan", "take over"),
    Action.CREATE: ("  +", "green", "create"),
}
_REASONS = {
    "new": "it was never there",
    "gone": "it is not there any more",
    "unreachable": "its host does not answer",
    "destroy": "the fleet is to be destroyed",
    "not-declared": "no manifest declares it any more",
    "downgrade": "a downgrade",
    "same-precedence": "the same precedence: only build metadata differs",
    "drain": "its host is drained",
}
# More nodes than this with the very same change are told in one line.
ALIKE_MAX = 8
# More names than this in one line are cut in the middle.
NAMES_MAX = 6
# More nodes than this are not listed a second time right before the question.
LOST_MAX = 8
VALUE_COLUMNS_MAX = 60
NO_CHANGES = "No changes. Everything that was declared is there and healthy."
NO_CHANGES_BUT = "No changes. Not everything is well, or could be seen: see above."


def render_plan(plan: Plan, paint: Paint = PLAIN) -> str:
    """The whole plan; ends with the sums, one line each."""
    blocks: list[str] = []
    if not plan.empty:
        legend = _legend(c.action for f in plan.fleets for c in f.changes)
        if legend:
            blocks.append(
                "\n".join(["What the marks mean:", *(f"{_glyph(a, paint)} {text}" for a, text in legend)])
            )
    for fleet in plan.fleets:
        if not fleet.empty or fleet.warnings or any(c.drift for c in fleet.changes):
            blocks.append(render_fleet(fleet, paint))
    if plan.targets:
        blocks.append(
            f"Only {_names(plan.targets)} was looked at (--target); other nodes may differ from their manifests."
        )
    blocks.append(summary(plan, paint))
    return "\n\n".join(b for b in blocks if b)


def summary(plan: Plan, paint: Paint = PLAIN) -> str:
    """The closing lines: refusals by number, what is added, changed and destroyed, and the lowest availability."""
    if plan.empty:
        if any(f.warnings for f in plan.fleets):
            return paint("yellow bold", NO_CHANGES_BUT)
        return paint("green bold", NO_CHANGES)
    lines = []
    refusals = sum(len(f.refusals) for f in plan.fleets)
    if refusals:
        lines.append(
            paint(
                "red bold",
                f"Refused: {refusals} reason{'s' if refusals > 1 else ''}, see above. Nothing can be applied.",
            )
        )
    lines.append(paint("bold", counts(plan)))
    several = len(plan.fleets) > 1
    for fleet in plan.fleets:
        if fleet.steps:
            lines += [_availability(fleet, several)]
    return "\n".join(lines)


def counts(plan: Plan) -> str:
    """`Plan: 1 to add, 2 to change, 0 to destroy.`"""
    return f"Plan: {sums(plan)}."


def losses(plan: Plan) -> str:
    """What the question repeats: what cannot be brought back, node by node; empty where nothing is lost."""
    nodes = [one_line(text) for text in lost(plan)]
    if not nodes:
        return ""
    more = len(nodes) - LOST_MAX
    shown = [f"  {text}" for text in nodes[:LOST_MAX]] + ([f"  and {more} more nodes"] if more > 0 else [])
    return "\n".join(["This cannot be brought back afterwards:", *shown])


def _availability(fleet: FleetPlan, several: bool) -> str:
    name = f"{fleet.fleet}: " if several else ""
    if not fleet.budgets:
        return f"Availability: {name}no budget."
    texts = []
    for b in fleet.budgets:
        if b.count == 0:
            texts.append(f"nothing of {b.scope} is to stay available")
            continue
        scope = "" if b.scope == "fleet" else f" in {b.scope}"
        floor = "downtime accepted" if fleet.rollout.accept_downtime else f"floor {b.floor}"
        below = "" if b.available_now >= b.floor else f"; {b.available_now} available now"
        texts.append(f"never below {b.minimum} of {b.count}{scope} ({floor}, reserve {b.reserve}{below})")
    return f"Availability: {name}{'; '.join(texts)}."


def render_fleet(fleet: FleetPlan, paint: Paint = PLAIN) -> str:
    """One fleet: header, drift, changes, verdicts, order, warnings, refusals."""
    lines = [paint("bold", _header(fleet))]
    drifted = [c for c in fleet.changes if c.drift]
    if drifted:
        lines.append(paint("yellow", f"  Changed outside of fleetctl: {_names(_addresses(fleet, drifted))}"))
    for alike in _alike(c for c in fleet.changes if c.action is not Action.NOOP):
        lines += _change(fleet, alike, paint)
    unchanged = sum(c.action is Action.NOOP for c in fleet.changes)
    if unchanged and not fleet.empty:
        lines.append(paint("dim", f"      {unchanged} node{'s' if unchanged > 1 else ''} unchanged"))
    if fleet.verdicts:
        lines += ["", "  Compatibility:", *(f"    {_verdict(v, paint)}" for v in fleet.verdicts)]
    calls = told(fleet)
    if calls:
        lines += ["", "  Hooks and drains:", *(f"    {one_line(line)}" for line in calls)]
    order = _order(fleet)
    if order:
        lines += ["", "  Order:", *(f"    {line}" for line in order)]
    for text in fleet.warnings:
        lines += ["", f"  {paint('yellow bold', 'Warning:')} {clean(text)}"]
    for refusal in fleet.refusals:
        lines += ["", *(f"  {line}" for line in _refusal(refusal, paint))]
    return "\n".join(lines)


def _header(fleet: FleetPlan) -> str:
    how = fleet.rollout.strategy
    if how == "none" or not fleet.steps:
        return f"fleet/{fleet.fleet}"
    if how == "full":
        return f"fleet/{fleet.fleet}: full, everything stops before anything starts"
    if all(c.action in (Action.CREATE, Action.DESTROY, Action.NOOP, Action.ADOPT) for c in fleet.changes):
        return f"fleet/{fleet.fleet}"
    pace = "one node" if fleet.rollout.window == 1 else f"{fleet.rollout.window} nodes"
    return f"fleet/{fleet.fleet}: rolling, at most {pace} down at a time"


def _legend(actions: Iterable[Action]) -> list[tuple[Action, str]]:
    present = set(actions)
    seen: dict[str, tuple[Action, str]] = {}
    for action, (glyph, _, text) in GLYPHS.items():
        if action in present:
            seen.setdefault(glyph, (action, text))
    return list(seen.values())


def _glyph(action: Action, paint: Paint) -> str:
    glyph, style, _ = GLYPHS[action]
    return paint(style, glyph)


def _alike(changes: Iterable[Change]) -> list[list[Change]]:
    """Changes in the order of their weight; many that differ in nothing but the node stand together."""
    weight = list(GLYPHS)
    ordered = sorted(changes, key=lambda c: (weight.index(c.action), not c.available))
    groups: dict[object, list[Change]] = {}
    for c in ordered:
        key = (c.action, c.group, c.reasons, c.before, c.after, c.available, c.data_lost, c.losses)
        groups.setdefault(key, []).append(c)
    out: list[list[Change]] = []
    for alike in groups.values():
        out += [alike] if len(alike) > ALIKE_MAX else [[c] for c in alike]
    return sorted(out, key=lambda alike: (weight.index(alike[0].action), not alike[0].available))


def _change(fleet: FleetPlan, alike: Sequence[Change], paint: Paint) -> list[str]:
    c = alike[0]
    if len(alike) == 1:
        who = f"node/{fleet.fleet}/{c.node}"
        where = f" on {c.host}"
    else:
        who = f"{len(alike)} nodes of group {c.group} ({_names([a.node for a in alike])})"
        hosts = sorted({a.host for a in alike})
        where = f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts"
    lines = [f"{_glyph(c.action, paint)} {paint('bold', who)} {_will(c, where)}"]
    lines += [f"      {_reason(r)}" for r in c.reasons]
    if c.data_lost:
        lines.append(paint("red bold", "      its data is removed and cannot be brought back"))
    lines += [
        paint("red bold", f"      lost with it, and cannot be brought back: {one_line(what)}")
        for what in c.losses
    ]
    return lines


def _will(change: Change, where: str) -> str:
    gone = (
        ""
        if change.available or change.action in (Action.CREATE, Action.ADOPT)
        else ", which is not available now"
    )
    match change.action:
        case Action.CREATE:
            version = f" with {change.after.version}" if change.after else ""
            return f"will be created{where}{version}"
        case Action.REPLACE:
            return f"will be replaced{where}{gone}"
        case Action.RESTART:
            return f"will be restarted{where}{gone}"
        case Action.RELOAD:
            return f"will be told to reload{where}{gone}"
        case Action.ADOPT:
            return f"will be taken over{where}"
        case Action.STOP:
            return f"will be stopped{where}{gone}"
        case _:
            version = f", {change.before.version}" if change.before else ""
            return f"will be destroyed{where}{version}{gone}"


def _reason(reason: Reason) -> str:
    name = reason.field or reason.code
    if reason.before is None and reason.after is None:
        words = _REASONS.get(reason.code, reason.code)
        return f"{words}: {reason.field}" if reason.field else words
    return f"{name}: {_value(name, reason.before)} -> {_value(name, reason.after)}"


def _value(name: str, value: str | None) -> str:
    if value is None:
        return "(none)"
    for mark in ("keyed:", "secret:"):
        if mark in value:
            return "(secret)"
    if name == "command" or "\x00" in value:
        value = value.replace("\x00", " ")
    text = one_line(value)
    words = [w[:19] + "…" if w.startswith("sha256:") and len(w) > 20 else w for w in text.split(" ")]
    text = " ".join(words)
    return text if len(text) <= VALUE_COLUMNS_MAX else text[: VALUE_COLUMNS_MAX - 1] + "…"


def _verdict(verdict: Verdict, paint: Paint) -> str:
    style = {"rolling": "green", "same": "green", "full": "yellow"}.get(verdict.mode, "red bold")
    back = "no way back is declared" if verdict.reverse == "never" else f"back: {verdict.reverse}"
    place = f" ({verdict.place})" if verdict.place else ""
    reason = f", {one_line(verdict.reason)}" if verdict.reason else ""
    if verdict.mode in ("unknown", "refuse"):
        back = ""
    return (
        f"{verdict.product} {verdict.from_} -> {verdict.to}: {paint(style, verdict.mode)}"
        f"{'; ' + back if back else ''}{reason}{place}"
    )


def _order(fleet: FleetPlan) -> list[str]:
    """The nodes by phase, once more than one phase touches nodes."""
    phases: dict[int, dict[str, None]] = {}
    for step in fleet.steps:
        if step.node is not None and step.kind is not StepKind.STAGE:
            phases.setdefault(step.phase, {})[step.node] = None
    if len(phases) < 2:
        return []
    return [f"{n}. {_names(list(nodes))}" for n, (_, nodes) in enumerate(sorted(phases.items()), start=1)]


def _refusal(refusal: Refusal, paint: Paint) -> list[str]:
    lines = [f"{paint('red bold', 'Refused:')} {paint('bold', clean(refusal.summary))}"]
    if refusal.place:
        lines.append(f"  at {refusal.place}")
    lines += [f"  {line}" for line in clean(refusal.detail).splitlines()]
    if refusal.hint:
        first, *rest = clean(refusal.hint).splitlines()
        lines.append(f"  {paint('cyan', 'Hint:')} {first}")
        lines += [f"        {line}" for line in rest]
    return lines


def _addresses(fleet: FleetPlan, changes: Iterable[Change]) -> list[str]:
    return [f"node/{fleet.fleet}/{c.node}" for c in changes]


def _names(names: Sequence[str]) -> str:
    if len(names) <= NAMES_MAX:
        return ", ".join(names)
    half = NAMES_MAX // 2
    return ", ".join([*names[:half], "…", *names[-half:]])
