"""fmt as it is called: names, exit codes, stdin, and files that are left as they are."""

from __future__ import annotations

import os
import stat

from tests.acceptance.cli import Workspace

UGLY = "# why\nkind:   Fleet\ngroups:\n- name: 'web'   # the first\n"
NEAT = '# why\nkind: Fleet\ngroups:\n  - name: "web"   # the first\n'


def test_fmt_writes_what_changes_and_names_it(workspace: Workspace) -> None:
    workspace.ok("fmt")
    ugly = workspace.write("ugly.yaml", UGLY)
    ugly.chmod(0o640)
    assert workspace.ok("fmt", ".").out == "ugly.yaml\n"
    assert ugly.read_text() == NEAT
    assert stat.S_IMODE(ugly.stat().st_mode) == 0o640
    assert workspace.ok("fmt").out == ""
    assert [p.name for p in workspace.path.iterdir() if p.name.endswith(".tmp")] == []


def test_check_and_diff_write_nothing(workspace: Workspace) -> None:
    ugly = workspace.write("ugly.yaml", UGLY)
    checked = workspace.run("fmt", "--check", "ugly.yaml")
    assert (checked.code, checked.out) == (1, "ugly.yaml\n")
    shown = workspace.ok("fmt", "--diff", "ugly.yaml")
    assert "-kind:   Fleet\n+kind: Fleet\n" in shown.out
    assert workspace.run("fmt", "--check", "--diff", "ugly.yaml").code == 1
    assert ugly.read_text() == UGLY
    workspace.ok("fmt", "ugly.yaml")
    assert workspace.ok("fmt", "--check", "ugly.yaml").out == ""


def test_stdin_goes_to_stdout(workspace: Workspace) -> None:
    assert workspace.ok("fmt", "-", stdin=UGLY).out == NEAT
    assert workspace.run("fmt", "-", "--check", stdin=UGLY).code == 1
    assert workspace.ok("fmt", "-", "--check", stdin=NEAT).err == ""


def test_what_is_not_yaml_is_named_and_the_rest_is_done(workspace: Workspace) -> None:
    workspace.write("bad.yaml", "a: [1\n")
    ugly = workspace.write("ugly.yaml", UGLY)
    done = workspace.run("fmt", "bad.yaml", "ugly.yaml", "missing.yaml")
    assert done.code == 1
    assert "bad.yaml:" in done.err and "missing.yaml cannot be read" in done.err
    assert ugly.read_text() == NEAT


def test_a_link_stays_a_link_and_a_closed_folder_is_said(workspace: Workspace) -> None:
    (workspace.path / "shared").mkdir()
    real = workspace.write("shared/real.yaml", UGLY)
    link = workspace.path / "link.yaml"
    link.symlink_to("shared/real.yaml")
    workspace.ok("fmt", "link.yaml")
    assert link.is_symlink() and real.read_text() == NEAT
    os.mkfifo(workspace.path / "pipe.yaml")
    refused = workspace.run("fmt", "pipe.yaml")
    assert refused.code == 1 and "no regular file" in refused.err
