"""Perform what the lease core decides for one cell: read and write `leases/<id>.lease`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock

import orjson

from fleetctl.cellz import lease
from fleetctl.cellz.blobs import Blobs, Unanswered, write_if
from fleetctl.cellz.clock import Clock
from fleetctl.cellz.conditional import Effect as WriteEffect
from fleetctl.cellz.errors import Fenced, HeldElsewhere, StoreTrouble


def lease_key(cell: str) -> str:
    """Return the blob key of a cell's lease, as the original names it."""
    return f"leases/{cell}.lease"


def parse(data: bytes) -> lease.Lease:
    """Return the lease in `data`; a holder nobody can read is nobody we know, so it is watched like any."""
    try:
        fields = orjson.loads(data)
        return lease.Lease(
            holder=str(fields["holder"]),
            epoch=int(fields.get("epoch", 0)),
            ttl_s=float(fields.get("ttl_s", 0)),
            address=str(fields.get("address", "")),
            nonce=str(fields.get("nonce", "")),
            released=bool(fields.get("released", False)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return lease.Lease(holder="?")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who this node is, and how it reaches the store."""

    blobs: Blobs
    clock: Clock
    terms: lease.Terms
    address: str
    nonce: Callable[[], str]
    sleep: Callable[[float], None]


class Tenure:
    """This node's standing towards one cell's lease; calls block and exclude one another."""

    def __init__(self, cell: str, holder: Holder) -> None:
        self.cell = cell
        self.standing = lease.Standing()
        self._holder = holder
        self._lock = Lock()

    def acquire(self, when_free: Callable[[], None] | None = None) -> int:
        """Return the granted epoch; raises HeldElsewhere or StoreTrouble.

        `when_free` is called before the lease is first written: it could be had when it was read.
        """
        with self._lock:
            outcome = self._run(lease.Want(self._now()), when_free)
        if isinstance(outcome, lease.Granted):
            return outcome.epoch
        if isinstance(outcome, lease.Denied):
            raise HeldElsewhere(self.cell, outcome.owner, outcome.retry_after_s)
        raise StoreTrouble(f"the lease of cell '{self.cell}' could not be read or written")

    def denied_now(self) -> HeldElsewhere | None:
        """Return the refusal that a look a moment ago still justifies, without another look."""
        s = self.standing
        now = self._now()
        if s.phase is lease.Phase.UNHELD and s.seen_token and now < s.look_at:
            return HeldElsewhere(self.cell, s.owner, s.seen_since + self._holder.terms.ttl_s - now)
        return None

    def valid(self) -> bool:
        """Return whether this node may write the cell now."""
        return lease.valid(self.standing, self._now())

    def learn(self, epoch: int) -> None:
        """Take note of a higher epoch seen in a snapshot or log, and give up the one we hold."""
        with self._lock:
            self.standing, _ = lease.on_event(
                self.standing, lease.Learn(epoch, self._now()), self._holder.terms
            )
            self._run(lease.Release(self._now()))

    def due(self) -> bool:
        """Return whether a tick would do something."""
        s = self.standing
        return s.until > 0 and self._now() >= min(s.renew_at, s.until)

    def tick(self) -> None:
        """Renew if it is time; raises Fenced when the lease is lost."""
        with self._lock:
            if isinstance(self._run(lease.Tick(self._now())), lease.Fence):
                raise Fenced(f"the lease of cell '{self.cell}' is lost")

    def release(self) -> None:
        """Give the lease back, keeping its epoch; what fails here ends by itself after the TTL."""
        with self._lock:
            if self.standing.phase is lease.Phase.CHECKING:
                self.standing = lease.Standing(epoch=self.standing.epoch)
                return
            self._run(lease.Release(self._now()))

    def _now(self) -> float:
        return self._holder.clock.monotonic()

    def _run(self, event: lease.Event, when_free: Callable[[], None] | None = None) -> lease.Effect | None:
        """Feed the core until it asks for nothing more; return its last word."""
        last: lease.Effect | None = None
        pending: lease.Event | None = event
        while pending is not None:
            self.standing, effects = lease.on_event(self.standing, pending, self._holder.terms)
            pending = None
            for effect in effects:
                last = effect
                if isinstance(effect, lease.Read):
                    pending = self._read()
                elif isinstance(effect, lease.Write):
                    if when_free is not None:
                        when_free()
                        when_free = None
                    pending = self._write(effect)
        return last

    def _read(self) -> lease.Event:
        try:
            blob = self._holder.blobs.get(lease_key(self.cell))
        except Unanswered:
            return lease.Unreadable(self._now())
        if blob is None:
            return lease.Seen(None, "", self._now())
        return lease.Seen(parse(blob.data), blob.token, self._now())

    def _write(self, effect: lease.Write) -> lease.Event:
        holder = self._holder
        ends = holder.clock.now() + timedelta(seconds=0 if effect.released else holder.terms.ttl_s)
        fields = {
            "holder": holder.terms.holder,
            "expires_at": ends.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "epoch": effect.epoch,
            "ttl_s": holder.terms.ttl_s,
            "address": holder.address,
            "nonce": holder.nonce(),
            "released": effect.released,
        }
        data = orjson.dumps(fields)
        outcome = write_if(holder.blobs, lease_key(self.cell), data, effect.match, holder.sleep)
        now = self._now()
        if outcome.effect is WriteEffect.WON:
            return lease.Won(outcome.token, now)
        return lease.Lost(now) if outcome.effect is WriteEffect.LOST else lease.Unknown(now)
