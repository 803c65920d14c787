"""The how-to pages that a bare machine can follow: what they write is used, and every command that they show is run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace, wait_for
from tests.acceptance.repository import GitRepository
from tests.docs.pages import blocks
from tests.docs.reader import Reader, follows
from tests.house.sources import ROOT
from tests.lab.process import missing_programs

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


def yaml_blocks(name: str) -> list[str]:
    text = (HOW_TO / f"{name}.md").read_text(encoding="utf-8")
    return [b.text for b in blocks(text) if b.kind == "yaml"]


def into_folder(workspace: Workspace, name: str) -> None:
    """Moves the manifests where a page has them."""
    (workspace.path / name).mkdir()
    for each in ("fleet.yaml", "releases.yaml", "artifacts"):
        (workspace.path / each).rename(workspace.path / name / each)


@follows("docs/how-to/compatibility-table.md")
def test_compatibility_page_answers_and_leads_along_its_path(reader: Reader, workspace: Workspace) -> None:
    """The page's own table: shown, asked, and walked in two rollouts."""
    reader.path = workspace.path
    workspace.pairs = []
    workspace.release("1.2.0")
    workspace.write("pairs.yaml", yaml_blocks("compatibility-table")[0])
    workspace.apply()
    workspace.fleet("1.2.0", reserve=0)
    assert "release notes of 1.1.0" in reader.run("fleetctl compat show")
    assert "1.0.0 -> 1.1.0" in reader.run("fleetctl compat check", code=3)
    reader.run("fleetctl plan . --via")
    for step in ("way.1.plan", "way.2.plan"):
        reader.run(f"fleetctl apply {step}", typed=["yes"])
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


@follows("docs/how-to/recover.md")
def test_recover_page_settles_what_was_cut_off(reader: Reader, workspace: Workspace) -> None:
    """A killed rollout, an effect that only a person can judge, a lock whose holder is gone, and the proof."""
    reader.path = workspace.path
    killed_in_the_middle(workspace)
    reader.run("fleetctl recover .", typed=["yes"])
    reader.put("op-0123…", effect_without_evidence(workspace))
    reader.run("fleetctl settle")
    reader.run("fleetctl recover .", typed=["yes"])
    reader.put("6f1c…", lock_of_a_holder_that_is_gone(workspace))
    assert "Unlocked: fleet/hello" in reader.run("fleetctl unlock")
    workspace.ok("recover", ".", "--auto-approve")
    assert "whole" in reader.run("fleetctl audit verify .")
    assert "No changes" in reader.run("fleetctl plan . --detailed-exitcode")


def killed_in_the_middle(workspace: Workspace) -> None:
    """kill -9 when the first of two nodes was started; nothing may begin before it is settled."""
    workspace.fleet(reserve=0, min_ready="500ms")
    workspace.apply()
    workspace.fleet("1.1.0", reserve=0, min_ready="500ms")
    process = workspace.start("apply", ".", "--auto-approve")
    wait_for(lambda: "start done" in workspace.said(), "the first node to be started")
    process.send_signal(signal.SIGKILL)
    workspace.end(process)
    cut_off = workspace.run("apply", ".", "--auto-approve")
    assert cut_off.code == 5, str(cut_off)


def waits_in_a_hook(workspace: Workspace, name: str) -> tuple[subprocess.Popen[str], int, Path]:
    """An apply whose hook has begun and ends with the file NAME-over: its process, the hook's runner, and that file."""
    over = workspace.path / f"{name}-over"
    hook = workspace.write(name, f"#!/bin/sh\nwhile [ ! -e '{over}' ]; do sleep 0.05; done\n")
    hook.chmod(0o755)
    hooks = f"  hooks: {{pre_rollout: [{{command: [{hook}], timeout: 60s}}]}}\n"
    workspace.fleet("1.1.0", reserve=0, env=f"{{GREETING: {name}}}", rollout=hooks)
    records = workspace.path / ".fleetctl" / "hooks"
    before = set(records.glob("*/runner"))
    process = workspace.start("apply", ".", "--auto-approve")
    runner = wait_for(lambda: next(iter({*records.glob("*/runner")} - before), None), "the hook has begun")
    return process, int(wait_for(runner.read_text, "the hook says who runs it").split()[0]), over


def effect_without_evidence(workspace: Workspace) -> str:
    """A hook whose machine went down with it: the id of its operation, as `recover` names it."""
    process, runner, over = waits_in_a_hook(workspace, "announce")
    for pid in (process.pid, runner):
        os.kill(pid, signal.SIGKILL)
    workspace.end(process)
    over.touch()
    unknown = workspace.run("recover", ".", "--auto-approve")
    assert unknown.code == 5, str(unknown)
    return next(word for word in (unknown.out + unknown.err).split() if word.startswith("op-"))


def lock_of_a_holder_that_is_gone(workspace: Workspace) -> str:
    """The id that the refusal of another run printed, of a holder that was killed afterwards."""
    process, _, over = waits_in_a_hook(workspace, "balance")
    refused = workspace.run("apply", ".", "--auto-approve")
    assert refused.code == 6, str(refused)
    process.send_signal(signal.SIGKILL)
    workspace.end(process)
    over.touch()
    (found,) = re.findall(r"--id (\w+)", refused.err)
    return str(found)


@follows("docs/how-to/policies.md")
def test_policies_page_is_valid_and_holds(reader: Reader, workspace: Workspace) -> None:
    """Each policy of the page is read; the one that wants an approval refuses to go without, and goes with it."""
    if reason := missing_programs("jq"):
        pytest.skip(reason)
    reader.path = workspace.path
    (workspace.path / "policies").mkdir()
    whole = [block for block in yaml_blocks("policies") if "kind: Policy" in block]
    assert len(whole) >= 3
    for number, block in enumerate(whole):
        workspace.write(f"policies/{number}.yaml", block)
    workspace.count = 3
    workspace.fleet(reserve=1)
    into_folder(workspace, "fleet")
    workspace.ok("validate", "policies/", "fleet/")
    reader.run("fleetctl plan -f policies/")
    refused = workspace.run("apply", "policies/", "fleet/", "--auto-approve")
    assert refused.code == 3, "the page's last policy wants an approval: " + str(refused)
    approved = workspace.ok("plan", "policies/", "fleet/", "--out", "a.plan")
    assert "a.plan" in approved.err
    workspace.ok("apply", "policies/", "fleet/", "--auto-approve", "--approved", "a.plan")
    shutil.copy(ROOT / "manifests" / "reference" / "judge.sh", workspace.path)
    reader.run("fleetctl plan fleet/ --format json | ./judge.sh")


@follows("docs/how-to/ci.md")
def test_pipeline_page_reviews_plans_and_applies_what_was_approved(
    reader: Reader, workspace: Workspace
) -> None:
    reader.path = workspace.path
    into_folder(workspace, "fleet")
    repository = GitRepository(workspace.path)
    repository.commit({}, "what is there")
    reader.put("review BASE", "review main")
    fleet = workspace.path / "fleet" / "fleet.yaml"
    fleet.write_text(fleet.read_text(encoding="utf-8").replace("GREETING: hello", "GREETING: good day"))
    assert "env.GREETING: hello -> good day" in reader.run("fleetctl review")
    reader.run_rest()
    assert "2 x 1.0.0" in workspace.ok("status", "fleet").out
