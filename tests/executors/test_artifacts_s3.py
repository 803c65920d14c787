"""Artifacts out of a bucket: the pin is of the bytes, whatever the store says of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from executors.artifacts import ArtifactError, fetch
from executors.clock import SystemClock
from executors.pins import digest_now
from planner.spec import ArtifactPin
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY

DATA = b"the bytes that run\n" * 400_000
PART_B = 5 * 2**20


@pytest.fixture
def server(s3: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": s3.endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    s3.bucket("artifacts")
    return s3


def pin(source: str, data: bytes = DATA) -> ArtifactPin:
    return ArtifactPin(source=source, digest=f"sha256:{hashlib.sha256(data).hexdigest()}", name="app")


def test_an_object_sent_in_parts_is_kept_by_its_own_digest(server: S3, tmp_path: Path) -> None:
    """Its ETag is no MD5 of it and ends in -2 (Q7)."""
    client = server.client()
    key = "hello/app 1.0"
    upload = client.create_multipart_upload(Bucket="artifacts", Key=key)["UploadId"]
    parts = []
    for n, data in enumerate((DATA[:PART_B], DATA[PART_B:]), 1):
        done = client.upload_part(Bucket="artifacts", Key=key, UploadId=upload, PartNumber=n, Body=data)
        parts.append({"ETag": done["ETag"], "PartNumber": n})
    client.complete_multipart_upload(
        Bucket="artifacts",
        Key=key,
        UploadId=upload,
        MultipartUpload={"Parts": parts},  # type: ignore[typeddict-item]
    )
    assert client.head_object(Bucket="artifacts", Key=key)["ETag"].strip('"').endswith("-2")
    assert fetch(pin("s3://artifacts/hello/app%201.0"), tmp_path).read_bytes() == DATA
    assert digest_now("s3://artifacts/hello/app%201.0", SystemClock()) == pin("x").digest


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("s3://artifacts/none", "artifact.missing"),
        ("s3://no-such-bucket/none", "artifact.missing"),
        ("s3://artifacts/", "artifact.unusable"),
        ("s3://artifacts/other", "artifact.digest_mismatch"),
    ],
)
def test_what_is_not_there_or_not_the_pinned_one_leaves_nothing(
    server: S3, tmp_path: Path, source: str, code: str
) -> None:
    server.client().put_object(Bucket="artifacts", Key="other", Body=b"other bytes")
    with pytest.raises(ArtifactError) as caught:
        fetch(pin(source), tmp_path)
    assert caught.value.code == code
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []
