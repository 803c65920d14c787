"""An artifact out of a bucket: s3://BUCKET/KEY, by boto3's own chain of credentials, region and endpoint.

The pin is of the bytes. What a bucket says of them (an ETag, a checksum) is not asked: an ETag of an object
that was sent in parts or encrypted is no digest of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from executors.artifacts import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, ArtifactError
from executors.clock import Clock

# Each try asks for the object from its beginning; what a broken one brought is thrown away.
_TRIES = 3
_MISSING = {"404", "NoSuchKey", "NoSuchBucket"}


def download(url: str, clock: Clock, deadline_s: float, chunk_b: int) -> Iterator[bytes]:
    """The object's bytes in pieces. Raises ArtifactError as `artifacts.fetch` says."""
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not bucket or not key:
        raise ArtifactError(f"the artifact {url} names no object", hint="write s3://BUCKET/KEY")
    deadline = clock.monotonic() + deadline_s
    try:
        found = _client().get_object(Bucket=bucket, Key=unquote(key))
        for chunk in found["Body"].iter_chunks(chunk_b):
            if clock.monotonic() > deadline:
                raise ArtifactError(
                    f"the artifact {url} did not arrive within {deadline_s:g} s", code="artifact.interrupted"
                )
            yield chunk
    except ClientError as e:
        raise _refused(url, e.response) from None
    except (BotoCoreError, HTTPClientError, OSError, ValueError) as e:
        raise ArtifactError(
            f"the download of {url} was interrupted: {str(e) or type(e).__name__}",
            code="artifact.interrupted",
            hint="nothing of it is kept; check the AWS settings (credentials, region, AWS_ENDPOINT_URL_S3), and "
            "run the command again",
        ) from e


def _client() -> Any:
    import boto3
    from botocore.config import Config

    return boto3.session.Session().client(
        "s3",
        config=Config(
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            response_checksum_validation="when_required",
        ),
    )


def _refused(url: str, response: Any) -> ArtifactError:
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    if code in _MISSING or status == 404:
        return ArtifactError(f"the artifact {url} is not there ({code})", code="artifact.missing")
    return ArtifactError(
        f"the artifact {url} cannot be fetched: the store answers {status} {code}",
        code="artifact.unreadable",
        hint="the credentials need s3:GetObject for it",
    )
