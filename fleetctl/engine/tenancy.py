"""The leases of one command: that of the fleet under way, and those of the fleets that wait for their turn."""

from __future__ import annotations

from contextlib import suppress

from executors.clock import Clock
from fleetctl.ledger.ports import Holder, Lease, LeaseLost, StateError, Store

LEASE_TTL_S = 30.0
"""How long a holder elsewhere must be silent before it counts as gone: long against a pause, short for a person."""
RENEWALS_PER_TTL = 3
"""A lease is renewed this often within its TTL, so that one late renewal loses nothing."""


class Tenancy:
    """Leases that one thread takes, keeps and gives back."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._leases: dict[str, Lease] = {}
        self._renewed_s: dict[str, float] = {}

    def acquire(self, fleet: str, holder: Holder) -> None:
        """Takes a fleet's lease. Raises LeaseHeld."""
        # What counts is when it was asked for: the answer may come late.
        self._renewed_s[fleet] = self._clock.monotonic()
        self._leases[fleet] = self._store.acquire(fleet, holder, LEASE_TTL_S)

    def of(self, fleet: str) -> Lease:
        """A fleet's lease, as it was last renewed."""
        return self._leases[fleet]

    def keep(self, fleet: str) -> None:
        """Renews what is due, this fleet's first. Raises LeaseLost or StateError for it; others hear at their turn."""
        for name in sorted(self._leases, key=lambda name: name != fleet):
            now_s, lease = self._clock.monotonic(), self._leases[name]
            if now_s - self._renewed_s[name] < lease.ttl_s / RENEWALS_PER_TTL:
                continue
            self._renewed_s[name] = now_s
            try:
                self._leases[name] = self._store.renew(lease)
            except (LeaseLost, StateError):
                if name == fleet:
                    raise

    def end(self, fleet: str) -> None:
        """Releases the lease of a fleet whose part is over, if the state can be written."""
        with suppress(StateError):
            self._store.release(self._leases.pop(fleet))

    def give_back(self) -> None:
        """Releases all. A state that cannot be written keeps them; then their holder counts as dead when it ends."""
        for fleet in reversed(list(self._leases)):
            self.end(fleet)
