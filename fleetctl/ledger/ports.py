"""The ports of the ledger: journal, leases, documents. One conformance suite runs over every store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from manifests.errors import ExitCode, FleetctlError


class StateError(FleetctlError):
    """The state cannot be read or written: missing rights, a full disk, a damaged or newer file."""

    code = "state.unusable"


class JournalConflict(FleetctlError):
    """Somebody else has appended since: the position that was expected is taken."""

    code = "state.conflict"
    exit_code = ExitCode.LOCKED


class LeaseHeld(FleetctlError):
    """Another run holds the fleet; the message names the holder and since when."""

    code = "lease.held"
    exit_code = ExitCode.LOCKED


class LeaseLost(FleetctlError):
    """The lease that this run held is not its own any more: it must not act again."""

    code = "lease.lost"
    exit_code = ExitCode.LOCKED


@dataclass(frozen=True, slots=True)
class Head:
    """Where a fleet's journal ends. `sequence` 0 and empty texts: nothing was ever written."""

    sequence: int = 0
    sha256: str = ""
    lineage: str | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease: enough to tell a dead holder on this machine from one elsewhere."""

    run: str
    who: str
    command: str
    host: str
    boot_id: str
    pid: int
    pid_started: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A fleet's lease. `epoch` grows with every acquisition and fences every effect; times are RFC 3339 UTC."""

    fleet: str
    lease_id: str
    epoch: int
    holder: Holder
    acquired_at: str
    renewed_at: str
    ttl_s: float


class Journal(Protocol):
    """Append-only entries per fleet, each bound to the one before by its hash (`fleetctl.ledger.entries`)."""

    def fleets(self) -> Sequence[str]:
        """The fleets that have a journal, in order of name."""
        ...

    def head(self, fleet: str) -> Head: ...

    def read(self, fleet: str, after: int = 0) -> Iterable[Mapping[str, Any]]:
        """The entries past a sequence, in order. Raises StateError where one is damaged."""
        ...

    def append(self, fleet: str, expected: int, entries: Sequence[Mapping[str, Any]], epoch: int) -> Head:
        """Appends sealed entries after sequence `expected`, all or none, durable when it returns.

        Raises JournalConflict when the journal's end is elsewhere, LeaseLost when a newer epoch was granted.
        """
        ...


class Leases(Protocol):
    """One lease a fleet, with a fencing epoch that only grows."""

    def acquire(self, fleet: str, holder: Holder, ttl_s: float) -> Lease:
        """Takes a free lease, one whose holder on this machine is dead, or one elsewhere that was not renewed for its TTL.

        Raises LeaseHeld.
        """
        ...

    def renew(self, lease: Lease) -> Lease:
        """Raises LeaseLost."""
        ...

    def release(self, lease: Lease) -> None:
        """Gives it back if it is still ours; otherwise does nothing."""
        ...

    def current(self, fleet: str) -> Lease | None: ...

    def unlock(self, fleet: str, lease_id: str) -> Lease:
        """Takes the lease away from whoever holds it, and gives what was taken; its epoch is fenced from now on.

        Raises StateError when that is not the id of the lease that is held.
        """
        ...

    def check(self, lease: Lease) -> None:
        """Raises LeaseLost when a newer epoch was granted."""
        ...


class Documents(Protocol):
    """Whole documents by their pin (plans): written once, never changed."""

    def put(self, data: bytes) -> str:
        """Stores the bytes and gives their pin sha256:<hex>; the same bytes twice are one document."""
        ...

    def get(self, digest: str) -> bytes:
        """Raises StateError when it is not there, or its bytes do not have this digest."""
        ...


class Store(Journal, Leases, Documents, Protocol):
    """All ports of one state, and its key."""

    def secrets_key(self) -> bytes | None:
        """The 32-byte key of keyed digests; None while nothing was ever written."""
        ...

    def initialise(self, key: bytes | None = None) -> None:
        """Makes the state if it is not there yet (key included). Reading never does.

        `key` is that of the state whose entries are brought here; a state that has one keeps its own.
        """
        ...

    def describe(self) -> str:
        """Where the state is, for people."""
        ...

    def close(self) -> None: ...
