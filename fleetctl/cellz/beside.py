"""Calls of the blob store at once: where one takes long, those that do not build on one another need not wait."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")

# Calls beside the pool's own; none of them waits for another, so they cannot lock one another out.
_THREADS = 32


class Beside(Protocol):
    """Makes calls of the store beside the caller's own."""

    def __call__(self, call: Callable[[], T]) -> Callable[[], T]:
        """Begin `call`; what is returned waits for its end, and returns or raises what it does."""


def on_threads() -> Beside:
    """Return a Beside of real threads, made as they are needed."""
    executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="cellz-ahead")

    def begin(call: Callable[[], T]) -> Callable[[], T]:
        return executor.submit(call).result

    return begin
