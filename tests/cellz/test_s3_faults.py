"""Conditional writes and leases over a real S3 client whose answers are lost, late, refused or wrong."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleetctl.cellz import s3 as s3_module
from fleetctl.cellz.apply import transact
from fleetctl.cellz.beside import on_threads
from fleetctl.cellz.blobs import retried, write_if
from fleetctl.cellz.clock import Clock, Ids
from fleetctl.cellz.conditional import Effect
from fleetctl.cellz.errors import HeldElsewhere, StoreTrouble
from fleetctl.cellz.lease import Terms
from fleetctl.cellz.ops import Append, Create
from fleetctl.cellz.restore import Restored, Restorer
from fleetctl.cellz.s3 import S3Blobs
from fleetctl.cellz.snapshots import Publication, Publisher
from fleetctl.cellz.tenure import Holder, Tenure
from fleetctl.cellz.words import NewEvent
from tests.cellz.s3faults import FAULTS, FaultyS3, faulty_s3
from tests.lab.s3 import S3

pytestmark = pytest.mark.s3
# A late answer costs the client's patience, so it comes alone.
QUICK = [fault for fault in FAULTS if fault != "late"]
PLANS = [*itertools.product(FAULTS, repeat=1), *itertools.product(QUICK, repeat=2)]
PATIENCE_S = 1
TTL_S = 3600.0
BESIDE = on_threads()


def no_wait(_: float) -> None:
    """Tests do not wait between tries."""


@pytest.fixture(scope="module")
def proxy(s3: S3) -> Iterator[FaultyS3]:
    with faulty_s3(s3.endpoint) as started:
        yield started


@pytest.fixture(scope="module")
def blobs(s3: S3, proxy: FaultyS3) -> Iterator[S3Blobs]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(s3_module, "_READ_TIMEOUT_S", PATIENCE_S)
        yield S3Blobs(
            s3.bucket(f"b{uuid.uuid4().hex}"),
            endpoint=proxy.endpoint,
            region=s3.region,
            key_id=s3.access_key,
            secret=s3.secret_key,
        )


@pytest.fixture
def key() -> str:
    return uuid.uuid4().hex


def read(blobs: S3Blobs, key: str) -> bytes:
    found = retried(lambda: blobs.get(key), no_wait, key)
    assert found is not None
    return found.data


@pytest.mark.parametrize("faults", PLANS, ids="-".join)
@pytest.mark.parametrize("present", [False, True])
def test_alone_on_a_key_a_write_is_won_whatever_happens_to_its_answers(
    blobs: S3Blobs, proxy: FaultyS3, key: str, faults: tuple[str, ...], present: bool
) -> None:
    token = blobs.create(key, b"before") if present else ""
    proxy.plan.extend(faults)
    outcome = write_if(blobs, key, b"ours", token, no_wait)
    assert not proxy.plan
    assert (outcome.effect, read(blobs, key)) == (Effect.WON, b"ours")


@pytest.mark.parametrize("faults", [(), ("409",), ("500",), ("late",), ("500", "409")], ids="-".join)
def test_after_another_a_write_is_lost_and_leaves_what_is_there(
    blobs: S3Blobs, proxy: FaultyS3, key: str, faults: tuple[str, ...]
) -> None:
    token = blobs.create(key, b"before")
    blobs.replace(key, b"theirs", token)
    proxy.plan.extend(faults)
    assert write_if(blobs, key, b"ours", token, no_wait).effect is Effect.LOST
    assert read(blobs, key) == b"theirs"


def test_a_412_is_believed_unless_an_answer_was_missed_before(
    blobs: S3Blobs, proxy: FaultyS3, key: str
) -> None:
    """After a missed answer our own object may be what a try is refused for: it is read again."""
    proxy.plan.extend(["412"])
    assert write_if(blobs, key, b"ours", "", no_wait).effect is Effect.LOST
    proxy.plan.extend(["500", "", "412"])
    assert write_if(blobs, key, b"ours", "", no_wait).effect is Effect.WON


def tenure(blobs: S3Blobs, cell: str, name: str) -> Tenure:
    ids = Ids()
    return Tenure(cell, Holder(blobs, Clock(), Terms(name, TTL_S), f"http://{name}", ids.token, no_wait))


@pytest.mark.parametrize("faults", PLANS, ids="-".join)
def test_a_lease_is_taken_denied_released_and_taken_again(
    blobs: S3Blobs, proxy: FaultyS3, key: str, faults: tuple[str, ...]
) -> None:
    """Faults meet every step, at its read and at its write; the epoch rises by one for each holder."""
    first, second = tenure(blobs, key, "first"), tenure(blobs, key, "second")
    proxy.plan.extend(["", *faults])
    assert first.acquire() == 1
    assert first.valid()
    with pytest.raises(HeldElsewhere) as refused:
        second.acquire()
    assert refused.value.owner == "http://first"
    proxy.plan.extend(faults)
    first.release()
    proxy.plan.clear()
    assert not first.valid()
    third = tenure(blobs, key, "third")
    assert third.acquire() == 2


@pytest.mark.parametrize("fault", QUICK)
@pytest.mark.parametrize("position", range(7))
def test_a_cold_cell_comes_up_whatever_happens_to_the_answers(
    blobs: S3Blobs, proxy: FaultyS3, key: str, tmp_path: Path, fault: str, position: int
) -> None:
    """Its calls are made at once; a lease that cannot be read is told, and asked for again."""
    ids = Ids()
    publisher = Publisher(blobs, keep=1, nonce=ids.token, sleep=no_wait)

    def restorer(name: str) -> Restorer:
        (tmp_path / name).mkdir()
        return Restorer(
            blobs,
            tmp_path / name,
            publisher=publisher,
            fence=True,
            nonce=ids.token,
            sleep=no_wait,
            beside=BESIDE,
        )

    first = tenure(blobs, key, "first")
    before = restorer("first").restore(key, first.acquire()).db
    transact(before, [Create(key, "{}", "t"), Append((NewEvent("one", None, "e", "1", "t"),))])
    before.checkpoint()
    what = (before.path.read_bytes(), before.meta().json(), 1, before.slot, before.sequence)
    publisher.publish(Publication(key, *what))
    before.close()
    first.release()
    second, cold = tenure(blobs, key, "second"), restorer("second")

    def activate() -> Restored:
        guess = cold.look_ahead(key)
        assert guess is not None
        return cold.restore(key, second.acquire(guess.lease_is_free), guess)

    proxy.plan.extend([""] * position + [fault])
    try:
        restored = activate()
    except StoreTrouble:
        restored = activate()
    proxy.plan.clear()
    assert [event.sequence for event in restored.db.events()] == [1]
    restored.db.close()
