"""A bucket as the store uses it: read, list, write under a condition, remove. The one module that names boto3.

Credentials and region come from boto3's own chain. Its retries are off: a second try after a lost answer
would meet our own first write and report it as somebody else's; `s3_settle` decides instead. An ETag is an
opaque token for the next conditional write and never taken for a digest of the bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

from executors.clock import Clock
from fleetctl.ledger.ports import StateError
from fleetctl.stores.s3_settle import Answer, Next, Settling, on_answer, wait_s

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5
READ_TIMEOUT_S = 10
POOL_CONNECTIONS = 32
# Reads and lists change nothing, so they are simply tried again.
READ_TRIES = 5

_MISSING = {"404", "NoSuchKey", "NotFound"}
_REFUSED = {"412", "PreconditionFailed"}
_CONFLICT = {"409", "ConditionalRequestConflict", "OperationAborted"}
_DENIED = {
    "401",
    "403",
    "AccessDenied",
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "Forbidden",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
}
_ELSEWHERE = {"IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect"}
# 4xx that say "later", not "no".
_LATER = {"408", "429", "RequestTimeout", "SlowDown", "TooManyRequests"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a state is kept: a bucket, a prefix without a slash at its end, and a compatible store's URL."""

    bucket: str
    prefix: str = ""
    endpoint: str | None = None

    def key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def __str__(self) -> str:
        text = f"s3://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")
        return text if self.endpoint is None else f"{text} at {self.endpoint}"


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's bytes, and the token that a conditional write names it by."""

    data: bytes
    token: str


@dataclass(frozen=True, slots=True)
class Listed:
    """What a listing tells of an object. `name` is relative to the place."""

    name: str
    token: str
    size_b: int


class NoAnswer(Exception):
    """The request was sent or could not be, and nobody knows what came of it."""


class Refusal(Exception):
    """The store answered that it was not done: `answer` says why."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.value)
        self.answer = answer


class Bucket:
    """The objects under one place. Safe for use by several threads; names are relative to the place."""

    def __init__(self, place: Place, clock: Clock) -> None:
        self.place = place
        self._clock = clock
        self._made: Any = None

    def get(self, name: str) -> Stored | None:
        """The object, or None. Raises StateError."""
        return self._retried(partial(self._get, name), f"reading {name}")

    def listing(self, prefix: str, after: str = "") -> list[Listed]:
        """The objects whose names begin with `prefix`, past the name `after`, in order. Raises StateError."""
        return self._retried(lambda: list(self._pages(prefix, after)), f"listing {prefix}")

    def folders(self, prefix: str) -> list[str]:
        """The names directly below `prefix` that have objects below them, in order. Raises StateError."""
        return self._retried(lambda: sorted(self._folders(prefix)), f"listing {prefix}")

    def write_if(
        self, name: str, data: bytes, token: str | None, is_ours: Callable[[bytes], bool] | None = None
    ) -> str | None:
        """Writes when the object still has `token` (None: when there is none); None when somebody else came first.

        `data` must differ from everything ever written under this name, since a lost answer is settled by
        reading back; `is_ours` tells our write from others where it may have become something else meanwhile.
        Raises StateError when the store refuses, or when nobody can say what came of it.
        """
        state = Settling()
        written = ""
        while state.next in (Next.WRITE, Next.READ):
            self._clock.sleep(wait_s(state.call))
            if state.next is Next.WRITE:
                answer, written = self._try_write(name, data, token)
            else:
                answer, written = self._look_for(name, token, is_ours or data.__eq__)
            state = on_answer(state, answer)
        if state.next is Next.WON:
            return written
        if state.next is Next.BEATEN:
            return None
        raise unanswered(self.place, f"writing {name}", doubt=state.doubt)

    def put(self, name: str, data: bytes) -> None:
        """Writes without a condition, for what nobody decides by. Raises StateError."""
        self._retried(partial(self._put, name, data), f"writing {name}")

    def delete(self, name: str) -> None:
        """Removes the object if it is there. Raises StateError."""
        request = {"Bucket": self.place.bucket, "Key": self.place.key(name)}
        self._retried(lambda: self._call(lambda c: c.delete_object(**request)), f"removing {name}")

    def try_put(self, name: str, data: bytes, token: str | None) -> Answer:
        """One conditional write and its plain answer, not settled: for the probe. Raises StateError."""
        return self._try_write(name, data, token)[0]

    # One call each

    def _get(self, name: str) -> Stored | None:
        try:
            found = self._call(lambda c: c.get_object(Bucket=self.place.bucket, Key=self.place.key(name)))
        except Refusal as refusal:
            if refusal.answer is Answer.GONE:
                return None
            raise
        return Stored(self._call(lambda _: found["Body"].read()), found["ETag"])

    def _put(self, name: str, data: bytes, **condition: str) -> str:
        request = {"Bucket": self.place.bucket, "Key": self.place.key(name), "Body": data, **condition}
        return str(self._call(lambda c: c.put_object(**request))["ETag"])

    def _try_write(self, name: str, data: bytes, token: str | None) -> tuple[Answer, str]:
        condition = {"IfNoneMatch": "*"} if token is None else {"IfMatch": token}
        try:
            return Answer.DONE, self._put(name, data, **condition)
        except Refusal as refusal:
            return refusal.answer, ""
        except NoAnswer:
            return Answer.LOST, ""

    def _look_for(self, name: str, token: str | None, is_ours: Callable[[bytes], bool]) -> tuple[Answer, str]:
        try:
            found = self._get(name)
        except (NoAnswer, Refusal):
            return Answer.LOST, ""
        if found is None:
            return (Answer.AS_BEFORE if token is None else Answer.GONE), ""
        if is_ours(found.data):
            return Answer.OURS, found.token
        return (Answer.AS_BEFORE if found.token == token else Answer.THEIRS), ""

    def _pages(self, prefix: str, after: str) -> Iterator[Listed]:
        start, more = self.place.key(""), {"StartAfter": self.place.key(after)} if after else {}
        while True:
            page = self._page(prefix, more)
            for item in page.get("Contents", ()):
                yield Listed(item["Key"].removeprefix(start), item["ETag"], item["Size"])
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _folders(self, prefix: str) -> Iterator[str]:
        start, more = self.place.key(prefix), {"Delimiter": "/"}
        while True:
            page = self._page(prefix, more)
            for item in page.get("CommonPrefixes", ()):
                yield item["Prefix"].removeprefix(start).removesuffix("/")
            if not page.get("IsTruncated"):
                return
            more = {"Delimiter": "/", "ContinuationToken": page["NextContinuationToken"]}

    def _page(self, prefix: str, more: dict[str, str]) -> Any:
        request = {"Bucket": self.place.bucket, "Prefix": self.place.key(prefix), **more}
        return self._call(lambda c: c.list_objects_v2(**request))

    def _retried(self, call: Callable[[], T], what: str) -> T:
        for attempt in range(1, READ_TRIES + 1):
            self._clock.sleep(wait_s(attempt))
            try:
                return call()
            except NoAnswer as e:
                if attempt == READ_TRIES:
                    raise unanswered(self.place, what) from e
            except Refusal as e:
                if attempt == READ_TRIES or e.answer is not Answer.CONFLICT:
                    raise unanswered(self.place, what) from e
        raise AssertionError

    def _call(self, call: Callable[[Any], T]) -> T:
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            HTTPClientError,
            NoCredentialsError,
            ParamValidationError,
            PartialCredentialsError,
            ProfileNotFound,
        )

        try:
            return call(self._client())
        except ClientError as e:
            raise self._translated(e.response) from None
        except (NoCredentialsError, PartialCredentialsError, ProfileNotFound) as e:
            raise StateError(
                f"the state {self.place} cannot be reached: {e}",
                hint="set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or whatever your AWS tools use",
                code="state.no_credentials",
            ) from e
        except ParamValidationError as e:
            raise StateError(
                f"the state {self.place} cannot be used: {str(e).splitlines()[-1]}",
                hint="check the bucket's name; conditional writes need boto3 1.36 or newer",
            ) from e
        except (BotoCoreError, HTTPClientError, OSError) as e:
            raise NoAnswer(str(e)) from e

    def _translated(self, response: Any) -> Exception:
        code = str(response.get("Error", {}).get("Code", ""))
        status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        said = {code, str(status)}
        if code == "NoSuchBucket":
            return StateError(
                f"the state {self.place} cannot be used: there is no such bucket",
                hint="make the bucket first, or check its name and --state-endpoint",
                code="state.no_bucket",
            )
        for answer, words in (
            (Answer.REFUSED, _REFUSED),
            (Answer.CONFLICT, _CONFLICT),
            (Answer.GONE, _MISSING),
        ):
            if said & words:
                return Refusal(answer)
        if said & _DENIED:
            return StateError(
                f"the state {self.place} cannot be used: the store denies it ({code or status})",
                hint="the credentials need to get, put, delete and list objects under the prefix; "
                "docs/how-to/remote-state.md has a policy",
                code="state.denied",
            )
        if status == 501:
            return conditions_ignored(self.place, "it does not implement conditional writes")
        if status >= 500 or said & _LATER:
            return NoAnswer(f"{status} {code}")
        hint = (
            "name the bucket's region: AWS_DEFAULT_REGION"
            if code in _ELSEWHERE or status in (301, 307)
            else None
        )
        return StateError(
            f"the state {self.place} cannot be used: the store answers {status} {code}", hint=hint
        )

    def _client(self) -> Any:
        if self._made is None:
            self._made = _client_of(self.place.endpoint)
        return self._made


@cache
def _client_of(endpoint: str | None) -> Any:
    """One client per endpoint and process: making one reads megabytes of descriptions."""
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1},
        connect_timeout=CONNECT_TIMEOUT_S,
        read_timeout=READ_TIMEOUT_S,
        max_pool_connections=POOL_CONNECTIONS,
        # Trailing checksums are more than many compatible stores understand; ours are in the bodies.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        s3={"addressing_style": "auto" if endpoint is None else "path"},
    )
    return session().client("s3", endpoint_url=endpoint, config=config)


@cache
def session() -> Any:
    """One session a process: it finds the credentials once, and keeps the descriptions that it has read."""
    import boto3

    return boto3.session.Session()


def unanswered(place: Place, what: str, *, doubt: bool = False) -> StateError:
    """The error for a store that does not answer, or keeps answering that it is busy."""
    came = "; it may or may not have been done" if doubt else ""
    return StateError(
        f"the state {place} does not answer: {what} was tried several times{came}",
        hint="check the network and the store; nothing that was recorded is lost",
        code="state.unanswered",
    )


def conditions_ignored(place: Place, how: str) -> StateError:
    """The error for a store that two writers could not share."""
    return StateError(
        f"the state cannot be kept in {place}: {how}",
        hint="without conditional writes two runs could hold one fleet at once. Use a store that honours "
        "If-None-Match and If-Match; `fleetctl store qualify` tells which do",
        code="state.conditions_ignored",
    )
