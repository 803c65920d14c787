"""What an activation reads before its lease is held is a guess: whatever happens meanwhile, the log is whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from fleetctl.cellz import lease
from fleetctl.cellz.ahead import Guess
from fleetctl.cellz.apply import transact
from fleetctl.cellz.beside import Beside, on_threads
from fleetctl.cellz.blobs import Blob
from fleetctl.cellz.clock import Clock
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.disk import DiskBlobs
from fleetctl.cellz.errors import HeldElsewhere, StoreTrouble
from fleetctl.cellz.ops import Append, Create, Op
from fleetctl.cellz.restore import Local, Restored, Restorer
from fleetctl.cellz.sharedlog import SharedLog, Slot
from fleetctl.cellz.snapshots import Manifest, Publication, Publisher, Snapshot, read_manifest
from fleetctl.cellz.tenure import Holder, Tenure
from fleetctl.cellz.words import NewEvent
from tests.cellz.faulty import FAULTS, FaultyBlobs

T = TypeVar("T")

CELL = "c"
TTL_S = 3600.0


def no_wait(_: float) -> None:
    """Tests do not wait between tries."""


def at_once(call: Callable[[], T]) -> Callable[[], T]:
    """Make a call as early as threads could; what it raises comes when its result is wanted."""
    try:
        result = call()
    except Exception as error:  # noqa: BLE001  (raised where the result is wanted)
        kept = error

        def fail() -> T:
            raise kept

        return fail
    return lambda: result


def at_last(call: Callable[[], T]) -> Callable[[], T]:
    """Make a call as late as threads could."""
    return call


class Node:
    """One node in commit mode, without its shell: a folder, a lease, a log."""

    def __init__(self, root: Path, name: str, beside: Beside = at_once) -> None:
        self.name = name
        self.blobs = FaultyBlobs(DiskBlobs(root / "store", fsync=False))
        self._numbers = itertools.count()
        folder = root / name
        folder.mkdir(exist_ok=True)
        self.publisher = Publisher(self.blobs, keep=1, nonce=self._nonce, sleep=no_wait)
        self.restorer = Restorer(
            self.blobs,
            folder,
            publisher=self.publisher,
            fence=True,
            nonce=self._nonce,
            sleep=no_wait,
            beside=beside,
        )
        terms = lease.Terms(name, TTL_S)
        self.tenure = Tenure(CELL, Holder(self.blobs, Clock(), terms, name, self._nonce, no_wait))

    def _nonce(self) -> str:
        return f"{next(self._numbers):08d}-{self.name}"

    def guess(self) -> Guess:
        guess = self.restorer.look_ahead(CELL)
        assert guess is not None
        return guess

    def restore(self, guess: Guess) -> Restored:
        """Take the lease and restore."""
        return self.restorer.restore(CELL, self.tenure.acquire(guess.lease_is_free), guess)

    @contextmanager
    def holding(self) -> Iterator[CellDb]:
        """Have the cell, and put it down without a snapshot."""
        restored = self.restore(self.guess())
        try:
            if not restored.db.exists:
                self.write(restored.db, Create(CELL, "{}", "t"))
            yield restored.db
        finally:
            restored.db.close()
            self.tenure.release()

    def write(self, db: CellDb, op: Op) -> None:
        log = self.restorer.log(CELL, self.tenure.standing.epoch)

        def ship(ops: list[Op]) -> int:
            log.write(db.slot + 1, ops)
            return db.slot + 1

        transact(db, [op], ship)

    def append(self, db: CellDb, *names: str) -> None:
        for name in names:
            self.write(db, Append((NewEvent(name, None, "e", "1", "t"),)))

    def publish(self, db: CellDb) -> None:
        """Publish a snapshot, which removes the one before it, and trim the log."""
        db.checkpoint()
        epoch = self.tenure.standing.epoch
        data = db.path.read_bytes()
        self.publisher.publish(Publication(CELL, data, db.meta().json(), epoch, db.slot, db.sequence))
        self.restorer.log(CELL, epoch).trim(db.slot)


def names(db: CellDb) -> list[str]:
    rows = db.conn.execute("SELECT sequence, id FROM events ORDER BY sequence").fetchall()
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    return [name for _, name in rows]


def finish(node: Node, guess: Guess) -> list[str]:
    """Activate with a guess and return what the cell has then."""
    restored = node.restore(guess)
    try:
        return names(restored.db)
    finally:
        restored.db.close()
        node.tenure.release()


@pytest.fixture(params=[at_once, at_last, on_threads()], ids=["at once", "at last", "on threads"])
def beside(request: pytest.FixtureRequest) -> Beside:
    given: Beside = request.param
    return given


@pytest.fixture
def peer(tmp_path: Path) -> Node:
    """The node that had the cell: two events in a snapshot, a third in the log."""
    node = Node(tmp_path, "peer")
    with node.holding() as db:
        node.append(db, "one", "two")
        node.publish(db)
        node.append(db, "three")
    return node


def newest(node: Node) -> Snapshot:
    return read_manifest(node.blobs, CELL, no_wait).snapshots[0]


def test_undisturbed_the_file_is_fetched_once_and_the_manifest_read_again(
    tmp_path: Path, peer: Node, beside: Beside
) -> None:
    node = Node(tmp_path, "node", beside)
    assert finish(node, node.guess()) == ["one", "two", "three"]
    reads = [key for what, key in node.blobs.calls if what == "get"]
    assert reads.count(newest(peer).key) == 1
    assert reads.count("cells/c.meta.json") == 2


@pytest.mark.parametrize("fetched", [True, False], ids=["file fetched", "manifest read"])
@pytest.mark.parametrize("publishes", [True, False], ids=["new snapshot", "new slots"])
def test_a_peer_that_takes_over_before_our_lease_is_not_missed(
    tmp_path: Path, peer: Node, beside: Beside, fetched: bool, publishes: bool
) -> None:
    """Its snapshot removes the guessed one, and the slots behind that."""
    node = Node(tmp_path, "node", beside)
    guess = node.guess()
    if fetched:
        guess.lease_is_free()
    with peer.holding() as db:
        peer.append(db, "four", "five")
        if publishes:
            peer.publish(db)
            peer.append(db, "six")
    expected = ["one", "two", "three", "four", "five", *(["six"] if publishes else [])]
    assert finish(node, guess) == expected


def test_without_the_second_look_it_would_be_missed(
    tmp_path: Path, peer: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The case above has teeth: a variant that trusts its guess loses what the peer acknowledged."""

    def look(
        self: Restorer, cell: str, log: SharedLog, local: Local | None, guess: Guess
    ) -> tuple[Manifest, list[Slot]]:
        assert guess.manifest is not None
        guess.stage(self.path(cell).with_name("c.db.tmp"))
        return guess.manifest, list(log.read(guess.manifest.snapshots[0].slot))

    node = Node(tmp_path, "node")
    guess = node.guess()
    guess.lease_is_free()
    with peer.holding() as db:
        peer.append(db, "four", "five")
        peer.publish(db)
    monkeypatch.setattr(Restorer, "_look", look)
    assert finish(node, guess) == ["one", "two"]


def test_a_snapshot_replaced_while_our_lease_is_written_is_read_anew(
    tmp_path: Path, peer: Node, beside: Beside
) -> None:
    """The lease is ours already, and the manifest not yet read again: a write on its way lands between."""
    node = Node(tmp_path, "node", beside)
    guess = node.guess()
    with peer.holding() as db:
        peer.append(db, "four")
        peer.tenure.release()
        epoch = node.tenure.acquire(guess.lease_is_free)
        peer.publish(db)
    restored = node.restorer.restore(CELL, epoch, guess)
    assert names(restored.db) == ["one", "two", "three", "four"]
    restored.db.close()


@pytest.mark.parametrize("guesses", [True, False], ids=["with a guess", "without"])
def test_an_old_holder_that_trims_before_the_log_is_read_is_noticed(
    tmp_path: Path, peer: Node, guesses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes after our look at the manifest; what it removes would pass for the end of the log."""
    node = Node(tmp_path, "node")
    with peer.holding() as db:
        peer.append(db, "four")
        peer.tenure.release()
        guess = node.guess() if guesses else None
        epoch = node.tenure.acquire(guess.lease_is_free if guess is not None else None)
        get = node.blobs.get
        woken: list[str] = []

        def late(key: str) -> Blob | None:
            if ".log/" in key and not woken:
                woken.append(key)
                peer.publish(db)
            return get(key)

        monkeypatch.setattr(node.blobs, "get", late)
        restored = node.restorer.restore(CELL, epoch, guess)
    assert woken
    assert names(restored.db) == ["one", "two", "three", "four"]
    restored.db.close()


def test_an_old_holder_that_trims_while_a_refused_fence_reads_on_is_noticed(
    tmp_path: Path, peer: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes on where our fence belongs, and trims behind our eyes: the fence then fills a trimmed place."""
    node = Node(tmp_path, "node")
    with peer.holding() as db:
        peer.tenure.release()
        epoch = node.tenure.acquire(None)
        get = node.blobs.get
        looks: list[str] = []

        def late(key: str) -> Blob | None:
            if ".log/" not in key:
                blob = get(key)
                looks.append("manifest")
                if looks.count("manifest") == 2:
                    peer.append(db, "four", "five", "six")
                return blob
            if looks.count("manifest") >= 2:
                looks.append("slot")
                if looks.count("slot") == 2:
                    peer.publish(db)
            return get(key)

        monkeypatch.setattr(node.blobs, "get", late)
        with pytest.raises(StoreTrouble, match="was trimmed"):
            node.restorer.restore(CELL, epoch, None)
        monkeypatch.setattr(node.blobs, "get", get)
        restored = node.restorer.restore(CELL, epoch, None)
    assert names(restored.db) == ["one", "two", "three", "four", "five", "six"]
    restored.db.close()


def test_a_lease_that_another_holds_costs_no_file(tmp_path: Path, peer: Node, beside: Beside) -> None:
    node = Node(tmp_path, "node", beside)
    with peer.holding(), pytest.raises(HeldElsewhere):
        node.restore(node.guess())
    assert not [key for _, key in node.blobs.calls if ".db" in key]


def test_a_damaged_file_is_passed_over(tmp_path: Path, peer: Node, beside: Beside) -> None:
    keeps_two = Node(tmp_path, "keeps-two")
    keeps_two.publisher = Publisher(keeps_two.blobs, keep=2, nonce=keeps_two._nonce, sleep=no_wait)
    with keeps_two.holding() as db:
        keeps_two.append(db, "four")
        db.checkpoint()
        what = (keeps_two.tenure.standing.epoch, db.slot, db.sequence)
        keeps_two.publisher.publish(Publication(CELL, db.path.read_bytes(), db.meta().json(), *what))
    damaged = newest(peer).key
    peer.blobs.put(damaged, b"rubbish")
    node = Node(tmp_path, "node", beside)
    restored = node.restore(node.guess())
    assert restored.damaged == [damaged]
    assert names(restored.db) == ["one", "two", "three", "four"]
    restored.db.close()


def test_an_originals_snapshot_is_not_fetched_before_the_lease(tmp_path: Path, peer: Node) -> None:
    """It has no digest, and another one may stand under the same name by then."""
    peer.blobs.put("cells/c.meta.json", b'{"id":"c","event_sequence":9}')
    node = Node(tmp_path, "node")
    guess = node.guess()
    guess.lease_is_free()
    assert not [key for _, key in node.blobs.calls if ".db" in key]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("position", range(8))
def test_a_fault_at_any_call_changes_nothing(
    tmp_path: Path, peer: Node, beside: Beside, fault: str, position: int
) -> None:
    """A lease that cannot be read is told at once, and asked for again."""
    node = Node(tmp_path, "node", beside)
    node.blobs.plan.extend([""] * position + [fault])
    try:
        found = finish(node, node.guess())
    except StoreTrouble:
        found = finish(node, node.guess())
    assert found == ["one", "two", "three"]


def test_a_long_log_is_read_to_its_end(tmp_path: Path, peer: Node, beside: Beside) -> None:
    """Several slots at once, and none behind the first that is missing."""
    more = [f"more-{number}" for number in range(50)]
    with peer.holding() as db:
        peer.append(db, *more)
    node = Node(tmp_path, "node", beside)
    log = node.restorer.log(CELL, 0)
    first = newest(peer).slot
    slots = list(log.read(first))
    assert [slot.number for slot in slots] == list(range(first + 1, first + 1 + len(slots)))
    assert len(slots) == 1 + 1 + len(more)
    peer.blobs.delete(f"cells/c.log/{first + 10:012d}")
    assert len(list(log.read(first))) == 9
