"""The bytes on the host are part of what is observed: changed or missing ones show, and are repaired."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import Workspace


def _artifact(w: Workspace) -> Path:
    (path,) = (w.path / "host" / "artifacts" / "sha256").glob("*/*")
    return path


def test_changed_bytes_on_the_host_show_and_are_put_right(workspace: Workspace) -> None:
    workspace.apply()
    path = _artifact(workspace)
    good = path.read_bytes()
    path.write_bytes(good + b"# changed by hand\n")
    shown = workspace.run("plan", ".", "--detailed-exitcode")
    assert shown.code == 2, str(shown)
    assert "artifact.digest" in shown.out
    assert "(changed on the host)" in shown.out
    workspace.apply()
    assert path.read_bytes() == good
    assert workspace.ok("plan", ".", "--detailed-exitcode").out.startswith("No changes.")


def test_missing_bytes_on_the_host_show_and_are_brought_again(workspace: Workspace) -> None:
    workspace.apply()
    path = _artifact(workspace)
    good = path.read_bytes()
    path.unlink()
    shown = workspace.run("plan", ".", "--detailed-exitcode")
    assert shown.code == 2, str(shown)
    assert "(missing on the host)" in shown.out
    workspace.apply()
    assert path.read_bytes() == good
