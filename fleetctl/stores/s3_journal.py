"""The journal as a log of numbered slots, each taken once by a conditional create.

A writer creates the slot after the last one that it has read, so of two writers at one place one is beaten.
Epochs are fenced in the same log: whoever is granted one takes a slot for its fence before the lease counts,
and a writer that meets the fence of a later epoch is fenced. An older holder that checked, slept and wakes to
write finds its slot taken by that fence: no clock and no window is part of it. That is why a sealed slot
stays taken for ever, by a small object that names what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import Any

from executors.clock import Clock
from fleetctl.ledger.entries import decode
from fleetctl.ledger.ports import Head, JournalConflict, StateError
from fleetctl.stores import judgement
from fleetctl.stores import s3_objects as objects
from fleetctl.stores.memory import START, chained
from fleetctl.stores.s3_bucket import Bucket
from fleetctl.stores.s3_objects import EntryRow, Slot

# Objects read at once when a journal is first read: each costs a round trip.
READERS = 16
# Fewer slots than this are as quickly read as the segment that they would become.
SEAL_SLOTS_MIN = 8
# A segment is read whole into memory and sent in one request.
SEGMENT_MAX_B = 16 * 2**20
# How often a journal that is being sealed under our eyes is read anew.
_LOADS_MAX = 5


class _SealedMeanwhile(Exception):
    """A slot that was listed now stands in a segment."""


@dataclass(slots=True)
class Log:
    """A fleet's journal as far as it was read: it only grows, so what was read stays true."""

    fleet: str
    rows: list[EntryRow] = field(default_factory=list)
    head: Head = START
    slot: int = 0
    fence: int = 0
    unsealed: list[Slot] = field(default_factory=list)
    segments: int = 0

    def absorb(self, slot: Slot, name: str, *, sealed: bool = False) -> None:
        """Takes in what follows. Raises StateError for what does not."""
        if slot.slot != self.slot + 1:
            raise objects.damaged(name, f"it does not follow slot {self.slot}")
        if slot.rows and slot.first != len(self.rows) + 1:
            raise objects.damaged(name, f"its entries do not follow entry {len(self.rows)}")
        if slot.rows and slot.epoch < self.fence:
            raise objects.damaged(name, f"epoch {slot.epoch} wrote it after epoch {self.fence} had begun")
        self.slot = slot.last_slot
        self.fence = max(self.fence, slot.fence)
        if slot.rows:
            self.rows.extend(slot.rows)
            data, digest = slot.rows[-1]
            place = f"entry {len(self.rows)} of fleet {self.fleet}"
            self.head = Head(len(self.rows), digest, decode(data, place).get("lineage"))
        if sealed:
            self.segments += 1
        else:
            self.unsealed.append(slot)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting a fleet's journal did: slots sealed now, in how many segments, and how many slots stand."""

    fleet: str
    sealed: int
    segments: int
    entries: int
    slots: int


class S3Journal:
    """The journals of one state. Safe for use by several threads; every writer anywhere is a rival."""

    def __init__(self, bucket: Bucket, clock: Clock) -> None:
        self._bucket = bucket
        self._clock = clock
        self._lock = RLock()
        self._logs: dict[str, Log] = {}

    def read(self, fleet: str) -> Log:
        """The journal up to its end now. Raises StateError."""
        with self._lock:
            log = self._logs.get(fleet)
            if log is not None:
                try:
                    return self._follow(log)
                except _SealedMeanwhile:
                    pass
            return self._load(fleet)

    def append(self, fleet: str, expected: int, entries: Sequence[Mapping[str, Any]], epoch: int) -> Head:
        """One request when nobody else wrote. Raises JournalConflict, LeaseLost, StateError."""
        with self._lock:
            log = self._logs.get(fleet)
            if log is None or log.head.sequence != expected:
                log = self.read(fleet)
            while True:
                if epoch < log.fence:
                    raise judgement.fenced(fleet, epoch, log.fence)
                rows, head = chained(fleet, log.head, expected, entries)
                slot = Slot(log.slot + 1, log.slot + 1, epoch, log.fence, expected + 1, tuple(rows))
                if self._take(log, slot, "entries"):
                    return head
                log = self._read_past(log)

    def fence(self, fleet: str, epoch: int) -> None:
        """Shuts out every older epoch; when it returns, none of them can append any more. Raises LeaseLost."""
        with self._lock:
            log = self.read(fleet)
            while log.fence < epoch:
                slot = Slot(log.slot + 1, log.slot + 1, epoch, epoch, 0, ())
                if not self._take(log, slot, "fence"):
                    log = self._read_past(log)
            if log.fence > epoch:
                raise judgement.fenced(fleet, epoch, log.fence)

    def compact(self, fleet: str) -> Compacted:
        """Seals the slots so far into segments of the same entries. Only for who holds the fleet.

        A slot is emptied only after its segment was read back. Killed in between, it goes on next time.
        """
        with self._lock:
            log = self._load(fleet)
            groups = _grouped(log.unsealed) if len(log.unsealed) >= SEAL_SLOTS_MIN else []
            for group in groups:
                self._seal(fleet, group)
            last = groups[-1][-1].slot if groups else log.slot - len(log.unsealed)
            self._empty(fleet, last)
            sealed = sum(len(g) for g in groups)
            log = self._load(fleet)
            return Compacted(fleet, sealed, log.segments, len(log.rows), log.slot)

    def missing_slots(self, fleet: str) -> list[int]:
        """Slots that should be taken and are not: a late writer could take them unseen."""
        found = {objects.slot_number(o.name) for o in self._bucket.listing(objects.slots_name(fleet))}
        return [n for n in range(1, self.read(fleet).slot + 1) if n not in found]

    def _take(self, log: Log, slot: Slot, kind: str) -> bool:
        name = objects.slot_name(log.fleet, slot.slot)
        data = objects.encode_slot(slot, self._clock.new_id(), kind)
        if self._bucket.write_if(name, data, None, partial(objects.is_slot, data)) is None:
            return False
        log.absorb(slot, name)
        return True

    def _read_past(self, before: Log) -> Log:
        """The journal after somebody else took the next slot."""
        slot = before.slot
        log = self.read(before.fleet)
        if log.slot == slot:
            raise StateError(
                f"the state {self._bucket.place} says that slot {slot + 1} of fleet {before.fleet} is taken, and "
                "then that it is not there",
                hint="this store does not read what it has written; see: fleetctl store qualify",
                code="state.inconsistent",
            )
        return log

    def _follow(self, log: Log) -> Log:
        while True:
            name = objects.slot_name(log.fleet, log.slot + 1)
            found = self._bucket.get(name)
            if found is None:
                return log
            log.absorb(_open(found.data, name), name)

    def _load(self, fleet: str) -> Log:
        for _ in range(_LOADS_MAX):
            try:
                log = self._follow(self._listed(fleet))
            except _SealedMeanwhile:
                continue
            self._logs[fleet] = log
            return log
        raise JournalConflict(
            f"the journal of fleet {fleet} was being compacted all the while", hint="run the command again"
        )

    def _listed(self, fleet: str) -> Log:
        log = Log(fleet)
        for name, data in self._read_all(
            [o.name for o in self._bucket.listing(objects.segments_name(fleet))]
        ):
            log.absorb(_open(data, name), name, sealed=True)
        after = objects.slot_name(fleet, log.slot)
        for name, data in self._read_all(
            [o.name for o in self._bucket.listing(objects.slots_name(fleet), after)]
        ):
            slot = _open(data, name)
            if slot.slot > log.slot + 1:
                raise objects.damaged(
                    objects.slot_name(fleet, log.slot + 1), "it is gone, and later ones are there"
                )
            log.absorb(slot, name)
        return log

    def _read_all(self, names: list[str]) -> Iterable[tuple[str, bytes]]:
        for name, found in zip(names, self._each(self._bucket.get, names), strict=True):
            if found is None:
                raise objects.damaged(name, "it was listed, and is gone")
            yield name, found.data

    def _each(self, work: Callable[[str], Any], names: list[str]) -> list[Any]:
        if len(names) < 2:
            return [work(n) for n in names]
        with ThreadPoolExecutor(min(READERS, len(names)), thread_name_prefix="state") as pool:
            return list(pool.map(work, names))

    def _seal(self, fleet: str, group: list[Slot]) -> None:
        name = objects.segment_name(fleet, group[0].slot)
        data = objects.encode_slot(_joined(group), self._clock.new_id(), "segment")
        written = self._bucket.write_if(name, data, None)
        found = self._bucket.get(name)
        if written is None or found is None or found.data != data:
            raise JournalConflict(f"somebody else compacts fleet {fleet}", hint="run the command again")

    def _empty(self, fleet: str, last: int) -> None:
        """Leaves of each sealed slot what keeps it taken."""
        full = [
            o.name
            for o in self._bucket.listing(objects.slots_name(fleet))
            if o.size_b != objects.SEALED_B and objects.slot_number(o.name) <= last
        ]
        self._each(self._empty_one, full)

    def _empty_one(self, name: str) -> None:
        found = self._bucket.get(name)
        if found is not None and len(found.data) != objects.SEALED_B:
            self._bucket.write_if(name, objects.sealed_slot(found.data), found.token)


def _open(data: bytes, name: str) -> Slot:
    slot = objects.decode_slot(data, name)
    if slot is None:
        raise _SealedMeanwhile(name)
    return slot


def _joined(group: list[Slot]) -> Slot:
    rows = tuple(row for slot in group for row in slot.rows)
    first = next((slot.first for slot in group if slot.rows), 0)
    return Slot(
        slot=group[0].slot,
        last_slot=group[-1].slot,
        epoch=max(s.epoch for s in group),
        fence=max(s.fence for s in group),
        first=first,
        rows=rows,
    )


def _grouped(slots: list[Slot]) -> list[list[Slot]]:
    """Runs of slots that fit into a segment; a slot that alone is larger stands alone."""
    groups: list[list[Slot]] = []
    room_b = 0
    for slot in slots:
        size_b = sum(len(data) for data, _ in slot.rows)
        if not groups or size_b > room_b:
            groups.append([])
            room_b = SEGMENT_MAX_B
        groups[-1].append(slot)
        room_b -= size_b
    return groups
