"""The how-to pages about what is shared: a state in a bucket, and a change in a repository. Their commands run."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.repository import GitRepository
from tests.docs.reader import Reader, follows
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY
from tests.stores import s3_faults as f
from tests.stores.broken_stores import gateways

BUCKET = "acme-fleets"
SCRATCH = "scratch"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Workspace]:
    """Two nodes of `hello` 1.0.0, declared below `fleet/` and not yet there."""
    made = Workspace(tmp_path / "top" / "fleet", count=2)
    made.fleet(reserve=0)
    try:
        yield made
    finally:
        made.close()


def empty(s3: S3, bucket: str) -> None:
    client = s3.client()
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for found in page.get("Contents", ()):
            client.delete_object(Bucket=bucket, Key=found["Key"])


@pytest.fixture
def buckets(fleet: Workspace, s3: S3) -> Iterator[S3]:
    """The page's buckets, and the variables by which a reader has them."""
    fleet.env |= {
        "FLEETCTL_STATE_ENDPOINT": s3.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name in (BUCKET, SCRATCH):
        s3.bucket(name)
    yield s3
    for name in (BUCKET, SCRATCH):
        empty(s3, name)
        s3.client().delete_bucket(Bucket=name)


def guarded(request: f.Request, forward: f.Forward) -> f.Response:
    """A store's gateway that lets in whom it knows, in time, and to its own bucket."""
    query = parse_qs(urlsplit(request.path).query)
    signed = request.headers.get("authorization", "") + "".join(query.get("X-Amz-Credential", []))
    known = ACCESS_KEY in signed and "X-Amz-Expires" not in query
    if known and request.path.startswith(f"/{SCRATCH}"):
        return forward(request)
    return f.error(403, "AccessDenied")


@follows("docs/how-to/remote-state.md")
def test_remote_state_page_moves_uses_keeps_saves_and_qualifies(
    reader: Reader, fleet: Workspace, buckets: S3
) -> None:
    reader.env = fleet.env
    reader.path = fleet.path.parent
    reader.run("fleetctl apply fleet/ --state", typed=["yes"])
    # Its next part is for somebody who has begun in a folder instead.
    fleet.ok("destroy", ".", "--auto-approve", "--state", f"s3://{BUCKET}/edge")
    empty(buckets, BUCKET)
    reader.path = fleet.path
    fleet.apply()
    reader.run("fleetctl state migrate", typed=["yes"])
    reader.run("fleetctl state verify --state")
    applied = fleet.run("apply", ".", "--auto-approve", "--state", f"s3://{BUCKET}/edge")
    assert "No changes" in applied.out, f"the state came along: {applied}"
    fleet.fleet("1.1.0", reserve=0)
    closed = fleet.run("apply", ".", "--auto-approve", "--state", ".fleetctl")
    assert (closed.code, f"s3://{BUCKET}/edge" in closed.err) == (6, True), str(closed)
    reader.env["FLEETCTL_STATE"] = f"s3://{BUCKET}/edge"
    reader.run("fleetctl state compact")
    reader.run("fleetctl state verify")
    reader.run("fleetctl state backup")
    assert (reader.path / "fleets.db").stat().st_mode & 0o777 == 0o600
    reader.run("fleetctl state restore", typed=["yes"])
    with gateways(buckets.endpoint, [guarded, guarded]) as (a, b):
        reader.put("https://a.store.internal:9000", a)
        reader.put("https://b.store.internal:9000", b)
        # What takes an hour, or a machine of one's own, is left out; the page's quick look is run as it stands.
        fewer = "--rounds 10 --warmups 1 --without parameters --without latency"
        assert "PASS     s3.denials" in reader.run("fleetctl store qualify", more=fewer)
        assert "PASS     s3.create_races" in reader.run("fleetctl store qualify")


@follows("docs/how-to/review-in-pull-requests.md")
def test_review_page_compares_as_it_says(reader: Reader, fleet: Workspace, buckets: S3) -> None:
    top = reader.path = fleet.path.parent
    reader.env = {**fleet.env, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
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
    fleet.apply("--state", f"s3://{BUCKET}/edge")
    assert len(reader.left()) >= 10
    reader.run_rest()
    assert "hello 1.0.0 -> 1.1.0" in (top / "review.md").read_text()
    assert '"version": "2.1.0"' in (top / "review.sarif").read_text()
