"""The GitLab template: its jobs' scripts run as GitLab's runner would run them."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.acceptance.client import ask
from tests.acceptance.pipelines.conftest import Change
from tests.acceptance.pipelines.forge import Forge
from tests.acceptance.pipelines.runner import GITLAB, Runner


def variables(change: Change, comments: Forge) -> dict[str, str]:
    return {
        "CI_API_V4_URL": comments.url,
        "CI_PROJECT_ID": "12",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": change.base,
        "FLEETCTL_PATHS": "fleet",
    }


def test_a_merge_request_is_reviewed_and_its_one_note_is_updated(
    change: Change, comments: Forge, tmp_path: Path
) -> None:
    given = {**variables(change, comments), "FLEETCTL_NOTE_TOKEN": "the-token"}
    for name in ("one", "two"):
        checkout = change.repository.checkout(tmp_path / name, change.head)
        ran = Runner(tmp_path / f"machine-{name}", {}).gitlab(checkout, "fleetctl-review", given)
        assert ran.code == 0, str(ran)
        assert "hello 1.0.0 -> 1.1.0" in (checkout / "review.md").read_text()
    assert comments.writes == [
        "POST /projects/12/merge_requests/7/notes",
        "PUT /projects/12/merge_requests/7/notes/1",
    ]
    assert "hello 1.0.0 -> 1.1.0" in comments.comments[1]
    assert comments.tokens == {"the-token"}


def test_a_refused_change_fails_without_a_token_too(change: Change, comments: Forge, tmp_path: Path) -> None:
    change.repository.workspace.fleet("2.0.0", reserve=0)
    head = change.repository.commit("2.0.0, which no pair leads to")
    checkout = change.repository.checkout(tmp_path / "one", head)
    ran = Runner(tmp_path / "machine", {}).gitlab(checkout, "fleetctl-review", variables(change, comments))
    assert ran.code == 3, str(ran)
    assert "Refused" in ran.log
    assert comments.writes == []


def test_the_plan_of_one_job_is_what_the_next_applies(
    change: Change, comments: Forge, tmp_path: Path
) -> None:
    checkout = change.repository.checkout(tmp_path / "one", change.head)
    machine = Runner(tmp_path / "machine", {})
    given = variables(change, comments)
    ran = machine.gitlab(checkout, "fleetctl-plan", given)
    assert ran.code == 0, str(ran)
    assert json.loads((checkout / "fleet.plan").read_text())["fleets"][0]["fleet"] == "hello"
    ran = machine.gitlab(checkout, "fleetctl-apply", given)
    ports = change.repository.workspace.ports
    try:
        assert ran.code == 0, str(ran)
        assert [ask(port) for port in ports] == ["1.1.0"] * 2
        ran = machine.gitlab(checkout, "fleetctl-recover", given)
        assert ran.code == 0, str(ran)
        assert "Nothing to recover" in ran.log
    finally:
        change.repository.workspace.run("destroy", str(checkout / "fleet"), "--auto-approve")


def test_jobs_that_act_are_started_by_a_person_and_never_cut_off() -> None:
    document = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))
    for name in ("fleetctl-apply", "fleetctl-recover"):
        job = document[name]
        assert [rule["when"] for rule in job["rules"]] == ["manual"]
        assert job["interruptible"] is False
        assert job["resource_group"]
        assert job["environment"] == "production"
