"""A plan held against the one that was approved: the same effects, or what differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cli import planfile
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.terminal import PLAIN, Paint, clean, one_line
from manifests.errors import StaleError

if TYPE_CHECKING:
    from planner.effects import Difference
    from planner.plan import Plan

FORMAT_VERSION = "1.0"
# The first differences tell what has changed; all of them are in the JSON.
SHOWN_MAX = 30
VALUE_COLUMNS_MAX = 80


class OtherPlan(StaleError):
    """The plan would do something else than the approved one."""

    code = "plan.not_approved"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a plan would do otherwise than the approved one, which was read from the file `name`."""

    approved: Plan
    plan: Plan
    name: str
    found: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        return not self.found

    @property
    def heading(self) -> str:
        count = len(self.found)
        said = f"{count} difference{'s' if count > 1 else ''}" if count else "the same effects"
        return f"Against {self.name}: {said}."

    def render(self, paint: Paint = PLAIN) -> str:
        """For people: approved on the left, planned now on the right."""
        lines = [paint("green bold" if self.same else "yellow bold", self.heading)]
        lines += [f"  {paint('bold', each.address)} {_told(each)}" for each in self.found[:SHOWN_MAX]]
        if len(self.found) > SHOWN_MAX:
            lines.append(f"  … and {len(self.found) - SHOWN_MAX} more (--format json has all)")
        return "\n".join(lines)

    def document(self) -> dict[str, object]:
        """As a JSON value."""
        from planner.effects import effects_digest

        return {
            "format_version": FORMAT_VERSION,
            "same": self.same,
            "approved": {"plan_id": self.approved.plan_id, "effects": effects_digest(self.approved)},
            "present": {"plan_id": self.plan.plan_id, "effects": effects_digest(self.plan)},
            "differences": [
                {"address": d.address, "what": d.what, "approved": d.approved, "present": d.present}
                for d in self.found
            ],
        }


def compare(plan: Plan, file: Path) -> Comparison:
    """The plan against the approved one in the file. Raises what `planfile.read` raises."""
    from planner.effects import differences

    approved = planfile.read(file)
    return Comparison(approved, plan, str(file), differences(approved, plan))


def ensure_approved(invocation: Invocation, plan: Plan, file: Path) -> Plan:
    """The approved plan in the file, whose effects are those of `plan`. Raises OtherPlan, and tells what differs.

    A plan that does nothing is always within what was approved: so an approval can be applied again after its end.
    """
    compared = compare(plan, file)
    if not plan.empty and not compared.same:
        invocation.terminal.say(compared.render(invocation.terminal.err_paint))
        raise OtherPlan(
            f"this is not what was approved in {file}; nothing was changed",
            hint="have the new plan approved: fleetctl plan --out FILE",
        )
    return compared.approved


def _told(each: Difference) -> str:
    if each.what == "change" and each.approved is None:
        return f"was not approved: {_value(each.present)}"
    if each.what == "change" and each.present is None:
        return f"was approved, and is not planned any more: {_value(each.approved)}"
    return f"{each.what}: approved {_value(each.approved)}, now {_value(each.present)}"


def _value(text: str | None) -> str:
    if text is None:
        return "(none)"
    shown = one_line(clean(text))
    return shown if len(shown) <= VALUE_COLUMNS_MAX else shown[: VALUE_COLUMNS_MAX - 1] + "…"
