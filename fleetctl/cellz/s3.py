"""Blobs in an S3 bucket by conditional writes (If-None-Match, If-Match).

botocore's own retries are off: a second try after a lost answer would meet our own first write and read 412
as "another came first". `blobs.write_if` settles that instead.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fleetctl.cellz.blobs import Blob, Busy, Gone, Refused, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CONNECT_TIMEOUT_S = 3
_READ_TIMEOUT_S = 10
_POOL_CONNECTIONS = 32
_MISSING = {"404", "NoSuchKey", "NotFound"}
_REFUSED = {"412", "PreconditionFailed"}
_BUSY = {"409", "ConditionalRequestConflict", "OperationAborted", "SlowDown", "429", "TooManyRequests"}


class S3Blobs:
    """Blobs in `bucket`; arguments as boto3 takes them, empty ones left to its own chain."""

    def __init__(self, bucket: str, *, endpoint: str, region: str, key_id: str, secret: str) -> None:
        import boto3
        import botocore.session
        from botocore.config import Config

        self.bucket = bucket
        session = botocore.session.get_session()
        # Nothing here reads the time of an object, and to parse it is a tenth of a call.
        session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
        self._client: Any = boto3.session.Session(botocore_session=session).client(
            "s3",
            endpoint_url=endpoint or None,
            region_name=region or "auto",
            aws_access_key_id=key_id or None,
            aws_secret_access_key=secret or None,
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=_CONNECT_TIMEOUT_S,
                read_timeout=_READ_TIMEOUT_S,
                max_pool_connections=_POOL_CONNECTIONS,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "path"},
            ),
        )
        self._client.meta.events.register("before-sign.s3.PutObject", _send_at_once)

    def get(self, key: str) -> Blob | None:
        """Return the object, or None."""
        try:
            found = self._call(lambda: self._client.get_object(Bucket=self.bucket, Key=key))
            return Blob(self._call(found["Body"].read), found["ETag"])
        except Gone:
            return None

    def put(self, key: str, data: bytes) -> str:
        """Write without condition."""
        return self._put(key, data)

    def create(self, key: str, data: bytes) -> str:
        """Write if there is none."""
        return self._put(key, data, IfNoneMatch="*")

    def replace(self, key: str, data: bytes, token: str) -> str:
        """Write if the object still has this token."""
        return self._put(key, data, IfMatch=token)

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        self._call(lambda: self._client.delete_object(Bucket=self.bucket, Key=key))

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store."""
        origin = {"Bucket": self.bucket, "Key": source}
        self._write(lambda: self._client.copy_object(Bucket=self.bucket, Key=target, CopySource=origin))

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with `prefix`, in order."""
        more: dict[str, str] = {}
        while True:
            page = self._call(
                partial(self._client.list_objects_v2, Bucket=self.bucket, Prefix=prefix, **more)
            )
            yield from (item["Key"] for item in page.get("Contents", ()))
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _put(self, key: str, data: bytes, **condition: str) -> str:
        answer = self._write(
            lambda: self._client.put_object(Bucket=self.bucket, Key=key, Body=data, **condition)
        )
        return str(answer["ETag"])

    def _call(self, call: Callable[[], Any]) -> Any:
        """Make a call that is no conditional write: "slow down" is then just no answer."""
        try:
            return self._write(call)
        except Busy as error:
            raise Unanswered(str(error)) from error

    def _write(self, call: Callable[[], Any]) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        try:
            return call()
        except ClientError as error:
            raise _answer(error.response) from error
        except (BotoCoreError, HTTPClientError, OSError) as error:
            raise Unanswered(str(error)) from error


def _send_at_once(request: Any, **_: object) -> None:
    """Let the body go with its request: to ask first ("Expect: 100-continue") is a round trip more."""
    del request.headers["Expect"]


def _answer(response: Any) -> Exception:
    """Return what an error response means; what is not understood may have been done."""
    code = str(response.get("Error", {}).get("Code", ""))
    status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
    if code in _MISSING or status == "404":
        return Gone(code)
    if code in _REFUSED or status == "412":
        return Refused(code)
    if code in _BUSY or status in ("409", "429"):
        return Busy(code)
    return Unanswered(f"{status} {code}")
