"""One conformance suite for every blob store, and for what is built on conditional writes."""

from __future__ import annotations

import itertools
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fleetctl.cellz.blobs import Blobs, Busy, Gone, Refused, Unanswered, retried, write_if
from fleetctl.cellz.conditional import ATTEMPTS_MAX, Effect
from fleetctl.cellz.disk import DiskBlobs
from fleetctl.cellz.errors import StoreTrouble
from fleetctl.cellz.s3 import S3Blobs
from tests.cellz.faulty import FAULTS, FaultyBlobs
from tests.lab.s3 import S3


def no_wait(_: float) -> None:
    """Tests do not wait between tries."""


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.s3)])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    if request.param == "disk":
        return DiskBlobs(tmp_path)
    server: S3 = request.getfixturevalue("s3")
    bucket = server.bucket(f"b{uuid.uuid4().hex}")
    return S3Blobs(
        bucket,
        endpoint=server.endpoint,
        region=server.region,
        key_id=server.access_key,
        secret=server.secret_key,
    )


def test_what_was_put_is_read_and_absent_is_none(blobs: Blobs) -> None:
    assert blobs.get("a/b") is None
    token = blobs.put("a/b", b"one")
    found = blobs.get("a/b")
    assert found is not None
    assert (found.data, found.token) == (b"one", token)
    blobs.put("a/b", b"")
    empty = blobs.get("a/b")
    assert empty is not None
    assert empty.data == b""


def test_create_is_refused_when_something_is_there(blobs: Blobs) -> None:
    blobs.create("k", b"one")
    with pytest.raises(Refused):
        blobs.create("k", b"two")
    found = blobs.get("k")
    assert found is not None
    assert found.data == b"one"


def test_replace_takes_only_the_present_token(blobs: Blobs) -> None:
    first = blobs.create("k", b"one")
    second = blobs.replace("k", b"two", first)
    with pytest.raises(Refused):
        blobs.replace("k", b"three", first)
    blobs.replace("k", b"four", second)
    found = blobs.get("k")
    assert found is not None
    assert found.data == b"four"


def test_replace_of_nothing_is_gone(blobs: Blobs) -> None:
    token = blobs.create("k", b"one")
    blobs.delete("k")
    with pytest.raises((Gone, Refused)):
        blobs.replace("k", b"two", token)
    assert blobs.get("k") is None


def test_delete_twice_is_harmless(blobs: Blobs) -> None:
    blobs.put("k", b"one")
    blobs.delete("k")
    blobs.delete("k")
    assert blobs.get("k") is None


def test_copy_is_independent_of_its_source(blobs: Blobs) -> None:
    blobs.put("a", b"one")
    blobs.copy("a", "b")
    blobs.copy("a", "b")
    blobs.put("a", b"two")
    blobs.delete("a")
    found = blobs.get("b")
    assert found is not None
    assert found.data == b"one"
    with pytest.raises(Gone):
        blobs.copy("nothing", "c")


def test_keys_are_listed_by_prefix_in_order(blobs: Blobs) -> None:
    for key in ("p/2", "p/1", "p/3/x", "q/1", "pp"):
        blobs.put(key, b"x")
    assert list(blobs.keys("p/")) == ["p/1", "p/2", "p/3/x"]
    assert list(blobs.keys("none/")) == []


def test_of_many_creators_one_wins(blobs: Blobs) -> None:
    won: list[int] = []

    def create(number: int) -> None:
        try:
            blobs.create("race", str(number).encode())
            won.append(number)
        except (Refused, Busy):
            pass

    _together(create, 8)
    assert len(won) == 1
    found = blobs.get("race")
    assert found is not None
    assert found.data == str(won[0]).encode()


def test_of_many_replacers_one_wins(blobs: Blobs) -> None:
    token = blobs.create("race", b"start")
    won: list[int] = []

    def replace(number: int) -> None:
        try:
            blobs.replace("race", str(number).encode(), token)
            won.append(number)
        except (Refused, Busy):
            pass

    _together(replace, 8)
    assert len(won) == 1


def _together(work: object, count: int) -> None:
    assert callable(work)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "faults", [*itertools.product(FAULTS, repeat=1), *itertools.product(FAULTS, repeat=2)]
)
@pytest.mark.parametrize("present", [False, True])
def test_a_conditional_write_is_settled_whatever_answers_are_lost(
    tmp_path: Path, faults: tuple[str, ...], present: bool
) -> None:
    """Alone on the key, it is always won in the end, and written exactly once."""
    inner = DiskBlobs(tmp_path, fsync=False)
    token = inner.create("k", b"before") if present else ""
    faulty = FaultyBlobs(inner)
    faulty.plan.extend(faults)
    outcome = write_if(faulty, "k", b"ours", token, no_wait)
    found = inner.get("k")
    assert found is not None
    assert (outcome.effect, outcome.token, found.data) == (Effect.WON, found.token, b"ours")


@pytest.mark.parametrize(
    "faults", [(), ("busy",), ("failed",), ("busy", "failed"), ("failed", "busy", "failed")]
)
@pytest.mark.parametrize("present", [False, True])
def test_a_conditional_write_after_another_is_lost_and_leaves_it(
    tmp_path: Path, faults: tuple[str, ...], present: bool
) -> None:
    inner = DiskBlobs(tmp_path, fsync=False)
    token = ""
    if present:
        token = inner.create("k", b"before")
        inner.replace("k", b"theirs", token)
    else:
        inner.create("k", b"theirs")
    faulty = FaultyBlobs(inner)
    faulty.plan.extend(faults)
    assert write_if(faulty, "k", b"ours", token, no_wait).effect is Effect.LOST
    found = inner.get("k")
    assert found is not None
    assert found.data == b"theirs"


@pytest.mark.parametrize("fault", ["failed", "busy"])
def test_a_conditional_write_is_unknown_when_the_store_stays_silent(tmp_path: Path, fault: str) -> None:
    """409 for ever is nobody's victory (Q5); silence for ever is not a defeat."""
    faulty = FaultyBlobs(DiskBlobs(tmp_path, fsync=False))
    faulty.plan.extend([fault] * 100)
    assert write_if(faulty, "k", b"ours", "", no_wait).effect is Effect.UNKNOWN
    assert len(faulty.calls) == ATTEMPTS_MAX


def test_a_plain_call_is_tried_again_and_then_told(tmp_path: Path) -> None:
    faulty = FaultyBlobs(DiskBlobs(tmp_path, fsync=False))
    faulty.plan.extend(["failed", "failed"])
    assert retried(lambda: faulty.get("k"), no_wait, "k") is None
    faulty.plan.extend(["failed"] * 10)
    with pytest.raises(StoreTrouble):
        retried(lambda: faulty.get("k"), no_wait, "k")


def test_a_dead_endpoint_is_unanswered_and_not_absent() -> None:
    blobs = S3Blobs("b", endpoint="http://127.0.0.1:9", region="r", key_id="k", secret="s")
    with pytest.raises(Unanswered):
        blobs.get("k")
    with pytest.raises(Unanswered):
        blobs.create("k", b"x")


def test_a_stopped_lock_holder_makes_others_busy_and_never_lets_two_in(tmp_path: Path) -> None:
    """flock of another process that is stopped inside the critical section: bounded wait, no write."""
    import fcntl
    import hashlib

    blobs = DiskBlobs(tmp_path, fsync=False)
    token = blobs.create("k", b"one")
    number = int.from_bytes(hashlib.sha256(b"k").digest()[:2], "big") % 64
    with (tmp_path / ".locks" / str(number)).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Busy):
            blobs.replace("k", b"two", token)
    blobs.replace("k", b"two", token)


def asked(**keys: str) -> bytes:
    """The head of the request that a read makes with these keys."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        blobs = S3Blobs("b", endpoint=f"http://127.0.0.1:{server.getsockname()[1]}", region="r", **keys)
        reading = pool.submit(blobs.get, "k")
        connection, _ = server.accept()
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(8192)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            assert reading.result(30) is None
    return head


def test_given_keys_are_not_mixed_with_another_identitys_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "temporary")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-role")
    given = asked(key_id="given", secret="s")
    assert b"Credential=given/" in given
    assert b"of-the-role" not in given
    found = asked(key_id="", secret="")
    assert b"Credential=temporary/" in found
    assert b"x-amz-security-token: of-the-role" in found


def test_found_keys_are_asked_for_anew_so_that_they_are_renewed_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """boto3 renews them when they are asked for, and knows when they end."""
    import boto3
    from botocore.credentials import Credentials

    class Renewed(Credentials):  # type: ignore[misc]
        asked = 0

        def get_frozen_credentials(self) -> object:
            Renewed.asked += 1
            return super().get_frozen_credentials()

    monkeypatch.setattr(boto3.Session, "get_credentials", lambda _: Renewed("k", "s"))
    blobs = S3Blobs("b", endpoint="http://127.0.0.1:9", region="r", key_id="", secret="")
    until = time.monotonic() + 60
    while Renewed.asked < 3 and time.monotonic() < until:  # it keeps them for a tenth of a second
        with pytest.raises(Unanswered):
            blobs.get("k")
    assert Renewed.asked >= 3


def test_a_large_file_goes_and_comes_whole(blobs: Blobs) -> None:
    data = bytes(range(256)) * (9 << 12)
    blobs.put("large", data)
    found = blobs.get("large")
    assert found is not None
    assert found.data == data
