"""Whether a lease may be taken: pure, and the same in every store.

A holder on this machine is judged by its process: dead is dead at once, alive holds for as long as it lives.
One elsewhere is judged by observation: its token unchanged for the whole TTL on the observer's own
monotonic clock. No two wall clocks are ever compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fleetctl.ledger.ports import Holder, Lease, LeaseHeld, LeaseLost, StateError
from fleetctl.stores.processes import Processes

MOVED_RUN = "moved"
"""The run that holds a fleet of a state that was migrated, so that no other one begins there."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """When a lease's token was first seen as it is now: seconds of this machine's monotonic clock."""

    token: str
    machine: str
    seen_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """What a store keeps of one fleet's lease. `lease` None: free; the epoch stays and only grows.

    `renewals` makes the token change with every renewal even when two of them share a millisecond.
    """

    epoch: int
    lease: Lease | None
    renewals: int = 0

    @property
    def token(self) -> str:
        """Changes with every acquisition and every renewal."""
        return "" if self.lease is None else f"{self.lease.lease_id}/{self.renewals}"


def dead(holder: Holder, processes: Processes) -> bool:
    """Whether the holder ran on this machine, in this boot, and is gone."""
    return holder.boot_id == processes.machine() and processes.started(holder.pid) != holder.pid_started


def expired(row: Row, sighting: Sighting | None, machine: str, now_s: float) -> bool:
    """Whether a holder elsewhere has not renewed for its TTL, as observed from here."""
    if row.lease is None or sighting is None:
        return False
    if sighting.token != row.token or sighting.machine != machine or now_s < sighting.seen_s:
        return False
    return now_s - sighting.seen_s >= row.lease.ttl_s


def may_take(row: Row | None, sighting: Sighting | None, processes: Processes, now_s: float) -> bool:
    """Whether the lease is free, its holder dead, or its holder elsewhere silent for the TTL."""
    if row is None or row.lease is None:
        return True
    machine = processes.machine()
    if row.lease.holder.boot_id == machine:
        # Its life can be seen from here: no clock decides, so a stopped process keeps what it holds.
        return dead(row.lease.holder, processes)
    return expired(row, sighting, machine, now_s)


def sighted(row: Row, before: Sighting | None, machine: str, now_s: float) -> Sighting:
    """The sighting to remember: the earlier one while the token has not changed."""
    if before is not None and before.token == row.token and before.machine == machine:
        return before
    return Sighting(row.token, machine, now_s)


def granted(
    row: Row | None, fleet: str, holder: Holder, ttl_s: float, lease_id: str, at: str, *, floor: int = 0
) -> Row:
    """The row after a grant: a higher epoch than any before.

    `floor` is that of the journal's last entry: in a state that was migrated or restored, entries are older
    than the lease, and hosts refuse an epoch below the one that they have seen.
    """
    epoch = max(floor, 0 if row is None else row.epoch) + 1
    return Row(epoch, Lease(fleet, lease_id, epoch, holder, at, at, ttl_s))


def renewed(row: Row | None, lease: Lease, at: str) -> Row:
    """The row after a renewal; raises LeaseLost when the lease is not this one any more."""
    ensure(row, lease)
    assert row is not None and row.lease is not None
    return replace(row, lease=replace(row.lease, renewed_at=at), renewals=row.renewals + 1)


def ensure(row: Row | None, lease: Lease) -> None:
    """Raises LeaseLost unless this lease is the one that is held."""
    if row is None or row.epoch != lease.epoch or row.lease is None or row.lease.lease_id != lease.lease_id:
        raise fenced(lease.fleet, lease.epoch, 0 if row is None else row.epoch)


def unlocked(row: Row | None, fleet: str, lease_id: str) -> tuple[Row, Lease]:
    """The row after the lease was taken away: a higher epoch, so that its holder is fenced; and that lease."""
    if row is None or row.lease is None or row.lease.lease_id != lease_id:
        current = (
            "nobody holds it" if row is None or row.lease is None else f"its lock is {row.lease.lease_id}"
        )
        raise StateError(
            f"the lock of fleet {fleet} is not {lease_id}: {current}",
            hint="`fleetctl doctor` shows who holds the fleet, and the id of the lock",
            code="lease.other",
        )
    return Row(row.epoch + 1, None), row.lease


def held(lease: Lease) -> LeaseHeld:
    """The error that names the holder and since when."""
    h = lease.holder
    if h.run == MOVED_RUN:
        return LeaseHeld(
            f"fleet {lease.fleet} is closed here: {h.command} at {lease.acquired_at} by {h.who}",
            hint="name that place with --state or FLEETCTL_STATE",
            code="state.moved",
        )
    return LeaseHeld(
        f"fleet {lease.fleet} is held by run {h.run} ({h.command}) of {h.who} on {h.host}, process {h.pid}, "
        f"since {lease.acquired_at}",
        hint="wait until it has ended; `fleetctl status` shows what it does. A holder that died on this machine "
        f"is replaced at once, one elsewhere {lease.ttl_s:g} s after it was last seen renewing, and one that you know "
        f"to be gone for good by `fleetctl unlock {lease.fleet} --id {lease.lease_id}`",
    )


def fenced(fleet: str, epoch: int, current: int) -> LeaseLost:
    """The error of an engine that was replaced, or whose lease was taken away."""
    what = f"epoch {current} was granted since" if current > epoch else "its lease was taken away"
    return LeaseLost(
        f"epoch {epoch} of fleet {fleet} is fenced: {what}",
        hint="another run has taken over; `fleetctl runs` shows it",
    )
