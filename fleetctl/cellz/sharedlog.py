"""The shared log of one cell: numbered slots in the blob store, each created once.

    cells/<id>.log/<number, 12 digits>     {"v": 1, "epoch": E, "nonce": ..., "fence": bool, "gap": bool, "ops": [...]}

A writer fills slots in order, so the first slot that an old holder did not write is its successor's fence:
its next write meets a slot that exists, and fails without any clock. Fence slots are therefore never
removed; others go once every kept snapshot includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import orjson

from fleetctl.cellz.blobs import Blobs, retried, write_if
from fleetctl.cellz.conditional import Effect
from fleetctl.cellz.errors import Fenced, StoreTrouble
from fleetctl.cellz.ops import Op, encode, load

_VERSION = 1


class Slot(NamedTuple):
    """One filled slot; `gap` says that a snapshot, not the slots before, leads up to it."""

    number: int
    epoch: int
    fence: bool
    gap: bool
    ops: list[Op]


def slot_key(cell: str, number: int) -> str:
    """Return the blob key of a slot."""
    return f"cells/{cell}.log/{number:012d}"


class SharedLog:
    """One holder's end of the log. `nonce` is fresh for each slot; `sleep` waits between tries."""

    def __init__(
        self, blobs: Blobs, cell: str, epoch: int, *, nonce: Callable[[], str], sleep: Callable[[float], None]
    ) -> None:
        self._blobs = blobs
        self._cell = cell
        self._epoch = epoch
        self._nonce = nonce
        self._sleep = sleep

    def read(self, after: int) -> Iterator[Slot]:
        """Yield the slots behind `after` until one is missing; raises StoreTrouble."""
        number = after + 1
        while True:
            key = slot_key(self._cell, number)
            blob = retried(lambda key=key: self._blobs.get(key), self._sleep, key)  # type: ignore[misc]
            if blob is None:
                return
            data = orjson.loads(blob.data)
            if data["v"] != _VERSION:
                raise StoreTrouble(f"{key} has version {data['v']}, which this release does not know")
            yield Slot(number, data["epoch"], data["fence"], data["gap"], [load(op) for op in data["ops"]])
            number += 1

    def last(self) -> int:
        """Return the highest number that is filled, 0 for none; raises StoreTrouble."""
        prefix = f"cells/{self._cell}.log/"
        keys = retried(lambda: list(self._blobs.keys(prefix)), self._sleep, prefix)
        return int(keys[-1].rpartition("/")[2]) if keys else 0

    def write(self, number: int, ops: list[Op], *, fence: bool = False, gap: bool = False) -> None:
        """Fill slot `number`; raises Fenced if it is filled, StoreTrouble if nobody knows."""
        head = orjson.dumps(
            {"v": _VERSION, "epoch": self._epoch, "nonce": self._nonce(), "fence": fence, "gap": gap}
        )
        data = head[:-1] + b',"ops":' + encode(ops) + b"}"
        outcome = write_if(self._blobs, slot_key(self._cell, number), data, "", self._sleep)
        if outcome.effect is Effect.LOST:
            raise Fenced(f"cell '{self._cell}' was taken over by another node")
        if outcome.effect is Effect.UNKNOWN:
            raise StoreTrouble(f"nobody knows whether slot {number} of cell '{self._cell}' was written")

    def trim(self, through: int) -> int:
        """Remove the slots up to `through` that are no fences, and return how many."""
        removed = 0
        for key in list(self._blobs.keys(f"cells/{self._cell}.log/")):
            if int(key.rpartition("/")[2]) > through:
                break
            blob = self._blobs.get(key)
            if blob is not None and not orjson.loads(blob.data)["fence"]:
                self._blobs.delete(key)
                removed += 1
        return removed
