"""The example workflow as a whole, on a forge with one repository: events, jobs, permissions, artifacts, approvals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.cli import wait_for
from tests.acceptance.client import ask
from tests.acceptance.pipelines.forge import Forge
from tests.acceptance.pipelines.project import Project, committed
from tests.acceptance.pipelines.repository import Machines, Repository
from tests.acceptance.pipelines.runner import ACTION
from tests.acceptance.pipelines.workflow import FILE, GitHub, Job, Run
from tests.house.sources import ROOT
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY

EXAMPLE = ROOT / "examples" / "ci" / "github.yml"
STATE = "s3://acme-fleets/edge"
# The tree without files, which git knows without having it: before the first push.
NOTHING = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def adopted(project: Project) -> str:
    """The example with the commit that is trusted, which is all that its reader has to change."""
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count("uses: OWNER/fleetctl@REVISION") == 3
    return text.replace("uses: OWNER/fleetctl@REVISION", f"uses: acme/fleetctl@{project.commit}")


@pytest.fixture
def github(s3: S3, comments: Forge, this_project: Project, bucket: str, tmp_path: Path) -> Iterator[GitHub]:
    """A forge whose repository has the workflow and, in `fleet/`, two nodes of 1.0.0; nothing was pushed yet."""
    root = tmp_path / "upstream"
    workspace = Machines(root / "fleet", count=2)
    repository = Repository.of(root, workspace)
    (root / FILE).parent.mkdir(parents=True)
    (root / FILE).write_text(adopted(this_project))
    yield GitHub(
        folder=tmp_path,
        repository=repository,
        forge=comments,
        project=this_project,
        secrets={
            "FLEETCTL_AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "FLEETCTL_AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        },
        environments={"production": lambda run: True},
        # The only thing that the example cannot know: where this machine's S3 is.
        machine={"FLEETCTL_STATE_ENDPOINT": s3.endpoint, "AWS_EC2_METADATA_DISABLED": "true"},
    )
    workspace.close()


def commit(github: GitHub, version: str, greeting: str = "hello") -> str:
    workspace = github.repository.workspace
    workspace.fleet(version, reserve=0, env=f"{{GREETING: {greeting}}}", deadline="5m")
    return github.repository.commit(f"{version}, {greeting}")


def versions(github: GitHub) -> list[str | None]:
    return [ask(port) for port in github.repository.workspace.ports]


def ran(run: Run | None) -> Run:
    assert run is not None, "the workflow did not run"
    return run


def rolled_out(github: GitHub, version: str = "1.0.0") -> str:
    """The first push, carried out; gives its commit."""
    first = commit(github, version)
    run = ran(github.push(NOTHING, first))
    assert run.results == {"review": "skipped", "plan": "success", "apply": "success"}, str(run)
    assert versions(github) == [version] * 2
    return first


@pytest.mark.timeout(600)
def test_from_the_pull_request_to_the_running_fleet(github: GitHub) -> None:
    first = rolled_out(github)

    # A pull request is reviewed, and nothing else happens.
    proposed = commit(github, "1.1.0")
    run = ran(github.pull_request(7, first, proposed))
    assert run.results == {"review": "success", "plan": "skipped", "apply": "skipped"}, str(run)
    assert "hello 1.0.0 -> 1.1.0" in github.forge.comments[1]
    assert "hello 1.0.0 -> 1.1.0" in run.jobs["review"].summary
    assert "AWS_ACCESS_KEY_ID" not in run.jobs["review"].env, "what is proposed sees no secret"
    assert versions(github) == ["1.0.0"] * 2
    # Another commit to it updates the comment.
    merged = commit(github, "1.1.0", greeting="servus")
    run = ran(github.pull_request(7, first, merged, "synchronize"))
    assert run.results["review"] == "success", str(run)
    assert list(github.forge.comments) == [1]
    assert "GREETING" in github.forge.comments[1]
    assert github.forge.writes == [
        "POST /repos/acme/fleet/issues/7/comments",
        "PATCH /comments/1",
    ]

    # It is merged. The reviewers of the environment see the plan, and nothing has happened before they say yes.
    def reviewer(seen: Run) -> bool:
        assert seen.results["plan"] == "success"
        assert "hello 1.0.0 -> 1.1.0" in seen.jobs["plan"].summary
        assert json.loads((seen.artifacts / "plan" / "fleet.plan").read_text())["fleets"]
        return versions(github) == ["1.0.0"] * 2

    github.environments["production"] = reviewer
    run = ran(github.push(first, merged))
    assert run.results == {"review": "skipped", "plan": "success", "apply": "success"}, str(run)
    assert run.jobs["plan"].outputs == {"changes": "true"}
    assert region(run) == "eu-central-1", "as the example says"
    assert versions(github) == ["1.1.0"] * 2

    # A push that changes nothing of the fleet is planned only, and what is not in `fleet/` not even that.
    manifests = github.repository.workspace.path / "fleet.yaml"
    manifests.write_text(f"# Two nodes.\n{manifests.read_text()}")
    remarked = github.repository.commit("A remark")
    run = ran(github.push(merged, remarked))
    assert run.results == {"review": "skipped", "plan": "success", "apply": "skipped"}, str(run)
    assert run.jobs["plan"].outputs == {"changes": "false"}
    (github.repository.path / "README.md").write_text("Our fleets.\n")
    documented = github.repository.commit("A page")
    assert github.push(remarked, documented) is None
    assert github.pull_request(8, remarked, documented) is None
    assert github.push(first, documented, branch="work") is None


@pytest.mark.timeout(600)
def test_an_approval_that_was_overtaken_is_refused(github: GitHub) -> None:
    """Between the plan and its approval somebody else changed the fleet."""
    first = commit(github, "1.1.0")

    def overtaken(seen: Run) -> bool:
        workspace = github.repository.workspace
        workspace.fleet("1.0.0", reserve=0)
        keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
        workspace.apply("--state", STATE, env={**github.machine, **keys, "AWS_DEFAULT_REGION": REGION})
        return True

    github.environments["production"] = overtaken
    run = ran(github.push(NOTHING, first))
    assert run.results == {"review": "skipped", "plan": "success", "apply": "failure"}, str(run)
    assert run.jobs["apply"].log.endswith("exit 7\n")
    assert "not what was approved" in run.jobs["apply"].log
    assert versions(github) == ["1.0.0"] * 2
    # Nor is anything applied that a reviewer turned down.
    github.environments["production"] = lambda seen: False
    run = ran(github.push(NOTHING, first))
    assert run.results == {"review": "skipped", "plan": "success", "apply": "failure"}, str(run)
    assert versions(github) == ["1.0.0"] * 2


@pytest.mark.timeout(600)
def test_applies_wait_for_each_other(github: GitHub) -> None:
    """A push during a rollout: its apply begins when the other has ended, and cuts nothing off."""
    first = rolled_out(github)
    github.repository.workspace.release("1.1.0", f"gated:{github.folder}/gate-")
    second, third = commit(github, "1.1.0"), commit(github, "1.1.0", greeting="servus")
    runs: dict[str, Run] = {}

    def push(before: str, after: str) -> None:
        runs[after] = ran(github.push(before, after))

    pushes = [threading.Thread(target=push, args=ends) for ends in ((first, second), (second, third))]
    pushes[0].start()
    try:
        wait_for(lambda: "1.1.0" in versions(github), "the first node of 1.1.0", 300)
        pushes[1].start()
        wait_for(lambda: github.waiting, "the second apply", 300)
        assert github.waiting == ["fleet-apply"]
        assert runs == {}
    finally:
        for port in github.repository.workspace.ports:
            (github.folder / f"gate-{port}").touch()
        for thread in pushes:
            if thread.ident is not None:
                thread.join(300)
    applied, after = runs[second], runs[third]
    assert applied.results["apply"] == "success", str(applied)
    # It was planned from what the first one was still about to change, so what it would do now was not approved.
    assert after.jobs["apply"].log.endswith("exit 7\n"), str(after)
    assert versions(github) == ["1.1.0"] * 2
    # Planned and approved anew, it is.
    again = ran(github.push(second, third))
    assert again.results["apply"] == "success", str(again)


def region(run: Run) -> str:
    """The region that fleetctl's library for S3 finds in the environment of a job."""
    return subprocess.run(
        [sys.executable, "-c", "import boto3; print(boto3.Session().region_name)"],
        env=run.jobs["plan"].env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def changed(github: GitHub, old: str, new: str) -> None:
    """Changes the workflow in the repository, before the next commit."""
    path = github.repository.path / FILE
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def reviewed(github: GitHub) -> Job:
    """The review of a pull request that rolls 1.1.0."""
    first = commit(github, "1.0.0")
    return ran(github.pull_request(7, first, commit(github, "1.1.0"))).jobs["review"]


def test_a_review_without_the_permission_to_comment_is_in_the_log_and_the_summary(github: GitHub) -> None:
    """As for every pull request from a fork, whose token only reads."""
    changed(github, "pull-requests: write", "pull-requests: read")
    review = reviewed(github)
    assert review.result == "success", str(review)
    assert "::warning::the review was not written as a comment: the API answers 403" in review.log
    assert "hello 1.0.0 -> 1.1.0" in review.summary
    assert github.forge.comments == {}


def test_a_review_needs_what_the_example_says_that_it_needs(github: GitHub) -> None:
    """The commit to compare with is fetched from a private repository."""
    changed(github, "persist-credentials: true", "persist-credentials: false")
    review = reviewed(github)
    assert review.result == "failure"
    assert "could not read Username" in review.log, str(review)


@pytest.fixture
def rehearsal(comments: Forge, tmp_path: Path) -> GitHub:
    """The same forge with an action of the same inputs and outputs, which says "changed" and does nothing."""
    document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    says = [f'echo "{name}=true" >>"$GITHUB_OUTPUT"' for name in document["outputs"]]
    step = {"id": "run", "shell": "bash", "run": "\n".join([*says, "touch fleet.plan"])}
    document["runs"]["steps"] = [step]
    action = tmp_path / "fleetctl"
    action.mkdir()
    (action / ACTION.name).write_text(yaml.safe_dump(document))
    project = committed(action)
    root = tmp_path / "upstream"
    (root / FILE).parent.mkdir(parents=True)
    (root / "fleet").mkdir()
    (root / "fleet" / "fleet.yaml").write_text("# a fleet\n")
    (root / FILE).write_text(adopted(project))
    secrets = {"FLEETCTL_AWS_ACCESS_KEY_ID": ACCESS_KEY, "FLEETCTL_AWS_SECRET_ACCESS_KEY": SECRET_KEY}
    approved: dict[str, Callable[[Run], bool]] = {"production": lambda run: True}
    return GitHub(tmp_path, Repository.of(root), comments, project, secrets, approved)


def both(github: GitHub) -> tuple[Run, Run]:
    """A push, and a pull request that changes nothing."""
    head = github.repository.commit("all of it")
    pushed = ran(github.push(NOTHING, head))
    (github.repository.path / "fleet" / "fleet.yaml").write_text("# the fleet\n")
    return pushed, ran(github.pull_request(7, head, github.repository.commit("more")))


def test_the_rehearsal_goes_through(rehearsal: GitHub) -> None:
    pushed, pulled = both(rehearsal)
    assert pushed.results == {"review": "skipped", "plan": "success", "apply": "success"}, str(pushed)
    assert pulled.results == {"review": "success", "plan": "skipped", "apply": "skipped"}, str(pulled)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("steps.plan.outputs.changes", "steps.plan.outputs.change", "there is no steps.plan.outputs.change"),
        ("needs.plan.outputs.changes", "needs.plan.outputs.change", "there is no needs.plan.outputs.change"),
        ("id: plan", "id: planned", "there is no steps.plan"),
        ("needs: plan", "needs: plans", "needs a job that there is not"),
        ("    needs: plan\n", "", "there is no needs.plan"),
        ("command: review", "comand: review", "the action has no input"),
        ("approved: fleet.plan", "approve: fleet.plan", "the action has no input"),
        ("persist-credentials", "persist-credential", "has not all of the inputs"),
        ("secrets.FLEETCTL_AWS_ACCESS", "secrets.AWS_ACCESS", "there is no secrets.AWS_ACCESS"),
        ("github.event_name", "github.event-name", "there is no github.event-name"),
        ("pull-requests: write", "pull_requests: write", "does not know"),
        ("contents: read, pull", "pull", "could not read Username"),
        ("upload-artifact@v4", "upload-artifacts@v4", "does not know"),
        ("runs-on", "run-on", "does not know"),
    ],
)
def test_a_slip_in_the_workflow_is_noticed(rehearsal: GitHub, old: str, new: str, said: str) -> None:
    """GitHub itself would take most of them for something empty, and go on."""
    changed(rehearsal, old, new)
    with pytest.raises(AssertionError, match=re.escape(said)):
        both(rehearsal)


@pytest.mark.parametrize(
    ("old", "new"), [("path: fleet.plan", "path: flet.plan"), ("{name: plan}", "{name: plans}")]
)
def test_without_the_plan_of_the_job_before_nothing_is_applied(rehearsal: GitHub, old: str, new: str) -> None:
    changed(rehearsal, old, new)
    pushed, _ = both(rehearsal)
    assert pushed.results == {"review": "skipped", "plan": "success", "apply": "failure"}, str(pushed)
    assert "there is no artifact" in pushed.jobs["apply"].log
