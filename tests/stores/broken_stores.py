"""Five object stores that break one promise each, as servers in front of a sound one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from tests.stores import s3_faults as f


def _ignored_if_none_match(gateways: int) -> list[f.Fault]:
    """Every create wins."""
    return [lambda request, forward: forward(request.without_conditions("if-none-match"))] * gateways


def _ignored_if_match(gateways: int) -> list[f.Fault]:
    """Every overwrite wins, however stale its token."""
    return [lambda request, forward: forward(request.without_conditions("if-match"))] * gateways


def _gateway_local_locking(gateways: int) -> list[f.Fault]:
    """Each gateway judges by the writes that went through itself."""

    def gateway() -> f.Fault:
        lock = threading.Lock()
        known: dict[str, str] = {}

        def fault(request: f.Request, forward: f.Forward) -> f.Response:
            if request.method == "GET" and request.name not in known:
                answer = forward(request)
                known.setdefault(request.name, answer.headers.get("ETag", ""))
                return answer
            if request.method != "PUT":
                return forward(request)
            with lock:
                taken = known.get(request.name)
                if "if-none-match" in request.headers and taken:
                    return f.error(412, "PreconditionFailed")
                if "if-match" in request.headers and taken and request.headers["if-match"] != taken:
                    return f.error(412, "PreconditionFailed")
                answer = forward(request.without_conditions("if-none-match", "if-match"))
                known[request.name] = answer.headers.get("ETag", "")
                return answer

        return fault

    return [gateway() for _ in range(gateways)]


def _stale_first_read(gateways: int) -> list[f.Fault]:
    """The first read after an overwrite still gives what was there before."""
    lock = threading.Lock()
    before: dict[str, f.Response] = {}

    def fault(request: f.Request, forward: f.Forward) -> f.Response:
        if request.method == "PUT" and "if-match" in request.headers:
            old = forward(f.Request("GET", request.path, _plain(request), b""))
            answer = forward(request)
            if answer.status == 200:
                with lock:
                    before[request.name] = old
            return answer
        if request.method == "GET":
            with lock:
                old_answer = before.pop(request.name, None)
            if old_answer is not None:
                return old_answer
        return forward(request)

    return [fault] * gateways


def _plain(request: f.Request) -> dict[str, str]:
    """Headers of a read; moto does not check who signed."""
    return {k: v for k, v in request.headers.items() if k in ("authorization", "x-amz-date")}


def _misleading_outcome(gateways: int) -> list[f.Fault]:
    """Some winners are told that they lost."""
    lock = threading.Lock()
    won = [0]

    def fault(request: f.Request, forward: f.Forward) -> f.Response:
        answer = forward(request)
        if request.method == "PUT" and request.conditional and answer.status == 200:
            with lock:
                won[0] += 1
                lie = won[0] % 2 == 0
            if lie:
                return f.error(412, "PreconditionFailed")
        return answer

    return [fault] * gateways


BROKEN: dict[str, Callable[[int], list[f.Fault]]] = {
    "ignored-if-none-match": _ignored_if_none_match,
    "ignored-or-stale-if-match": _ignored_if_match,
    "gateway-local-locking": _gateway_local_locking,
    "stale-first-read": _stale_first_read,
    "misleading-outcome": _misleading_outcome,
}


@contextmanager
def gateways(target: str, faults: list[f.Fault]) -> Iterator[list[str]]:
    """One server for each fault, all in front of the same store."""
    with ExitStack() as stack:
        yield [stack.enter_context(f.proxy(target, f.Faults(always=fault))) for fault in faults]
