"""pin as it is called: first pins, pins that moved, CI, new releases, and what cannot be had."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.acceptance.cli import Workspace

RELEASE = """# by hand
api_version: fleetctl/v1
kind: Release
product: tool
version: "1.0.0"
artifacts:
  - substrate: host
    source: ./artifacts/{{ vars.name }}   # the program
"""


def digest(path: Path) -> str:
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def test_pins_are_written_move_and_are_checked(workspace: Workspace) -> None:
    tool = workspace.write("artifacts/tool", "one")
    file = workspace.write("tools.yaml", RELEASE)
    args = ("pin", "tools.yaml", "--var", "name=tool")
    missing = workspace.run(*args, "--check")
    assert missing.code == 1 and "pinned  tool 1.0.0 host/any" in missing.out
    assert file.read_text() == RELEASE
    first = digest(tool)
    workspace.ok(*args)
    assert file.read_text() == RELEASE + f'    digest: "{first}"\n'
    assert workspace.ok(*args, "--check").out == "0 pinned, 0 moved, 1 as they were.\n"

    tool.write_text("two")
    moved = workspace.run(*args, "--check")
    assert moved.code == 1
    assert f"moved   tool 1.0.0 host/any: {first} -> {digest(tool)} (tools.yaml:7)" in moved.out
    assert "other bytes under the same version" in moved.err
    assert f'-    digest: "{first}"' in workspace.ok(*args, "--diff").out
    assert first in file.read_text()
    (artifact,) = workspace.ok(*args, "--format", "json").json["artifacts"]
    assert (artifact["result"], artifact["before"], artifact["after"]) == ("moved", first, digest(tool))
    assert file.read_text() == RELEASE + f'    digest: "{digest(tool)}"\n'


def test_a_folder_of_valid_manifests_has_nothing_to_move(workspace: Workspace) -> None:
    workspace.fleet()
    assert workspace.ok("pin", "--check").out == "0 pinned, 0 moved, 3 as they were.\n"


def test_a_release_is_written_completed_and_valid(workspace: Workspace) -> None:
    workspace.fleet()
    workspace.write("artifacts/x", "x")
    workspace.ok("pin", "--release", "hello@3.0.0", "--artifact", "host=./artifacts/x")
    assert "releases" in workspace.ok("validate", ".").out
    workspace.ok(
        "pin", "releases.yaml", "--release", "hello@3.0.0", "--artifact", "host/x86_64=./artifacts/x"
    )
    text = (workspace.path / "releases.yaml").read_text()
    assert text.count('version: "3.0.0"') == 1 and text.count("source: ./artifacts/x\n") == 2
    workspace.ok("validate", ".")
    workspace.ok("fmt", "--check", ".")


def test_what_cannot_be_had_writes_nothing(workspace: Workspace) -> None:
    file = workspace.write("tools.yaml", RELEASE)
    gone = workspace.run("pin", "tools.yaml", "--var", "name=tool")
    assert gone.code == 1 and "is not there" in gone.err
    assert workspace.run("pin", "tools.yaml").code == 1, "a template without its variable"
    assert file.read_text() == RELEASE
    for args in (
        ("--release", "hello@3.0.0"),
        ("--release", "hello", "--artifact", "host=x"),
        ("--release", "hello@3.0.0", "--artifact", "cloud=x"),
        ("--release", "hello@3.0.0", "--artifact", "docker=image"),
    ):
        refused = workspace.run("pin", "new.yaml", *args)
        assert refused.code == 1 and refused.err.startswith("Error: "), str(refused)
    assert not (workspace.path / "new.yaml").exists()
