"""The how-to pages that a bare machine can follow: what they write is used, and what they show is run."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import Result, Workspace, wait_for
from tests.docs.pages import blocks, shown
from tests.house.sources import ROOT

HOW_TO = ROOT / "docs" / "how-to"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Two nodes of `hello` 1.0.0, declared and not yet there."""
    made = Workspace(tmp_path / "w", count=2)
    made.fleet(reserve=0)
    try:
        yield made
    finally:
        made.close()


def page(name: str) -> str:
    return (HOW_TO / f"{name}.md").read_text(encoding="utf-8")


def commands(name: str) -> list[str]:
    return [s.line for b in blocks(page(name)) if b.kind == "console" for s in shown(b)]


def fleetctl(workspace: Workspace, line: str, *more: str) -> Result:
    return workspace.run(*shlex.split(line)[1:], *more)


def yaml_blocks(name: str) -> list[str]:
    return [b.text for b in blocks(page(name)) if b.kind == "yaml"]


def test_compatibility_page_answers_and_leads_along_its_path(workspace: Workspace) -> None:
    """The page's own table: shown, asked, and walked in two rollouts."""
    workspace.pairs = []
    workspace.release("1.2.0")
    workspace.write("pairs.yaml", yaml_blocks("compatibility-table")[0])
    workspace.apply()
    workspace.fleet("1.2.0", reserve=0)
    show, check, via, first, second = commands("compatibility-table")
    table = fleetctl(workspace, show)
    assert table.code == 0, str(table)
    assert "release notes of 1.1.0" in table.out
    asked = fleetctl(workspace, check)
    assert asked.code == 3, str(asked)
    assert "1.0.0 -> 1.1.0" in asked.out + asked.err
    # The second step of this table is full, which the page says needs this flag.
    planned = fleetctl(workspace, via, "--accept-downtime")
    assert planned.code == 0, str(planned)
    for line in (first, second):
        applied = fleetctl(workspace, line, "--auto-approve")
        assert applied.code == 0, str(applied)
    assert "2 x 1.2.0" in workspace.ok("status", ".").out


def test_environment_rules_of_the_compatibility_page_are_valid(workspace: Workspace) -> None:
    table, environment = yaml_blocks("compatibility-table")
    workspace.pairs = []
    workspace.write_releases()
    workspace.write("table.yaml", table + environment)
    workspace.ok("validate", ".")


def test_hooks_page_is_planned_as_it_stands_and_its_hooks_run(workspace: Workspace) -> None:
    """All of the block is valid and planned. Its hooks are run where the node can be asked what the page asks."""
    (block,) = yaml_blocks("hooks")
    workspace.fleet(reserve=0)
    fleet = workspace.path / "fleet.yaml"
    head = fleet.read_text(encoding="utf-8").partition("rollout:\n")[0]
    fleet.write_text(head + block, encoding="utf-8")
    for name in ("announce", "balancer"):
        workspace.write(name, f'#!/bin/sh\necho "{name} $*" >>hooks.log\n').chmod(0o755)
    planned = workspace.ok("plan", ".")
    assert "announce" in planned.out, str(planned)
    workspace.apply()
    log = (workspace.path / "hooks.log").read_text(encoding="utf-8").splitlines()
    assert log[0] == "announce hello begins"
    assert log[-1] == "announce hello is done"
    assert sorted(log[1:-1]) == [f"balancer add 127.0.0.1:{port}" for port in workspace.ports]


def test_recover_page_settles_a_run_that_was_killed(workspace: Workspace) -> None:
    """The page's first and last commands, after a kill -9 in the middle of a rollout."""
    workspace.fleet(reserve=0, min_ready="500ms")
    workspace.apply()
    workspace.fleet("1.1.0", reserve=0, min_ready="500ms")
    process = workspace.start("apply", ".", "--auto-approve")
    wait_for(lambda: "start done" in workspace.said(), "the first node to be started")
    process.send_signal(signal.SIGKILL)
    process.wait()
    lines = commands("recover")
    cut_off = workspace.run("apply", ".", "--auto-approve")
    assert cut_off.code == 5, str(cut_off)
    recovered = fleetctl(workspace, lines[0], "--auto-approve")
    assert recovered.code == 0, str(recovered)
    audit, plan = lines[-2:]
    assert audit == "fleetctl audit verify ."
    assert fleetctl(workspace, audit).code == 0
    left = fleetctl(workspace, plan)
    assert left.code == 0, str(left)


def test_recover_page_names_what_settle_and_unlock_refuse(workspace: Workspace) -> None:
    """Its other commands have ids in them; with ids of nothing they say so, and change nothing."""
    workspace.apply()
    settle = next(line for line in commands("recover") if line.startswith("fleetctl settle"))
    refused = fleetctl(workspace, settle)
    assert refused.code == 1, str(refused)
    unlock = next(line for line in commands("recover") if line.startswith("fleetctl unlock"))
    other = fleetctl(workspace, unlock)
    assert other.code == 1, str(other)
    assert "lock" in other.err


def test_policies_page_is_valid_and_holds(workspace: Workspace) -> None:
    """Each policy of the page is read; the one that wants an approval refuses to go without, and goes with it."""
    (workspace.path / "policies").mkdir()
    whole = [block for block in yaml_blocks("policies") if "kind: Policy" in block]
    assert len(whole) >= 3
    for number, block in enumerate(whole):
        workspace.write(f"policies/{number}.yaml", block)
    (workspace.path / "fleet").mkdir()
    workspace.count = 3
    workspace.fleet(reserve=1)
    for name in ("fleet.yaml", "releases.yaml", "artifacts"):
        (workspace.path / name).rename(workspace.path / "fleet" / name)
    line = commands("policies")[0]
    assert line == "fleetctl plan -f policies/ -f fleet/"
    workspace.ok("validate", "policies/", "fleet/")
    planned = fleetctl(workspace, line)
    assert planned.code == 0, str(planned)
    refused = workspace.run("apply", "policies/", "fleet/", "--auto-approve")
    assert refused.code == 3, "the page's last policy wants an approval: " + str(refused)
    approved = workspace.ok("plan", "policies/", "fleet/", "--out", "a.plan")
    assert "a.plan" in approved.err
    workspace.ok("apply", "policies/", "fleet/", "--auto-approve", "--approved", "a.plan")


def test_pipeline_page_plans_and_applies_what_was_approved(workspace: Workspace) -> None:
    """The lines of its first block, with the paths that they name."""
    (workspace.path / "fleet").mkdir()
    for name in ("fleet.yaml", "releases.yaml", "artifacts"):
        (workspace.path / name).rename(workspace.path / "fleet" / name)
    block = next(b.text for b in blocks(page("ci")) if b.kind == "")
    plan = next(line for line in block.splitlines() if "fleetctl plan" in line)
    apply = next(line for line in block.splitlines() if "fleetctl apply" in line)
    for line in (plan, apply):
        command = line[line.index("fleetctl") :].split("  ")[0]
        done = fleetctl(workspace, command)
        assert done.code == 0, f"{command}\n{done}"
    assert "2 x 1.0.0" in workspace.ok("status", "fleet").out
