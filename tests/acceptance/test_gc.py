"""fleetctl gc removes the artifacts that no node and no way back needs, and nothing else."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import Workspace, wait_for


def _staged(workspace: Workspace) -> set[str]:
    """The versions whose artifact is on the host."""
    folder = workspace.path / "host" / "artifacts" / "sha256"
    return {p.name.removeprefix("hello-").removesuffix(".py") for p in folder.glob("*/*")}


def _roll_to(workspace: Workspace, version: str) -> None:
    workspace.fleet(version)
    workspace.apply()


def test_only_what_nothing_needs_goes_and_the_way_back_stays(workspace: Workspace) -> None:
    workspace.release("1.2.0")
    workspace.pairs.append('{from: "1.1.0", to: "1.2.0", mode: rolling, reverse: rolling}')
    workspace.write_releases()
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        _roll_to(workspace, version)
    assert _staged(workspace) == {"1.0.0", "1.1.0", "1.2.0"}

    shown = workspace.ok("gc", ".", "--dry-run", "--min-age", "0s")
    assert shown.out.count("nothing needs it") == 1
    assert _staged(workspace) == {"1.0.0", "1.1.0", "1.2.0"}, "a dry run removes nothing"

    assert "it came" in workspace.ok("gc", ".", "--auto-approve").out, (
        "what came just now may be about to be used"
    )
    assert _staged(workspace) == {"1.0.0", "1.1.0", "1.2.0"}

    refused = workspace.run("gc", ".", "--min-age", "0s")
    assert refused.code == 1
    assert "nothing was changed" in refused.err
    assert _staged(workspace) == {"1.0.0", "1.1.0", "1.2.0"}

    done = workspace.ok("gc", ".", "--auto-approve", "--min-age", "0s")
    assert "Removed 1 of 1" in done.out
    assert _staged(workspace) == {"1.1.0", "1.2.0"}
    _roll_to(workspace, "1.1.0")
    assert "Nothing to remove." in workspace.ok("gc", ".", "--auto-approve", "--min-age", "0s").out


def test_what_another_state_runs_on_the_host_stays(workspace: Workspace, tmp_path: Path) -> None:
    """Two states share the host: one's gc leaves the other's artifact, which only a record there tells of."""
    workspace.fleet("1.0.0")
    workspace.apply()
    other = Workspace(tmp_path / "other")
    try:
        (other.path / "host").symlink_to(workspace.path / "host")
        other.fleet("1.1.0", name="other")
        other.apply()
        workspace.ok("destroy", ".", "--auto-approve")
        assert "Removed 1 of 1" in workspace.ok("gc", ".", "--auto-approve", "--min-age", "0s").out
        assert _staged(workspace) == {"1.1.0"}
    finally:
        other.close()


def test_a_fleet_that_is_held_is_not_collected(workspace: Workspace) -> None:
    workspace.fleet("1.0.0", min_ready="5s")
    running = workspace.start("apply", ".", "--auto-approve")
    wait_for(lambda: "create done" in workspace.said(), "the apply to be under way")
    assert workspace.run("gc", ".", "--auto-approve", "--min-age", "0s").code == 6
    assert workspace.end(running).code == 0


def test_a_minimum_age_has_a_unit(workspace: Workspace) -> None:
    workspace.fleet("1.0.0")
    refused = workspace.run("gc", ".", "--min-age", "5")
    assert refused.code == 1
    assert "--min-age" in refused.err
