"""explain as it is called: words, JSON, suggestions."""

from __future__ import annotations

from pathlib import Path

from tests.acceptance.cli import Workspace


def test_a_key_is_explained_and_shown_as_it_is_written(workspace: Workspace, tmp_path: Path) -> None:
    done = workspace.ok("explain", "fleet.groups.health.interval", cwd=tmp_path)
    assert done.out == (
        "fleet.groups.health.interval: a duration, such as 500ms, 10s, 5m, 2h or 1d; default 1s\n\n"
        "# The time between probes (default 1s).\ninterval: 1s\n"
    )
    assert workspace.ok("explain", "Fleet.groups[0].health.interval").out == done.out
    with_keys = workspace.ok("explain", "fleet.groups.health")
    assert "  interval   a duration, such as" in with_keys.out


def test_json_and_the_list_of_kinds(workspace: Workspace) -> None:
    key = workspace.ok("explain", "fleet.rollout", "--format", "json").json
    assert key["key"] == "fleet.rollout" and "auto_revert" in key["keys"] and "# " in key["text"]
    assert workspace.ok("explain").out.startswith("fleet          nodes of one product")
    assert "host" in workspace.ok("explain", "--format", "json").json["keys"]


def test_an_unknown_key_gets_a_suggestion(workspace: Workspace) -> None:
    done = workspace.run("explain", "fleet.groups.health.intervall")
    assert (done.code, done.out) == (1, "")
    assert "Fleet has no key groups.health.intervall" in done.err
    assert "did you mean interval?" in done.err
