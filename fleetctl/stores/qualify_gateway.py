"""One way to an object store, for qualifying it: each call is one request, its answer classified and counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import Any, TypeVar

from executors.clock import Clock
from fleetctl.stores.s3_bucket import CONNECT_TIMEOUT_S, READ_TIMEOUT_S, session

T = TypeVar("T")


class Outcome(StrEnum):
    """What a request came to. A conflict is a loser only when the winner can be seen."""

    COMMIT = "commit"
    LOSER = "loser"
    CONFLICT = "conflict"
    DENIED = "auth_denied"
    MISSING = "missing"
    UNKNOWN = "unknown"


_DENIED = {"AccessDenied", "InvalidAccessKeyId", "ExpiredToken", "SignatureDoesNotMatch", "Forbidden"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A request's outcome, how long it took, and what it brought."""

    outcome: Outcome
    took_ms: float
    data: bytes = b""
    token: str = ""
    said: str = ""


class Counter:
    """Counts what was asked for and what was really sent."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.cases = 0
        self.requests = 0

    def case(self) -> None:
        with self._lock:
            self.cases += 1

    def request(self, **_: Any) -> None:
        with self._lock:
            self.requests += 1


class Gateway:
    """A bucket through one endpoint. `credentials` (key id, secret) stand in for boto3's own chain."""

    def __init__(
        self,
        bucket: str,
        endpoint: str | None,
        clock: Clock,
        counter: Counter,
        *,
        connections: int,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        from botocore.config import Config

        self.bucket = bucket
        self._clock = clock
        self._counter = counter
        key_id, secret = credentials or (None, None)
        self._client: Any = session().client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                max_pool_connections=connections,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                s3={"addressing_style": "auto" if endpoint is None else "path"},
                signature_version="s3v4",
            ),
        )
        self._client.meta.events.register("before-send.s3", counter.request)

    def create(self, key: str, data: bytes) -> Answer:
        return self._put(key, data, IfNoneMatch="*")

    def overwrite(self, key: str, data: bytes, token: str) -> Answer:
        return self._put(key, data, IfMatch=token)

    def put(self, key: str, data: bytes) -> Answer:
        return self._put(key, data)

    def get(self, key: str) -> Answer:
        def call() -> tuple[bytes, str]:
            found = self._client.get_object(Bucket=self.bucket, Key=key)
            return found["Body"].read(), found["ETag"]

        return self._asked(call)

    def head(self, key: str) -> Answer:
        return self._asked(lambda: (b"", self._client.head_object(Bucket=self.bucket, Key=key)["ETag"]))

    def delete(self, key: str) -> Answer:
        def call() -> tuple[bytes, str]:
            self._client.delete_object(Bucket=self.bucket, Key=key)
            return b"", ""

        return self._asked(call)

    def keys(self, prefix: str) -> list[str] | None:
        """The keys below a prefix; None when they cannot be had."""
        found: list[str] = []
        more: dict[str, str] = {}
        while True:
            pages: list[Any] = []

            def call(pages: list[Any] = pages, more: dict[str, str] = more) -> tuple[bytes, str]:
                pages.append(self._client.list_objects_v2(Bucket=self.bucket, Prefix=prefix, **more))
                return b"", ""

            if self._asked(call).outcome is not Outcome.COMMIT:
                return None
            found += [item["Key"] for item in pages[0].get("Contents", ())]
            if not pages[0].get("IsTruncated"):
                return found
            more = {"ContinuationToken": pages[0]["NextContinuationToken"]}

    def link(self, key: str, lifetime_s: int) -> str:
        """A signed URL that reads the object for so long."""
        request = {"Bucket": self.bucket, "Key": key}
        return str(self._client.generate_presigned_url("get_object", request, ExpiresIn=lifetime_s))

    def _put(self, key: str, data: bytes, **condition: str) -> Answer:
        def call() -> tuple[bytes, str]:
            done = self._client.put_object(Bucket=self.bucket, Key=key, Body=data, **condition)
            return b"", done["ETag"]

        return self._asked(call)

    def _asked(self, call: Callable[[], tuple[bytes, str]]) -> Answer:
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        self._counter.case()
        began_s = self._clock.monotonic()
        outcome, data, token, said = Outcome.COMMIT, b"", "", ""
        try:
            data, token = call()
        except ClientError as e:
            outcome, said = _classified(e.response)
        except (BotoCoreError, HTTPClientError, OSError) as e:
            outcome, said = Outcome.UNKNOWN, str(e)
        return Answer(outcome, 1000 * (self._clock.monotonic() - began_s), data, token, said)


def _classified(response: Any) -> tuple[Outcome, str]:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    code = str(response.get("Error", {}).get("Code", ""))
    said = f"{status} {code}"
    if status == 412 and code in ("PreconditionFailed", "412"):
        return Outcome.LOSER, said
    if status == 409 and code in ("ConditionalRequestConflict", "409"):
        return Outcome.CONFLICT, said
    if status in (401, 403) or code in _DENIED:
        return Outcome.DENIED, said
    if status == 404:
        return Outcome.MISSING, said
    return Outcome.UNKNOWN, said
