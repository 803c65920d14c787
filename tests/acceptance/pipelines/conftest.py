"""A repository of two revisions: one node of hello 1.0.0, and the change to 1.1.0. And what runners have around them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace
from tests.acceptance.pipelines.forge import Forge, forge
from tests.acceptance.pipelines.project import Project, project
from tests.acceptance.pipelines.repository import Repository
from tests.lab.package_index import fetched
from tests.lab.process import LabError
from tests.lab.s3 import S3

# The bucket that the examples and the pages speak of.
BUCKET = "acme-fleets"


@dataclass
class Change:
    """A pull request: from the commit `base` to `head`."""

    repository: Repository
    base: str
    head: str


@pytest.fixture
def change(tmp_path: Path) -> Iterator[Change]:
    root = tmp_path / "upstream"
    workspace = Workspace(root / "fleet", count=2)
    repository = Repository.of(root, workspace)
    workspace.fleet(reserve=0)
    base = repository.commit("Two nodes of 1.0.0")
    workspace.fleet("1.1.0", reserve=0)
    yield Change(repository, base, repository.commit("1.1.0"))
    workspace.close()


@pytest.fixture
def comments() -> Iterator[Forge]:
    with forge() as made:
        yield made


@pytest.fixture
def bucket(s3: S3) -> Iterator[str]:
    """The examples' bucket, empty before and gone after."""
    client = s3.client()
    yield s3.bucket(BUCKET)
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for found in page.get("Contents", ()):
            client.delete_object(Bucket=BUCKET, Key=found["Key"])
    client.delete_bucket(Bucket=BUCKET)


@pytest.fixture(scope="session")
def this_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """This project in a repository of its own, as it is now."""
    return project(tmp_path_factory.mktemp("project") / "fleetctl")


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings with which pip can install this project here."""
    try:
        return fetched(tmp_path_factory.mktemp("packages"))
    except LabError as error:
        pytest.skip(f"package index: {error}")
