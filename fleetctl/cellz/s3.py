"""Blobs in an S3 bucket by conditional writes (If-None-Match, If-Match), over obstore (docs/decisions/0730).

The client's own retries are off: a second try after a lost answer would meet our own first write and read 412
as "another came first". `blobs.write_if` settles that instead.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from fleetctl.cellz.blobs import Blob, Busy, Gone, Refused, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from obstore.store import S3Config, S3Credential

T = TypeVar("T")

_CONNECT_TIMEOUT_S = 3
# Until an answer begins, and between two pieces of it. A large body has to be sent in it too, hence two.
_READ_TIMEOUT_S = 10
_UPLOAD_TIMEOUT_S = 300
_LARGE_BYTES = 1 << 20
_POOL_CONNECTIONS = 32
# What the library says of an answer that is not 2xx; it has no field for it.
_STATUS = re.compile(r"status code: ([0-9]{3})")
_DEBUG = "\n\nDebug source:"
_CODE = re.compile(r"<Code>(\w+)</Code>")
_REFUSED = {"412", "PreconditionFailed"}
_BUSY = {"409", "429", "ConditionalRequestConflict", "OperationAborted", "SlowDown", "TooManyRequests"}


class S3Blobs:
    """Blobs in `bucket`; without keys they come from where boto3 looks for them."""

    def __init__(self, bucket: str, *, endpoint: str, region: str, key_id: str, secret: str) -> None:
        # Given by a function, they are not mixed with what else the environment has (AWS_SESSION_TOKEN).
        given: S3Credential = {"access_key_id": key_id, "secret_access_key": secret, "expires_at": None}
        credentials = (lambda: given) if key_id else _found_credentials()
        place: S3Config = {"virtual_hosted_style_request": False}
        if endpoint:
            place["endpoint"] = endpoint
        if region or endpoint:
            place["region"] = region or "auto"

        def store(read_timeout_s: float) -> S3Store:
            return S3Store(
                bucket,
                config=place,
                client_options={
                    "allow_http": True,
                    "connect_timeout": timedelta(seconds=_CONNECT_TIMEOUT_S),
                    "read_timeout": timedelta(seconds=read_timeout_s),
                    "timeout": timedelta(days=1),
                    "pool_max_idle_per_host": str(_POOL_CONNECTIONS),
                },
                retry_config={"max_retries": 0},
                credential_provider=credentials,
            )

        self._store = store(_READ_TIMEOUT_S)
        self._uploads = store(_UPLOAD_TIMEOUT_S)

    def get(self, key: str) -> Blob | None:
        """Return the object, or None."""
        try:
            return self._call(lambda: self._read(key))
        except Gone:
            return None

    def put(self, key: str, data: bytes) -> str:
        """Write without condition."""
        return self._put(key, data, "overwrite")

    def create(self, key: str, data: bytes) -> str:
        """Write if there is none."""
        return self._put(key, data, "create")

    def replace(self, key: str, data: bytes, token: str) -> str:
        """Write if the object still has this token."""
        return self._put(key, data, {"e_tag": token})

    def delete(self, key: str) -> None:
        """Remove the object if it is there."""
        try:
            self._call(lambda: obstore.delete(self._store, key))
        except Gone:
            return

    def copy(self, source: str, target: str) -> None:
        """Copy an object inside the store."""
        self._write(lambda: obstore.copy(self._store, source, target))

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that start with `prefix`, in order."""
        pages = obstore.list(self._store, prefix=prefix)
        while (page := self._call(lambda: next(pages, None))) is not None:
            yield from (item["path"] for item in page)

    def _read(self, key: str) -> Blob:
        found = obstore.get(self._store, key)
        return Blob(bytes(found.bytes()), str(found.meta["e_tag"]))

    def _put(self, key: str, data: bytes, mode: Any) -> str:
        store = self._uploads if len(data) > _LARGE_BYTES else self._store
        written = self._write(lambda: obstore.put(store, key, data, mode=mode, use_multipart=False))
        return str(written["e_tag"])

    def _call(self, call: Callable[[], T]) -> T:
        """Make a call that is no conditional write: "slow down" is then just no answer."""
        try:
            return self._write(call)
        except Busy as error:
            raise Unanswered(str(error)) from error

    def _write(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except FileNotFoundError as error:
            raise Gone(str(error)) from error
        except BaseError as error:
            raise _answer(str(error).partition(_DEBUG)[0]) from error


def _found_credentials() -> Callable[[], S3Credential]:
    """Return what gives the credentials that boto3 finds, renewed as they expire; raises ValueError for none."""
    import boto3
    from obstore.auth.boto3 import Boto3CredentialProvider

    session = boto3.Session()
    if session.get_credentials() is None:
        raise ValueError(
            "no credentials: set CELLZ_S3_ACCESS_KEY_ID and CELLZ_S3_SECRET_ACCESS_KEY, or a profile, role or "
            "environment of AWS"
        )
    # The provider says that they live this long. Under five minutes it is asked for each call, and boto3 renews in time.
    return Boto3CredentialProvider(session, ttl=timedelta(minutes=1))


def _answer(text: str) -> Exception:
    """Return what an error means; what is not understood may have been done."""
    said = {found[1] for pattern in (_STATUS, _CODE) if (found := pattern.search(text))}
    if said & _BUSY:
        return Busy(text)
    if "404" in said:
        return Gone(text)
    return Refused(text) if said & _REFUSED else Unanswered(text)
