"""The how-to pages about what is shared: a state in a bucket, and a change in a repository. Their commands run."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli import Result, Workspace
from tests.acceptance.repository import GitRepository
from tests.docs.test_how_to_run import commands
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY

BUCKET = "acme-fleets"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Workspace]:
    """Two nodes of `hello` 1.0.0, declared below `fleet/` and not yet there."""
    made = Workspace(tmp_path / "top" / "fleet", count=2)
    made.fleet(reserve=0)
    try:
        yield made
    finally:
        made.close()


def run(fleet: Workspace, line: str, *more: str, cwd: Path | None = None) -> Result:
    """A line of a page, in the folder above the manifests."""
    words = shlex.split(line, comments=True)[1:]
    return fleet.run(*words, *more, cwd=cwd or fleet.path.parent)


@pytest.fixture
def bucket(fleet: Workspace, s3: S3) -> Iterator[str]:
    fleet.env |= {
        "FLEETCTL_STATE_ENDPOINT": s3.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    client = s3.client()
    yield s3.bucket(BUCKET)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for found in page.get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=found["Key"])
    client.delete_bucket(Bucket=BUCKET)


def test_remote_state_page_moves_uses_keeps_and_saves_a_state(fleet: Workspace, bucket: str) -> None:
    apply, migrate, verify, compact, again, backup, restore, qualify = commands("remote-state")
    assert qualify.startswith("fleetctl store qualify"), "measured by the tests of stores"
    fleet.apply()
    for line, more in ((migrate, ("--auto-approve",)), (verify, ())):
        done = run(fleet, line, *more, cwd=fleet.path)
        assert done.code == 0, f"{line}\n{done}"
    applied = run(fleet, apply, "--auto-approve")
    assert applied.code == 0, str(applied)
    assert "No changes" in applied.out, "the state came along"
    fleet.fleet("1.1.0", reserve=0)
    closed = fleet.run("apply", ".", "--auto-approve", "--state", ".fleetctl")
    assert (closed.code, f"s3://{bucket}/edge" in closed.err) == (6, True), str(closed)
    fleet.env["FLEETCTL_STATE"] = f"s3://{bucket}/edge"
    for line in (compact, again, backup, restore):
        done = run(fleet, line, *(("--auto-approve",) if line is restore else ()))
        assert done.code == 0, f"{line}\n{done}"
    assert (fleet.path.parent / "fleets.db").stat().st_mode & 0o777 == 0o600


def test_review_page_compares_as_it_says(fleet: Workspace) -> None:
    top = fleet.path.parent
    repository = GitRepository(top)

    def state_of(version: str) -> None:
        fleet.fleet(version, reserve=0)
        for name in ("fleet.yaml", "releases.yaml"):
            shutil.copy(fleet.path / name, top / name)
        shutil.copytree(fleet.path / "artifacts", top / "artifacts", dirs_exist_ok=True)

    state_of("1.0.0")
    shutil.copytree(fleet.path, top / "then")
    repository.commit({}, "twelve")
    repository.git("tag", "v12")
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    state_of("1.1.0")
    shutil.copytree(fleet.path, top / "now")
    repository.commit({}, "thirteen")
    repository.git("tag", "v13")
    fleet.apply()
    lines = commands("review-in-pull-requests")
    assert len(lines) >= 10
    for line in lines:
        if "--state" in line:
            line = line.replace("s3://acme-fleets/edge", str(fleet.path / ".fleetctl"))
        file = line.partition(" > ")[2].strip()
        done = run(fleet, line.partition(" > ")[0])
        assert done.code == 0, f"{line}\n{done}"
        if file:
            (top / file).write_text(done.out)
    assert "hello 1.0.0 -> 1.1.0" in (top / "review.md").read_text()
    assert '"version": "2.1.0"' in (top / "review.sarif").read_text()
