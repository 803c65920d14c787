"""pause, resume, promote, abort, unlock and audit, said to a rollout by other processes."""

from __future__ import annotations

import json
import re

from tests.acceptance.cli import Workspace, wait_for
from tests.acceptance.client import ask


def _begin_upgrade(w: Workspace, rollout: str = "") -> None:
    """Three nodes run 1.0.0, and an apply of 1.1.0 has begun its first node."""
    w.fleet("1.0.0")
    w.apply()
    w.fleet("1.1.0", min_ready="3s", rollout=rollout)
    w.start("apply", ".", "--auto-approve")
    wait_for(lambda: "stop done" in w.said(), "the first node to be under way")


def _versions(w: Workspace) -> list[str | None]:
    return [ask(p) for p in w.ports]


def test_a_paused_rollout_ends_its_process_with_8_and_resume_finishes_it(workspace: Workspace) -> None:
    # The word takes the time of a whole process to arrive: the last node must be far away.
    _begin_upgrade(workspace)
    assert "told to pause" in workspace.ok("pause", ".").out
    paused = workspace.end(workspace.started[-1])
    assert paused.code == 8, str(paused)
    half = set(_versions(workspace))
    assert half == {"1.0.0", "1.1.0"}, "the node under way was finished, and no other begun"
    assert "1.1.0" in workspace.run("plan", ".").out, "a paused rollout does not keep anybody from planning"
    refused = workspace.run("apply", ".", "--auto-approve")
    assert refused.code == 8, str(refused)
    workspace.ok("resume", ".")
    assert _versions(workspace) == ["1.1.0"] * 3
    assert workspace.ok("plan", ".").out.startswith("No changes.")


def test_a_manual_canary_waits_for_its_promotion(workspace: Workspace) -> None:
    workspace.fleet("1.0.0")
    workspace.apply()
    workspace.fleet("1.1.0", rollout="  canary: {count: 1, promotion: manual}\n")
    waiting = workspace.run("apply", ".", "--auto-approve")
    assert waiting.code == 8, str(waiting)
    assert sorted(map(str, _versions(workspace))) == ["1.0.0", "1.0.0", "1.1.0"]
    resumed = workspace.run("resume", ".")
    assert resumed.code == 8, "only a promotion ends the wait for one"
    assert sorted(map(str, _versions(workspace))) == ["1.0.0", "1.0.0", "1.1.0"]
    workspace.ok("promote", ".")
    assert _versions(workspace) == ["1.1.0"] * 3


def test_an_aborted_rollout_stays_where_it_is_and_is_settled(workspace: Workspace) -> None:
    """Going back is a rollout of its own: nobody who says stop is surprised by another change."""
    _begin_upgrade(workspace, rollout="  auto_revert: true\n")
    workspace.ok("abort", ".")
    aborted = workspace.end(workspace.started[-1])
    assert aborted.code == 4, str(aborted)
    assert set(_versions(workspace)) == {"1.0.0", "1.1.0"}
    workspace.fleet("1.0.0")
    workspace.apply()
    assert _versions(workspace) == ["1.0.0"] * 3


def test_there_is_nothing_to_say_to_a_fleet_at_rest(workspace: Workspace) -> None:
    workspace.fleet("1.0.0")
    workspace.apply()
    for verb in ("pause", "resume", "promote", "abort"):
        refused = workspace.run(verb, ".")
        assert refused.code == 1, str(refused)
        assert "no run to" in refused.err


def test_unlock_takes_only_the_lock_that_is_named(workspace: Workspace) -> None:
    _begin_upgrade(workspace)
    workspace.ok("pause", ".")
    workspace.end(workspace.started[-1])
    refused = workspace.run("unlock", "hello", "--id", "0" * 32)
    assert refused.code == 1, str(refused)
    workspace.ok("resume", ".")


def test_the_journal_is_proven_and_exported_and_a_change_in_it_is_found(workspace: Workspace) -> None:
    workspace.fleet("1.0.0")
    workspace.apply()
    proven = workspace.ok("audit", "verify", ".")
    assert re.search(r"fleet/hello: whole, \d+ entries, 1 runs, 6 operations, 0 open", proven.out)
    lines = [json.loads(line) for line in workspace.ok("audit", "export", ".").out.splitlines()]
    starts = [x for x in lines if x["what"] == "start" and x["outcome"] == "succeeded"]
    assert {x["node"] for x in starts} == {"web-0", "web-1", "web-2"}
    assert all(x["source"] == "node" and x["plan_id"].startswith("sha256:") and x["who"] for x in starts)
    _change_one_entry(workspace)
    damaged = workspace.run("audit", "verify", ".")
    assert damaged.code == 1, str(damaged)
    assert "whole" not in damaged.out


def _change_one_entry(w: Workspace) -> None:
    """Changes a word in the middle of the journal, as somebody with the file's rights could."""
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(w.path / ".fleetctl" / "state.db")) as db:
        (table,) = [
            name
            for (name,) in db.execute("select name from sqlite_master where type = 'table'")
            if {"sequence"} <= {c[1] for c in db.execute(f"pragma table_info({name})")}
        ]
        columns = [c[1] for c in db.execute(f"pragma table_info({table})")]
        body = next(c for c in columns if c in ("entry", "body", "data"))
        changed = db.execute(
            f"update {table} set {body} = replace(cast({body} as text), 'web-1', 'web-9') where sequence = 4"
        )
        assert changed.rowcount == 1
        db.commit()
