"""An S3 server on loopback, in this process: moto's, with conditional writes."""

from __future__ import annotations

import contextlib
import importlib.util
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
        """Make a bucket and return its name."""
        self.client().create_bucket(Bucket=name)
        return name


@contextlib.contextmanager
def s3_server() -> Iterator[S3]:
    """Run a server for the time of the block. All servers of one process share their buckets."""
    from moto.server import ThreadedMotoServer

    port = free_port()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        yield S3(f"http://127.0.0.1:{port}")
    finally:
        server.stop()
