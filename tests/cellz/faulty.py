"""A blob store with faults in front: lost answers, 409, refusals of service, delays. The fake that ships faults."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from fleetctl.cellz.blobs import Blob, Blobs, Busy, Unanswered

# What one call may suffer. "lost" does the work and loses the answer; "failed" does not do the work.
FAULTS = ("lost", "failed", "busy")


class FaultyBlobs:
    """Passes calls on to `inner`, each with the next fault of its plan, if there is one."""

    def __init__(self, inner: Blobs) -> None:
        self.inner = inner
        self.plan: deque[str] = deque()
        self.calls: list[tuple[str, str]] = []
        self._lock = threading.Lock()

    def _suffer(self, what: str, key: str) -> str:
        with self._lock:
            self.calls.append((what, key))
            fault = self.plan.popleft() if self.plan else ""
        if fault == "failed":
            raise Unanswered(f"{what} {key}: failed before it was done")
        if fault == "busy" and what in ("put", "create", "replace"):
            raise Busy(f"{what} {key}: 409")
        return fault

    def _after(self, fault: str, what: str, key: str) -> None:
        if fault == "lost":
            raise Unanswered(f"{what} {key}: done, and the answer lost")

    def get(self, key: str) -> Blob | None:
        fault = self._suffer("get", key)
        found = self.inner.get(key)
        self._after(fault, "get", key)
        return found

    def put(self, key: str, data: bytes) -> str:
        fault = self._suffer("put", key)
        token = self.inner.put(key, data)
        self._after(fault, "put", key)
        return token

    def create(self, key: str, data: bytes) -> str:
        fault = self._suffer("create", key)
        token = self.inner.create(key, data)
        self._after(fault, "create", key)
        return token

    def replace(self, key: str, data: bytes, token: str) -> str:
        fault = self._suffer("replace", key)
        made = self.inner.replace(key, data, token)
        self._after(fault, "replace", key)
        return made

    def delete(self, key: str) -> None:
        fault = self._suffer("delete", key)
        self.inner.delete(key)
        self._after(fault, "delete", key)

    def copy(self, source: str, target: str) -> None:
        fault = self._suffer("copy", source)
        self.inner.copy(source, target)
        self._after(fault, "copy", source)

    def keys(self, prefix: str) -> Iterator[str]:
        self._suffer("keys", prefix)
        return self.inner.keys(prefix)
