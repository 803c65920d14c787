"""The entry, the tutorial and the reference: every command of them is run."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import FLEETCTL, Workspace
from tests.docs.pages import shown
from tests.docs.reader import Reader, follows
from tests.examples.quickstart import answering, copy_quickstart, free_ports
from tests.house.sources import ROOT
from tests.lab.process import missing_programs

FIRST_PORT = 18080
NODES = 3
# The demo's promise is a minute; the rest is for a busy machine.
DEMO_TIMEOUT_S = 180.0


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """A folder with free ports and nothing in it; what still runs there is ended."""
    workspace = Workspace(tmp_path / "hello")
    shutil.rmtree(workspace.path)
    workspace.path.mkdir()
    yield workspace
    workspace.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project's top as a reader has it once all is installed, with the quickstart beside its Makefile."""
    top = tmp_path / "project"
    (top / ".venv").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, top / name)
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith(".installed"):
            (top / ".venv" / entry.name).symlink_to(entry)
    for stamp in (".installed", ".installed-dev"):
        (top / ".venv" / stamp).touch()
    return top


@pytest.mark.timeout(2 * DEMO_TIMEOUT_S)
@follows("README.md")
def test_readme_makes_its_demo_and_runs_tests(reader: Reader, project: Path) -> None:
    """The demo tells its story and leaves nothing; `make test` runs what lies below tests/, which is little here."""
    reader.path = project
    reader.timeout_s = DEMO_TIMEOUT_S
    first_port = free_ports(NODES)
    folder = copy_quickstart(project / "examples", first_port)
    story = reader.run("make demo")
    places = [
        story.index(part)
        for part in (
            "Plan: 3 to add",
            "$ fleetctl status",
            "Plan: 0 to add, 3 to change",
            "more than one 0 times",
            "exit 3: refused",
            "No changes",
            "$ fleetctl destroy",
            "Nothing is left running",
        )
    ]
    assert places == sorted(places)
    log = (folder / ".fleetctl" / "watch.log").read_text(encoding="utf-8").splitlines()
    rounds = [line.split()[1:] for line in log]
    assert rounds[0] == ["1.0.0"] * NODES
    assert rounds[-1] == ["1.1.0"] * NODES
    assert max(answers.count("down") for answers in rounds) == 1
    assert answering(first_port) == []
    (project / "tests").mkdir()
    (project / "tests" / "test_one.py").write_text("def test_one() -> None:\n    assert True\n")
    # Where an extra is missing, a test of a page is not what installs it.
    reader.env["PIP_NO_INDEX"] = "1"
    assert "1 passed" in reader.run("make test")


@follows("docs/tutorial.md")
def test_tutorial_runs_from_top_to_bottom(reader: Reader, project: Path, workspace: Workspace) -> None:
    reader.path = project
    for index in range(NODES):
        reader.put(str(FIRST_PORT + index), str(workspace.port + index))
    reader.run("make env")
    path = reader.run("export PATH=")
    assert Path(path.partition(":")[0], "fleetctl").samefile(FLEETCTL)
    reader.path = workspace.path
    done = []
    for block in reader.blocks("python", "yaml", "console"):
        if block.file is not None:
            (reader.path / block.file).write_text(block.text, encoding="utf-8")
        elif block.kind == "console":
            for command in shown(block):
                reader.run(command.line)
                done.append(command.line)
    verbs = {line.split()[1] for line in done if line.startswith("fleetctl ")}
    assert verbs >= {"validate", "plan", "apply", "status", "rollback", "destroy", "runs"}
    assert workspace.node_processes() == []


@follows("docs/reference/events.md")
def test_events_page_writes_its_file_and_feeds_its_filter(reader: Reader, tmp_path: Path) -> None:
    """The second run has a node that does not come up, so that the filter has something to show."""
    if reason := missing_programs("jq"):
        pytest.skip(reason)
    made = Workspace(tmp_path / "w", count=2)
    made.fleet(reserve=0)
    reader.path = made.path
    try:
        reader.run("fleetctl apply")
        assert '"step.finished"' in (made.path / "events.ndjson").read_text(encoding="utf-8")
        made.release("1.1.0", behaviour="sick")
        made.fleet("1.1.0", reserve=0, deadline="2s")
        said = reader.run("fleetctl apply")
        assert re.search(r"^web-0: \S", said, re.M), said
    finally:
        made.close()


@follows("docs/reference/manifest.md")
def test_manifest_page_lays_a_file_over_a_folder(reader: Reader, tmp_path: Path) -> None:
    """What the table says of a variable of `env`: the later file's value is the one."""
    base = Workspace(tmp_path / "base", count=2)
    base.fleet(reserve=0)
    reader.path = tmp_path
    (tmp_path / "prod.yaml").write_text(
        "api_version: fleetctl/v1\nkind: Fleet\nname: hello\n"
        "groups: [{name: web, count: 1, process: {env: {GREETING: good day}}}]\n"
    )
    said = reader.run("fleetctl plan")
    assert "Plan: 1 to add" in said
