"""The whole story of a change: reviewed, planned, approved, applied, by runners that share nothing but a bucket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import wait_for
from tests.acceptance.client import ask
from tests.acceptance.pipelines.forge import Forge
from tests.acceptance.pipelines.repository import Machines, Repository
from tests.acceptance.pipelines.runner import Ran, Runner
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY

BUCKET = "pipelines"
PUSH = {"name": "push"}
POLICY = """\
api_version: fleetctl/v1
kind: Policy
name: production
rules:
  require_approval: changes
  destroy_max: 0
"""


@dataclass
class Story:
    """What outlives each runner: the repository, the bucket, the machine, and the files kept between jobs."""

    path: Path
    repository: Repository
    comments: Forge
    server: S3
    state: str

    def __post_init__(self) -> None:
        self.numbers = count(1)
        self.kept = self.path / "artifacts"
        self.kept.mkdir()

    def runner(self, commit: str) -> tuple[Runner, Path]:
        """A machine that was never seen before, with a fresh checkout."""
        number = next(self.numbers)
        env = {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "GITHUB_API_URL": self.comments.url,
        }
        machine = Runner(self.path / f"runner-{number}", env)
        return machine, self.repository.checkout(self.path / f"checkout-{number}", commit)

    @property
    def inputs(self) -> dict[str, str]:
        return {"paths": "fleet", "state": self.state, "state_endpoint": self.server.endpoint}

    def review(self, base: str, head: str) -> Ran:
        machine, checkout = self.runner(head)
        event = {"name": "pull_request", "pull_request": {"number": 3, "base": {"sha": base}}}
        return machine.action(checkout, event, **self.inputs)

    def plan(self, commit: str, name: str) -> Ran:
        """Plans a commit, and keeps the plan for those who approve it."""
        machine, checkout = self.runner(commit)
        ran = machine.action(checkout, PUSH, **self.inputs)
        if ran.outputs["run"].get("plan"):
            shutil.copy(checkout / ran.outputs["run"]["plan"], self.kept / name)
        return ran

    def prepared(self, commit: str, approved: str) -> tuple[Runner, Path, dict[str, str]]:
        machine, checkout = self.runner(commit)
        shutil.copy(self.kept / approved, checkout / "approved.plan")
        return machine, checkout, {**self.inputs, "command": "apply", "approved": "approved.plan"}

    def apply(self, commit: str, approved: str) -> Ran:
        machine, checkout, inputs = self.prepared(commit, approved)
        return machine.action(checkout, PUSH, **inputs)

    def versions(self) -> list[str | None]:
        return [ask(port) for port in self.repository.workspace.ports]


@pytest.fixture
def story(s3: S3, comments: Forge, tmp_path: Path) -> Iterator[Story]:
    root = tmp_path / "upstream"
    workspace = Machines(root / "fleet", count=2)
    repository = Repository.of(root, workspace)
    bucket = s3.bucket(f"{BUCKET}-{os.getpid()}")
    made = Story(tmp_path, repository, comments, s3, f"s3://{bucket}/hello")
    try:
        yield made
    finally:
        workspace.close()


def fleet(story: Story, version: str, **values: Any) -> str:
    """Commits the fleet at a version; a node of 1.1.0 is healthy once its gate is there."""
    workspace = story.repository.workspace
    workspace.release("1.1.0", f"gated:{story.path}/gate-")
    workspace.write("policy.yaml", POLICY)
    env = f"{{GREETING: {values.pop('greeting', 'hello')}}}"
    workspace.fleet(version, reserve=0, env=env, deadline="5m", **values)
    return story.repository.commit(f"hello {version}")


# A dozen jobs, each with checkouts and several commands; on a loaded machine they take minutes.
@pytest.mark.timeout(900)
def test_a_change_from_the_pull_request_to_the_running_fleet(story: Story) -> None:
    first = fleet(story, "1.0.0")
    assert story.plan(first, "first.plan").code == 0
    ran = story.apply(first, "first.plan")
    assert ran.code == 0, str(ran)
    assert story.versions() == ["1.0.0"] * 2

    # A pull request: reviewed against what is applied, and said in its comment.
    second = fleet(story, "1.1.0")
    ran = story.review(first, second)
    assert ran.code == 0, str(ran)
    assert "hello 1.0.0 -> 1.1.0" in story.comments.comments[1]
    assert "needs an approval" in story.comments.comments[1]

    # It is merged: planned on one runner, approved by a person, applied on another.
    ran = story.plan(second, "second.plan")
    assert (ran.code, ran.outputs["run"]["changes"]) == (0, "true"), str(ran)

    # What is not what was approved is refused, and so is anything without an approval.
    third = fleet(story, "1.1.0", greeting="servus")
    ran = story.apply(third, "second.plan")
    assert ran.code == 7, str(ran)
    assert "specs.env.GREETING: approved hello, now servus" in ran.log
    assert story.versions() == ["1.0.0"] * 2

    # The runner that applies it is killed in the middle; another one that came in between was kept out.
    machine, checkout, inputs = story.prepared(second, "second.plan")
    process = machine.start(checkout, PUSH, **inputs)
    try:
        wait_for(lambda: "1.1.0" in story.versions(), "the first node of 1.1.0", 300)
        ran = story.apply(second, "second.plan")
        assert ran.code == 6, str(ran)
        locked = story.runner(second)
        ran = locked[0].action(locked[1], PUSH, **{**story.inputs, "command": "recover"})
        assert ran.code == 6, str(ran)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    ran = story.apply(second, "second.plan")
    assert ran.code == 5, str(ran)
    assert "fleetctl recover" in ran.log

    # A third runner, which has neither the plan nor the commit, recovers it.
    for port in story.repository.workspace.ports:
        (story.path / f"gate-{port}").touch()
    machine, checkout = story.runner(first)
    ran = machine.action(checkout, PUSH, **{**story.inputs, "command": "recover"})
    assert ran.code == 0, str(ran)
    assert story.versions() == ["1.1.0"] * 2

    # The same job once more: everything that was approved is there.
    ran = story.apply(second, "second.plan")
    assert ran.code == 0, str(ran)
    assert "No changes" in ran.log
    approvals(story, checkout, machine)


def approvals(story: Story, checkout: Path, machine: Runner) -> None:
    """The journal says which approved plan each run had the effects of."""
    done = subprocess.run(
        [
            "fleetctl",
            "audit",
            "export",
            "fleet",
            "--state",
            story.state,
            "--state-endpoint",
            story.server.endpoint,
        ],
        cwd=checkout,
        env=machine.base(),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    started = [e for e in map(json.loads, done.stdout.splitlines()) if e["what"] == "run_started"]
    plans = [json.loads((story.kept / name).read_text())["plan_id"] for name in ("first.plan", "second.plan")]
    assert [e["facts"].get("approval") for e in started] == [*plans, None], "recovering asks nobody again"
