"""The shared log of one cell: numbered slots in the blob store, each created once.

    cells/<id>.log/<number, 12 digits>     {"v": 1, "epoch": E, "nonce": ..., "fence": bool, "gap": bool, "ops": [...]}

A writer fills slots in order, so the first slot that an old holder did not write is its successor's fence:
its next write meets a slot that exists, and fails without any clock. Fence slots are therefore never
removed; others go once every kept snapshot includes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import orjson

from fleetctl.cellz.beside import Beside
from fleetctl.cellz.blobs import Blobs, retried, write_if
from fleetctl.cellz.conditional import Effect
from fleetctl.cellz.errors import Fenced, StoreTrouble
from fleetctl.cellz.ops import Op, encode, load

_VERSION = 1
# Slots read at once, once the log proved to be longer than that: a takeover reads up to hundreds.
_AT_ONCE = 16


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
    """One holder's end of the log. `nonce` is fresh for each slot; `sleep` waits between tries.

    With `beside`, slots of a long log are read several at once.
    """

    def __init__(
        self,
        blobs: Blobs,
        cell: str,
        epoch: int,
        *,
        nonce: Callable[[], str],
        sleep: Callable[[float], None],
        beside: Beside | None = None,
    ) -> None:
        self._blobs = blobs
        self._cell = cell
        self._epoch = epoch
        self._nonce = nonce
        self._sleep = sleep
        self._beside = beside

    def read(self, after: int) -> Iterator[Slot]:
        """Yield the slots behind `after` until one is missing; raises StoreTrouble."""
        number, width = after + 1, 1
        while True:
            for call in [self._begin(number + step) for step in range(width)]:
                slot = call()
                if slot is None:
                    # One behind it may have been written since; whoever fills this one will hear of it.
                    return
                yield slot
            number += width
            width = min(width * 2, _AT_ONCE) if self._beside is not None else 1

    def _begin(self, number: int) -> Callable[[], Slot | None]:
        call = partial(self._read, number)
        return call if self._beside is None else self._beside(call)

    def _read(self, number: int) -> Slot | None:
        key = slot_key(self._cell, number)
        blob = retried(lambda: self._blobs.get(key), self._sleep, key)
        if blob is None:
            return None
        data = orjson.loads(blob.data)
        if data["v"] != _VERSION:
            raise StoreTrouble(f"{key} has version {data['v']}, which this release does not know")
        return Slot(number, data["epoch"], data["fence"], data["gap"], [load(op) for op in data["ops"]])

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
