"""Two folders with the same manifests that share nothing but a bucket and the machines they manage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from tests.acceptance.cli import Workspace
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY

BUCKET = "acceptance"
PREFIXES = count(1)


class Folder(Workspace):
    """A workspace whose localhost keeps its nodes in `machine`, wherever the manifests lie."""

    machine: Path

    def write_releases(self) -> None:
        super().write_releases()
        path = self.path / "releases.yaml"
        path.write_text(path.read_text().replace("root: ./host", f"root: {self.machine}"))


@dataclass
class Shared:
    """A state in a bucket, and folders that use it."""

    path: Path
    server: S3
    prefix: str
    made: list[Folder]

    @property
    def state(self) -> str:
        return f"s3://{BUCKET}/{self.prefix}"

    @property
    def env(self) -> dict[str, str]:
        """What a pipeline would set."""
        return {
            "FLEETCTL_STATE": self.state,
            "FLEETCTL_STATE_ENDPOINT": self.server.endpoint,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def folder(self, name: str) -> Folder:
        """A fresh folder with the manifests, nothing else."""
        Folder.machine = self.path / "machine"
        made = Folder(self.path / name, env=self.env)
        if self.made:
            made.port = self.made[0].port
        self.made.append(made)
        made.fleet()
        return made

    def objects(self, part: str = "") -> dict[str, bytes]:
        """Every object of the state by its name below the prefix."""
        client = self.server.client()
        pages = client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{self.prefix}/{part}"
        )
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return {
            k.removeprefix(f"{self.prefix}/"): client.get_object(Bucket=BUCKET, Key=k)["Body"].read()
            for k in keys
        }


@pytest.fixture(scope="session")
def bucket(s3: S3) -> S3:
    s3.bucket(BUCKET)
    return s3


@pytest.fixture
def shared(bucket: S3, tmp_path: Path) -> Iterator[Shared]:
    made = Shared(tmp_path, bucket, f"t{os.getpid()}/{next(PREFIXES)}", [])
    try:
        yield made
    finally:
        for folder in made.made:
            for process in folder.started:
                if process.poll() is None:
                    process.kill()
                process.wait(10)
        # Nodes run out of the machine's folder, whoever started them.
        sweeper = Workspace(tmp_path / "machine", env={})
        sweeper.close()
