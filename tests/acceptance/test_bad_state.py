"""A state that is full, read-only, damaged or from a newer release: said plainly, never made worse."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace, wait_for
from tests.acceptance.client import ask
from tests.acceptance.rights import mounted_tmpfs, read_only, unprivileged


def database(w: Workspace) -> Path:
    return w.path / ".fleetctl" / "state.db"


def whole(w: Workspace) -> Path:
    """The state's one file, nothing of it left in the log beside it."""
    with sqlite3.connect(database(w)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return database(w)


def test_a_full_disk_is_an_error_before_anything_happens(workspace: Workspace) -> None:
    folder = workspace.path / "full"
    with mounted_tmpfs(folder, "64k"):
        (folder / "filler").write_bytes(b"x" * 56 * 1024)
        done = workspace.run("apply", ".", "--auto-approve", "--state", str(folder))
        assert done.code == 1, str(done)
        assert "full" in done.err or "No space left" in done.err or "space" in done.err
        assert "Traceback" not in done.err
        assert workspace.node_processes() == []


def test_a_disk_that_fills_up_in_the_middle_loses_nothing(workspace: Workspace) -> None:
    """The run stops at the effect it cannot record; with room again, recover settles it."""
    folder = workspace.path / "filling"
    with mounted_tmpfs(folder, "1m"):
        state = ("--state", str(folder))
        workspace.apply(*state)
        workspace.fleet("1.1.0", min_ready="1s")
        process = workspace.start("apply", ".", "--auto-approve", *state)
        wait_for(lambda: ask(workspace.ports[0]) == "1.1.0", "the first node to be upgraded")
        with (folder / "filler").open("wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(b"x" * 4096)
            except OSError:
                pass
        done = workspace.end(process)
        assert done.code in (1, 5), str(done)
        assert "full" in done.err or "space" in done.err
        (folder / "filler").unlink()
        assert workspace.run("plan", ".", *state).code == 0
        recovered = workspace.run("recover", ".", "--auto-approve", *state)
        assert recovered.code == 0, str(recovered)
        workspace.apply(*state)
        assert [ask(p) for p in workspace.ports] == ["1.1.0"] * 3


def test_a_read_only_state_still_plans_and_refuses_to_apply(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    with read_only(workspace.path / ".fleetctl"):
        assert "3 to change" in workspace.ok("plan", ".").out
        assert "3 of 3 available" in workspace.ok("status", ".").out
        done = workspace.run("apply", ".", "--auto-approve")
    assert done.code == 1, str(done)
    assert "state" in done.err
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_a_state_folder_without_rights_refuses_to_apply(workspace: Workspace) -> None:
    folder = workspace.path / "no-rights"
    folder.mkdir(mode=0o500)
    done = workspace.run("apply", ".", "--auto-approve", "--state", str(folder), prefix=unprivileged())
    assert done.code == 1, str(done)
    assert "no-rights" in done.err
    assert "Hint:" in done.err
    assert workspace.node_processes() == []


def corrupt(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 512):
        data[at : at + 64] = b"\xa5" * 64
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:2000])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def fill_with_nul(path: Path) -> None:
    path.write_bytes(b"\0" * path.stat().st_size)


@pytest.mark.parametrize("damage", [corrupt, truncate, empty, fill_with_nul])
def test_a_damaged_state_is_said_and_left_as_it_is(
    workspace: Workspace, damage: Callable[[Path], None]
) -> None:
    workspace.apply()
    path = whole(workspace)
    damage(path)
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    workspace.fleet("1.1.0")
    for command in (["plan", "."], ["status", "."], ["apply", ".", "--auto-approve"], ["recover", "."]):
        done = workspace.run(*command)
        assert done.code == 1, f"{command} {done}"
        assert "damaged" in done.err, str(done)
        assert "Hint:" in done.err
        assert "Traceback" not in done.err
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3, "nothing was touched"


@pytest.mark.parametrize("kind", ["BLOB", "TEXT"])
def test_one_changed_word_in_an_entry_is_found(workspace: Workspace, kind: str) -> None:
    """By SQL, which leaves the database itself whole."""
    workspace.apply()
    with sqlite3.connect(whole(workspace)) as db:
        changed = f"CAST(replace(CAST(body AS TEXT), 'web-', 'bew-') AS {kind})"
        db.execute(f"UPDATE entries SET body = {changed} WHERE sequence = 5")
    db.close()
    done = workspace.run("plan", ".")
    assert done.code == 1, str(done)
    assert "entry 5 of fleet hello is damaged" in done.err


def test_a_state_of_a_newer_release_is_refused(workspace: Workspace) -> None:
    workspace.apply()
    with sqlite3.connect(whole(workspace)) as db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    for command in (["plan", "."], ["apply", ".", "--auto-approve"]):
        done = workspace.run(*command)
        assert done.code == 1, str(done)
        assert "newer" in done.err


def test_a_state_that_others_can_read_is_refused(workspace: Workspace) -> None:
    workspace.apply()
    assert oct(database(workspace).stat().st_mode & 0o777) == "0o600"
    database(workspace).chmod(0o644)
    done = workspace.run("plan", ".")
    assert done.code == 1
    assert "chmod 600" in done.err
