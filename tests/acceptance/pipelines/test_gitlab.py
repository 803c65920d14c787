"""The GitLab template: its pipelines' jobs run as GitLab's runners would run them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.acceptance.client import ask
from tests.acceptance.pipelines.conftest import Change
from tests.acceptance.pipelines.forge import KNOWN_TOKEN, Forge
from tests.acceptance.pipelines.gitlab import TEMPLATE, GitLab
from tests.acceptance.pipelines.repository import Machines, Repository
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY


@pytest.fixture
def reviewing(change: Change, comments: Forge, tmp_path: Path) -> GitLab:
    """The project of a change, with a token for notes."""
    given = {"FLEETCTL_PATHS": "fleet", "FLEETCTL_NOTE_TOKEN": KNOWN_TOKEN}
    return GitLab(tmp_path, change.repository, comments.url, given)


@pytest.fixture
def deploying(s3: S3, bucket: str, tmp_path: Path) -> Iterator[GitLab]:
    """A project with a state in a bucket, and two nodes that nothing was applied of yet."""
    root = tmp_path / "upstream"
    workspace = Machines(root / "fleet", count=2)
    given = {
        "FLEETCTL_PATHS": "fleet",
        "FLEETCTL_STATE": f"s3://{bucket}/edge",
        "FLEETCTL_STATE_ENDPOINT": s3.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
    }
    yield GitLab(tmp_path, Repository.of(root, workspace), "http://nowhere.invalid", given)
    workspace.close()


def commit(gitlab: GitLab, version: str) -> str:
    gitlab.repository.workspace.fleet(version, reserve=0)
    return gitlab.repository.commit(f"Two nodes of {version}")


def versions(gitlab: GitLab) -> list[str | None]:
    return [ask(port) for port in gitlab.repository.workspace.ports]


def test_a_merge_request_is_reviewed_and_its_one_note_is_updated(
    reviewing: GitLab, change: Change, comments: Forge
) -> None:
    for _ in range(2):
        pipeline = reviewing.merge_request(change.base, change.head)
        assert list(pipeline.jobs) == ["fleetctl-review"], "nothing is planned that is only proposed"
        ran = pipeline.jobs["fleetctl-review"].ran
        assert ran is not None and ran.code == 0, str(ran)
        kept = pipeline.artifacts / "fleetctl-review" / "review.md"
        assert "hello 1.0.0 -> 1.1.0" in kept.read_text()
    assert comments.writes == [
        "POST /projects/12/merge_requests/7/notes",
        "PUT /projects/12/merge_requests/7/notes/1",
    ]
    assert "hello 1.0.0 -> 1.1.0" in comments.comments[1]
    assert comments.tokens == {KNOWN_TOKEN}


def test_a_refused_change_fails_without_a_token_too(
    reviewing: GitLab, change: Change, comments: Forge
) -> None:
    del reviewing.variables["FLEETCTL_NOTE_TOKEN"]
    pipeline = reviewing.merge_request(change.base, commit(reviewing, "2.0.0"))
    ran = pipeline.jobs["fleetctl-review"].ran
    assert ran is not None and ran.code == 3, str(ran)
    assert "Refused" in ran.log
    assert "Refused" in (pipeline.artifacts / "fleetctl-review" / "review.md").read_text()
    assert comments.writes == []


def test_a_token_that_may_not_write_takes_nothing_from_the_review(
    reviewing: GitLab, change: Change, comments: Forge
) -> None:
    comments.denied = True
    ran = reviewing.merge_request(change.base, change.head).jobs["fleetctl-review"].ran
    assert ran is not None and ran.code == 0, str(ran)
    assert "The review was not written as a note: the API answers 403." in ran.log
    assert "hello 1.0.0 -> 1.1.0" in ran.log


@pytest.mark.timeout(600)
def test_what_a_pipeline_planned_is_applied_by_whoever_starts_it(deploying: GitLab) -> None:
    first = commit(deploying, "1.0.0")
    assert deploying.push(first, branch="work").jobs == {}
    pipeline = deploying.push(first)
    assert list(pipeline.jobs) == ["fleetctl-plan", "fleetctl-apply", "fleetctl-recover"]
    assert pipeline.jobs["fleetctl-plan"].done, str(pipeline.jobs["fleetctl-plan"].ran)
    plan = pipeline.artifacts / "fleetctl-plan" / "fleet.plan"
    assert json.loads(plan.read_text())["fleets"][0]["fleet"] == "hello"
    assert versions(deploying) == [None] * 2, "nobody has started anything"
    ran = pipeline.play("fleetctl-apply")
    assert ran.code == 0, str(ran)
    assert versions(deploying) == ["1.0.0"] * 2

    # Two commits were planned from the same fleet, and a person starts both: the second was overtaken.
    pipeline = deploying.push(commit(deploying, "1.1.0"))
    deploying.repository.workspace.fleet("1.1.0", reserve=0, env="{GREETING: servus}")
    overtaken = deploying.push(deploying.repository.commit("Another greeting"))
    ran = pipeline.play("fleetctl-apply")
    assert ran.code == 0, str(ran)
    assert versions(deploying) == ["1.1.0"] * 2
    ran = pipeline.play("fleetctl-apply")
    assert (ran.code, "No changes" in ran.log) == (0, True), str(ran)
    ran = overtaken.play("fleetctl-apply")
    assert ran.code == 7, str(ran)
    assert versions(deploying) == ["1.1.0"] * 2


def test_recovering_waits_for_no_plan(deploying: GitLab) -> None:
    """A plan that is refused must not keep anybody from settling what was cut off."""
    commit(deploying, "1.0.0")
    fleet = deploying.repository.workspace.path / "fleet.yaml"
    fleet.write_text(fleet.read_text().replace("max_unavailable: 1", "max_unavailable: 10%"))
    pipeline = deploying.push(deploying.repository.commit("A budget of nothing"))
    ran = pipeline.jobs["fleetctl-plan"].ran
    assert ran is not None and ran.code != 0, str(ran)
    assert not pipeline.may_start(pipeline.jobs["fleetctl-apply"])
    assert pipeline.may_start(pipeline.jobs["fleetctl-recover"])
    good = deploying.push(commit(deploying, "1.0.0"))
    ran = good.play("fleetctl-recover")
    assert ran.code == 0, str(ran)
    assert "Nothing to recover" in ran.log


def test_jobs_that_act_are_started_by_a_person_and_never_cut_off() -> None:
    document = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))
    for name in ("fleetctl-apply", "fleetctl-recover"):
        job = document[name]
        assert [rule["when"] for rule in job["rules"]] == ["manual"]
        assert job["interruptible"] is False
        assert job["resource_group"] == "fleetctl"
        assert job["environment"] == "production"
