"""What can go wrong in the simulated world: by rates from a seed, or said by a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from planner.plan import StepKind


class Fault(StrEnum):
    """What happens to one call of an effect."""

    NONE = "none"
    UNREACHABLE = "unreachable"  # the host is not reached; nothing is done, and that is known
    LOST_BEFORE = "lost-before"  # the answer is lost, and the effect never arrived
    LOST_LATE = "lost-late"  # the answer is lost, and the effect is still on its way (`World.deliver`)
    LOST_MIDDLE = "lost-middle"  # begun, and cut off before anything happened
    LOST_AFTER = "lost-after"  # done and recorded; only the answer is lost
    FAILS = "fails"  # the host tries, and says that it failed


@dataclass(frozen=True, slots=True)
class Rates:
    """How often each fault happens, per effect, and how long calls take (seconds, up to)."""

    unreachable: float = 0.0
    lost_before: float = 0.0
    lost_late: float = 0.0
    lost_middle: float = 0.0
    lost_after: float = 0.0
    fails: float = 0.0
    exits_at_once: float = 0.0
    never_healthy: float = 0.0
    latency_s_max: float = 0.0
    healthy_after_s_max: float = 0.0

    def order(self) -> tuple[tuple[Fault, float], ...]:
        """Faults of a call with their rates; together at most 1."""
        return (
            (Fault.UNREACHABLE, self.unreachable),
            (Fault.LOST_BEFORE, self.lost_before),
            (Fault.LOST_LATE, self.lost_late),
            (Fault.LOST_MIDDLE, self.lost_middle),
            (Fault.LOST_AFTER, self.lost_after),
            (Fault.FAILS, self.fails),
        )


@dataclass(slots=True)
class Trouble:
    """A fault that a test asks for: for matching effects, `times` times (None: always)."""

    fault: Fault
    effect: StepKind | None = None
    node: str | None = None
    host: str | None = None
    times: int | None = 1

    def matches(self, effect: StepKind, node: str, host: str) -> bool:
        """Whether it strikes this call."""
        return (
            (self.times is None or self.times > 0)
            and self.effect in (None, effect)
            and self.node in (None, node)
            and self.host in (None, host)
        )
