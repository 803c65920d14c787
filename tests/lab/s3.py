"""An S3 server: moto's on loopback, in this process, or the real one that LAB_S3_ENDPOINT names.

Both are signed for with "laboratory", key and secret. The real one's buckets stay.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.lab.process import free_port

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

REGION = "us-east-1"
ACCESS_KEY = SECRET_KEY = "laboratory"


def missing() -> str | None:
    """Why no S3 server can be had here, in one line, or None."""
    if importlib.util.find_spec("moto") is None or importlib.util.find_spec("flask") is None:
        return "not installed: moto[server]; run `make env`"
    return None


def real() -> str:
    """Return the address of the real server that was named, or nothing."""
    return os.environ.get("LAB_S3_ENDPOINT", "")


@dataclass(frozen=True)
class S3:
    """A running server: where it is and with what to sign."""

    endpoint: str
    region: str = REGION
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY

    def client(self) -> S3Client:
        """A boto3 client of this server."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
        )

    def bucket(self, name: str) -> str:
        """Make a bucket, or take the one that an earlier run left on a real server, and return its name."""
        client = self.client()
        with contextlib.suppress(client.exceptions.BucketAlreadyOwnedByYou):
            client.create_bucket(Bucket=name)
        if self.endpoint == real():
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=name):
                for item in page.get("Contents", ()):
                    client.delete_object(Bucket=name, Key=item["Key"])
        return name


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """Give a server for the time of the block. All servers of one process share their buckets."""
    if real():
        yield S3(real())
        return
    from moto.server import ThreadedMotoServer

    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        yield S3(f"http://127.0.0.1:{port}")
    finally:
        server.stop()
