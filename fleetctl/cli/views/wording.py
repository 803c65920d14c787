"""The sentences of a plan's rows, without colour or layout: every view that draws a plan says it in these words.

What comes from elsewhere (values, reasons, details) is on one line and without control characters; where it
stands in markup, the view that writes the markup makes it harmless.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleetctl.cli.terminal import one_line
from planner.change import Action, Reason
from planner.differences import PairRow
from planner.explain import ChangeRow, FleetRows, LossRow
from planner.plan import Budget, Verdict

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
# More names than this in one line are cut in the middle.
NAMES_MAX = 6
VALUE_COLUMNS_MAX = 60
DATA_LOST = "its data is removed and cannot be brought back"


def header(fleet: FleetRows) -> str:
    """`fleet/hello: rolling, at most one node down at a time`"""
    if fleet.strategy == "full":
        return f"fleet/{fleet.fleet}: full, everything stops before anything starts"
    if fleet.window is None:
        return f"fleet/{fleet.fleet}"
    pace = "one node" if fleet.window == 1 else f"{fleet.window} nodes"
    return f"fleet/{fleet.fleet}: rolling, at most {pace} down at a time"


def who(fleet: str, row: ChangeRow) -> str:
    """The one node, or how many of which group."""
    if len(row.nodes) == 1:
        return f"node/{fleet}/{row.nodes[0]}"
    return f"{len(row.nodes)} nodes of group {row.group} ({names(row.nodes)})"


def will(row: ChangeRow) -> str:
    """`will be replaced on h1, which is not available now`"""
    hosts = sorted(set(row.hosts))
    where = f" on {hosts[0]}" if len(hosts) == 1 else f" on {len(hosts)} hosts"
    gone = ", which is not available now"
    if row.available or row.action in (Action.CREATE, Action.ADOPT):
        gone = ""
    match row.action:
        case Action.CREATE:
            return f"will be created{where}" + (f" with {row.after}" if row.after else "")
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
            return f"will be destroyed{where}" + (f", {row.before}" if row.before else "") + gone


def reason(given: Reason) -> str:
    """`env.GREETING: hello -> good day`, or the words of a reason that has no values."""
    name = given.field or given.code
    if given.before is None and given.after is None:
        words = _REASONS.get(given.code, given.code)
        return f"{words}: {given.field}" if given.field else words
    return f"{name}: {value(name, given.before)} -> {value(name, given.after)}"


def value(name: str, text: str | None) -> str:
    """A field's value, short and on one line; a secret's is never shown."""
    if text is None:
        return "(none)"
    for mark in ("keyed:", "secret:"):
        if mark in text:
            return "(secret)"
    if name == "command" or "\x00" in text:
        text = text.replace("\x00", " ")
    words = [digest(w) for w in one_line(text).split(" ")]
    text = " ".join(words)
    return text if len(text) <= VALUE_COLUMNS_MAX else text[: VALUE_COLUMNS_MAX - 1] + "…"


def digest(text: str) -> str:
    """A digest as much of it as people compare; any other text as it is."""
    return text[:19] + "…" if text.startswith("sha256:") and len(text) > 20 else text


def lost(what: str) -> str:
    """What goes with a node beside its data."""
    return f"lost with it, and cannot be brought back: {one_line(what)}"


def transition(verdict: Verdict) -> str:
    """`hello 1.0.0 -> 1.1.0`"""
    return f"{verdict.product} {verdict.from_} -> {verdict.to}"


def loss(fleet: str, row: LossRow) -> str:
    """What is lost, in one sentence without its full stop."""
    one = len(row.nodes) == 1
    nodes = (
        f"node/{fleet}/{row.nodes[0]}"
        if one
        else f"{len(row.nodes)} nodes of fleet/{fleet} ({names(row.nodes)})"
    )
    be, their = ("is", "its") if one else ("are", "their")
    match row.kind:
        case "node":
            return f"{nodes} {be} destroyed"
        case "data":
            return f"{nodes} {be} destroyed, and {their} data with {'it' if one else 'them'}"
        case "kept":
            return f"{nodes} {'loses' if one else 'lose'} {one_line(row.what or '')}"
        case "anonymous-volumes":
            return f"{nodes} {'loses' if one else 'lose'} the volumes that {their} image declares"
        case _:
            return f"{nodes}: volume {row.what} is not attached any more"


def declared(row: PairRow) -> str:
    """`hello 1.0.0 -> 2.0.0: was not declared; is rolling, back: never`"""
    when = f" (when {one_line(row.when)})" if row.when else ""
    before, after = (one_line(said) if said else "not declared" for said in (row.before, row.after))
    return f"{row.product} {row.from_} -> {row.to}{when}: was {before}; is {after}"


def verdict_says(verdict: Verdict) -> str:
    """What follows the verdict's word: the way back, the declared reason, the place."""
    back = "no way back is declared" if verdict.reverse == "never" else f"back: {verdict.reverse}"
    place = f" ({one_line(verdict.place)})" if verdict.place else ""
    because = f", {one_line(verdict.reason)}" if verdict.reason else ""
    if verdict.mode in ("unknown", "refuse"):
        back = ""
    return f"{'; ' + back if back else ''}{because}{place}"


def availability(fleet: FleetRows, *, several: bool) -> str:
    """`Availability: never below 2 of 3 (floor 2, reserve 1).`; with the fleet's name where there are several."""
    name = f"{fleet.fleet}: " if several else ""
    if not fleet.budgets:
        return f"Availability: {name}no budget."
    texts = [_budget(b, accepted=fleet.downtime_accepted) for b in fleet.budgets]
    return f"Availability: {name}{'; '.join(texts)}."


def _budget(b: Budget, *, accepted: bool) -> str:
    if b.count == 0:
        return f"nothing of {b.scope} is to stay available"
    scope = "" if b.scope == "fleet" else f" in {b.scope}"
    floor = "downtime accepted" if accepted else f"floor {b.floor}"
    below = "" if b.available_now >= b.floor else f"; {b.available_now} available now"
    return f"never below {b.minimum} of {b.count}{scope} ({floor}, reserve {b.reserve}{below})"


def order(fleet: FleetRows) -> list[str]:
    """The nodes by phase, numbered from 1."""
    return [f"{n}. {names(nodes)}" for n, nodes in enumerate(fleet.phases, start=1)]


def left(nodes: int) -> str:
    """What becomes of the nodes of a fleet that no manifest declares any more."""
    one = nodes == 1
    return f"its {nodes} node{'' if one else 's'} stay{'s' if one else ''} as they are, and nothing looks after them"


def unchanged(count: int) -> str:
    """`2 nodes unchanged`"""
    return f"{count} node{'s' if count > 1 else ''} unchanged"


def names(given: Sequence[str]) -> str:
    """Names for a sentence, cut in the middle where there are many."""
    if len(given) <= NAMES_MAX:
        return ", ".join(given)
    half = NAMES_MAX // 2
    return ", ".join([*given[:half], "…", *given[-half:]])
