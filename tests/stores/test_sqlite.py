"""The SQLite store: the suite that all stores pass, and what its file must survive."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleetctl.ledger import entries
from fleetctl.ledger.entries import Context, seal
from fleetctl.ledger.ports import Head, JournalConflict, StateError, Store
from fleetctl.stores import sqlite_file
from fleetctl.stores.sqlite import SqliteStore
from tests.stores.conformance import FLEET, TTL_S, Conformance, HandClock, HandProcesses, holder


class TestSqlite(Conformance):
    @pytest.fixture(autouse=True)
    def _fresh(self, tmp_path: Path) -> None:
        self.path = tmp_path / ".fleetctl" / "state.db"

    def make(self, clock: HandClock, processes: HandProcesses) -> Store:
        return SqliteStore(self.path, clock, processes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".fleetctl" / "state.db"


def opened(path: Path, *, read_only: bool = False) -> SqliteStore:
    return SqliteStore(path, HandClock(), HandProcesses(), read_only=read_only)


def filled(path: Path, n: int = 20) -> Head:
    store = opened(path)
    store.initialise()
    head = Head()
    for _ in range(n):
        head = append(store, head)
    store.close()
    return head


def append(store: Store, head: Head, size_b: int = 0) -> Head:
    body = entries.control("note", "me", text="x" * size_b)
    sealed = seal([body], Context(FLEET, "l1", "r1", 1), head, "2026-01-01T00:00:00.000Z")
    return store.append(FLEET, head.sequence, sealed, 1)


# --- who may read it -----------------------------------------------------------------------------------


def test_the_file_and_its_folder_are_the_owners_alone(path: Path) -> None:
    old = os.umask(0)
    try:
        filled(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(p.name for p in path.parent.iterdir()) == ["state.db"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_others_can_use_is_refused(path: Path, mode: int, read_only: bool) -> None:
    filled(path)
    path.chmod(mode)
    with pytest.raises(StateError, match="by others") as caught:
        opened(path, read_only=read_only).head(FLEET)
    assert caught.value.hint is not None
    assert "chmod 600" in caught.value.hint


def test_a_folder_that_others_can_write_is_refused(path: Path) -> None:
    filled(path)
    path.parent.chmod(0o777)
    with pytest.raises(StateError, match="folder"):
        opened(path).head(FLEET)


# --- readers change nothing -----------------------------------------------------------------------------


def test_reading_a_state_that_is_not_there_creates_nothing(path: Path) -> None:
    reader = opened(path, read_only=True)
    assert reader.head(FLEET) == Head()
    assert list(reader.fleets()) == []
    assert reader.current(FLEET) is None
    assert reader.secrets_key() is None
    reader.close()
    assert not path.parent.exists()


def test_reading_leaves_the_folder_as_it_was(path: Path) -> None:
    head = filled(path)
    before = (path.read_bytes(), sorted(p.name for p in path.parent.iterdir()))
    reader = opened(path, read_only=True)
    assert reader.head(FLEET) == head
    reader.close()
    assert (path.read_bytes(), sorted(p.name for p in path.parent.iterdir())) == before


def test_a_reader_cannot_write(path: Path) -> None:
    filled(path)
    reader = opened(path, read_only=True)
    reader.head(FLEET)
    assert reader._connection is not None
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader._connection.execute("DELETE FROM entries")
    reader.close()


def as_nobody(work: Callable[[], None]) -> int:
    """Runs `work` in a child that is not root; 0 when it raised nothing."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgid(65534)
            os.setuid(65534)
            work()
            code = 0
        except BaseException as e:  # noqa: BLE001 - told to the parent
            sys.stderr.write(f"{type(e).__name__}: {e}\n")
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    """A folder of a user that is not root, in reach of that user."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to act as another user")
    folder = Path("/tmp") / f"fleetctl-{os.getpid()}-{tmp_path.name}"
    folder.mkdir(mode=0o700)
    os.chown(folder, 65534, 65534)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


@pytest.mark.parametrize("unclean", [False, True])
def test_a_state_in_a_read_only_folder_can_be_read(foreign: Path, unclean: bool) -> None:
    """`unclean`: a killed writer left its log behind, with entries that are nowhere else."""
    path = foreign / "state.db"
    filled(path, 5)
    if unclean:
        store = opened(path)
        append(store, store.head(FLEET))
        copy = [(p.name, p.read_bytes()) for p in foreign.iterdir() if not p.name.endswith("-shm")]
        store.close()
        for name, data in copy:
            (foreign / name).write_bytes(data)
            (foreign / name).chmod(0o600)
    for p in foreign.iterdir():
        os.chown(p, 65534, 65534)
    foreign.chmod(0o500)
    names = sorted(p.name for p in foreign.iterdir())

    def read() -> None:
        reader = opened(path, read_only=True)
        assert len(list(reader.read(FLEET))) == (6 if unclean else 5)
        reader.close()

    assert as_nobody(read) == 0
    assert sorted(p.name for p in foreign.iterdir()) == names


def test_writing_to_a_read_only_folder_is_an_error_with_a_hint(foreign: Path) -> None:
    path = foreign / "state.db"
    filled(path, 1)
    path.chmod(0o600)
    os.chown(path, 65534, 65534)
    foreign.chmod(0o500)

    def write() -> None:
        store = opened(path)
        try:
            store.put(b"x")
        except StateError as e:
            assert e.hint
            return
        raise AssertionError("it was written")

    def make() -> None:
        try:
            opened(foreign / "new.db").initialise()
        except StateError as e:
            assert e.hint
            return
        raise AssertionError("it was made")

    assert as_nobody(write) == 0
    assert as_nobody(make) == 0


# --- damage ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda p: p.write_bytes(b""), "empty"),
        (lambda p: p.write_bytes(b"\0" * 8192), "not an SQLite database"),
        (
            lambda p: p.write_bytes(b"not a database, but long enough to be one" * 300),
            "not an SQLite database",
        ),
        (lambda p: p.write_bytes(p.read_bytes()[:5000]), "damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[:100]), "damaged"),
        (lambda p: p.write_bytes(p.read_bytes()[:4096] + b"\0" * (p.stat().st_size - 4096)), "damaged"),
    ],
    ids=["empty", "nul", "text", "cut", "header", "nul-filled"],
)
def test_a_damaged_file_is_refused_and_left_as_it_is(
    path: Path, damage: Callable[[Path], object], says: str, read_only: bool
) -> None:
    filled(path)
    damage(path)
    before = path.read_bytes()
    with pytest.raises(StateError, match=says) as caught:
        list(opened(path, read_only=read_only).read(FLEET))
    assert caught.value.code == "state.damaged"
    assert caught.value.hint is not None
    assert path.read_bytes() == before


def test_one_changed_byte_of_an_entry_is_found_at_its_place(path: Path) -> None:
    filled(path)
    db = sqlite3.connect(path)
    db.execute("UPDATE entries SET body = replace(body, 'note', 'n0te') WHERE sequence = 7")
    db.commit()
    db.close()
    with pytest.raises(StateError, match=r"^entry 7 of fleet edge is damaged"):
        list(opened(path).read(FLEET))


def test_a_changed_document_is_found(path: Path) -> None:
    filled(path)
    store = opened(path)
    digest = store.put(b"plan")
    store.close()
    db = sqlite3.connect(path)
    db.execute("UPDATE documents SET body = ?", (b"plam",))
    db.commit()
    db.close()
    with pytest.raises(StateError, match="other bytes"):
        opened(path).get(digest)


def test_a_newer_version_is_refused(path: Path) -> None:
    filled(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(StateError, match="newer fleetctl") as caught:
        opened(path).head(FLEET)
    assert caught.value.code == "state.newer"


def test_another_programs_database_is_refused(path: Path) -> None:
    path.parent.mkdir(mode=0o700)
    sqlite3.connect(path).execute("CREATE TABLE t (x)")
    path.chmod(0o600)
    with pytest.raises(StateError, match="another program"):
        opened(path).head(FLEET)


def test_a_folder_in_its_place_is_refused(path: Path) -> None:
    path.mkdir(parents=True)
    with pytest.raises(StateError, match="not a file"):
        opened(path).head(FLEET)


def test_a_full_disk_is_an_error_with_a_hint_and_loses_nothing(path: Path) -> None:
    head = filled(path, 3)
    store = opened(path)
    store.head(FLEET)
    assert store._connection is not None
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StateError, match="disk is full") as caught:
        append(store, head, size_b=200_000)
    assert caught.value.code == "state.disk_full"
    assert store.head(FLEET) == head
    store.close()
    assert len(list(opened(path).read(FLEET))) == 3


# --- races and death ------------------------------------------------------------------------------------


def test_a_write_begins_with_the_lock_and_so_never_fails_half_way(path: Path) -> None:
    """Q1: a deferred transaction that reads first fails at once with BUSY_SNAPSHOT when another one writes."""
    filled(path, 1)
    first, second = opened(path), opened(path)
    seen = first.head(FLEET)
    head = append(second, second.head(FLEET))
    with pytest.raises(JournalConflict):
        append(first, seen)
    assert append(first, first.head(FLEET)).sequence == head.sequence + 1
    first.close()
    second.close()


def test_the_log_is_emptied_at_the_end_and_bounded_meanwhile(path: Path) -> None:
    """Q2: with a reader open and many entries written."""
    store = opened(path)
    store.initialise()
    reader = opened(path, read_only=True)
    head = Head()
    for _ in range(1200):
        head = append(store, head, size_b=8000)
        if head.sequence % 300 == 0:
            assert reader.head(FLEET) == head
    log = path.with_name("state.db-wal")
    assert log.stat().st_size < 2 * 4096 * 4096
    reader.close()
    store.close()
    assert not log.exists()


WRITER = """
import sys
from pathlib import Path
from tests.stores.test_sqlite import append, opened
from tests.stores.conformance import FLEET
store = opened(Path(sys.argv[1]))
store.initialise()
head = store.head(FLEET)
while True:
    head = append(store, head, size_b=500)
    sys.stdout.write(f"{head.sequence}\\n")
    sys.stdout.flush()
"""


@pytest.mark.parametrize("after", [1, 7, 40])
def test_a_writer_killed_in_the_middle_leaves_a_whole_chain(path: Path, after: int) -> None:
    """Every entry that the writer was told is durable is there, the chain is whole, and writing goes on."""
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(after):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
        told = [int(line) for line in child.stdout.read().splitlines() if line.strip()]
        child.wait()
        store = opened(path)
        found = [e["sequence"] for e in store.read(FLEET)]
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= max(told, default=after)
        append(store, store.head(FLEET))
        store.close()


def test_two_first_runs_at_once_make_one_state(path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.stores.test_sqlite import opened; "
        "s = opened(Path(sys.argv[1])); s.initialise(); print(s.secrets_key().hex()); s.close()"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    keys = {child.communicate()[0].strip() for child in children}
    assert len(keys) == 1
    assert [child.returncode for child in children] == [0, 0, 0, 0]
    assert sorted(p.name for p in path.parent.iterdir()) == ["state.db"]


# --- versions -------------------------------------------------------------------------------------------


def test_the_migrations_in_order_end_in_the_schema(tmp_path: Path) -> None:
    def tables(*scripts: str) -> list[tuple[str, str]]:
        db = sqlite3.connect(":memory:")
        for script in scripts:
            db.executescript(script)
        return sorted(db.execute("SELECT name, sql FROM sqlite_master").fetchall())

    migrations = sqlite_file.migrations()
    assert [version for version, _ in migrations] == list(range(1, sqlite_file.SCHEMA_VERSION + 1))
    assert tables(*(sql for _, sql in migrations)) == tables(sqlite_file.schema())


def test_a_lease_is_seen_by_the_next_process(path: Path) -> None:
    """An observation of a silent holder elsewhere goes on over several invocations on this machine."""
    store = opened(path)
    store.initialise()
    store.acquire(FLEET, holder(machine="elsewhere", pid=9), TTL_S)
    store.close()
    clock = HandClock()
    first = SqliteStore(path, clock, HandProcesses())
    with pytest.raises(Exception, match="is held"):
        first.acquire(FLEET, holder("r2"), TTL_S)
    first.close()
    clock.at_s += TTL_S
    later = SqliteStore(path, clock, HandProcesses())
    assert later.acquire(FLEET, holder("r3"), TTL_S).epoch == 2
    later.close()
