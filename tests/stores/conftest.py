"""An S3 server with a bucket for states, and credentials in the environment as boto3 looks for them."""

from __future__ import annotations

import pytest

from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY


@pytest.fixture(scope="session")
def s3_bucket(s3: S3) -> S3:
    s3.bucket("states")
    return s3


@pytest.fixture
def s3_states(s3_bucket: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """A server with the bucket `states`."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return s3_bucket
