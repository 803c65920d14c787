"""Drains by a call to the node: made once, awaited by `until`, and looked up by it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executors.outcome import Outcome
from manifests.schema.fleet import CommandProbe, Drain, DrainCall, Drained, HttpProbe
from planner.plan import StepKind
from tests.executors.places import HostPlace, Node, free_port

UID = "dddddddddddddddd"


class Server(http.server.ThreadingHTTPServer):
    """A node's drain as the test wants it: `status` of the call, and how many looks until it has drained."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.asked: list[str] = []
        self.status, self.looks_left, self.silent = 202, 2, False
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.server.asked.append(f"POST {self.path}")
        if self.server.silent:
            self.close_connection = True
            self.connection.shutdown(2)
            return
        self._answer(self.server.status)

    def do_GET(self) -> None:
        self.server.asked.append(f"GET {self.path}")
        self.server.looks_left -= 1
        self._answer(204 if self.server.looks_left < 0 else 503)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(free_port())
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlace]:
    place = HostPlace(tmp_path / "root")
    yield place
    place.close()


def said(outcome: Outcome) -> tuple[str, str]:
    return outcome.state.value, outcome.code


def drained(place: HostPlace, drain: Drain) -> tuple[Node, Outcome]:
    node = Node(place, UID)
    node.spec = place.spec(UID, drain=drain)
    return node, node.do(StepKind.DRAIN)


def by_http(server: Server, *, until: bool = True, timeout: int = 10_000) -> Drain:
    port = server.server_address[1]
    end = Drained(http=HttpProbe(path="/open", port=port)) if until else None
    call = DrainCall(path="/drain", port=port)
    return Drain.model_construct(signal="TERM", timeout=timeout, http=call, command=None, until=end)


def test_the_call_is_made_once_and_its_end_awaited(place: HostPlace, server: Server) -> None:
    _, outcome = drained(place, by_http(server))
    assert said(outcome) == ("succeeded", "drain.drained")
    assert server.asked == ["POST /drain", "GET /open", "GET /open", "GET /open"]


def test_without_until_the_answer_is_the_end(place: HostPlace, server: Server) -> None:
    assert said(drained(place, by_http(server, until=False))[1]) == ("succeeded", "drain.asked")


def test_a_refusal_fails_and_nothing_is_awaited(place: HostPlace, server: Server) -> None:
    server.status = 500
    _, outcome = drained(place, by_http(server))
    assert said(outcome) == ("failed", "drain.refused")
    assert "500" in outcome.detail
    assert server.asked == ["POST /drain"]


def test_a_node_that_nobody_can_connect_to_was_sent_nothing(place: HostPlace, server: Server) -> None:
    drain = by_http(server)
    server.shutdown()
    server.server_close()
    _, outcome = drained(place, drain)
    assert said(outcome) == ("failed", "drain.refused")
    assert outcome.evidence["performed"] == 0


def test_past_its_timeout_the_stop_follows_all_the_same(place: HostPlace, server: Server) -> None:
    server.looks_left = 1_000_000
    _, outcome = drained(place, by_http(server, timeout=600))
    assert said(outcome) == ("succeeded", "drain.timed_out")
    assert "within 0.6 s" in outcome.detail


def test_a_lost_answer_is_told_by_until_and_unknown_without_it(place: HostPlace, server: Server) -> None:
    server.silent = True
    _, outcome = drained(place, by_http(server))
    assert said(outcome) == ("succeeded", "drain.drained")
    node, outcome = drained(place, by_http(server, until=False))
    assert said(outcome) == ("unknown", "drain.no_answer")
    assert said(node.driver.lookup(node.operation(StepKind.DRAIN))) == ("unknown", "drain.no_trace")


def test_a_lookup_asks_until_and_calls_nothing(place: HostPlace, server: Server) -> None:
    node = Node(place, UID)
    node.spec = place.spec(UID, drain=by_http(server))
    lost = node.operation(StepKind.DRAIN)
    server.looks_left = 1
    assert said(node.driver.lookup(lost)) == ("unknown", "drain.not_yet")
    assert said(node.driver.lookup(lost)) == ("succeeded", "drain.found")
    assert server.asked == ["GET /open", "GET /open"]


def test_a_command_runs_on_the_host_once_and_its_exit_is_recorded(place: HostPlace) -> None:
    node = Node(place, UID)
    count = place.root / "nodes" / UID / "count"
    command = CommandProbe(command=("sh", "-c", "printf x >>count"))
    node.spec = place.spec(
        UID, drain=Drain.model_construct(signal="TERM", timeout=9_000, http=None, command=command, until=None)
    )
    node.do(StepKind.CREATE)
    asked = node.operation(StepKind.DRAIN)
    for _ in range(3):
        assert said(node.driver.perform(asked, {})) == ("succeeded", "hook.done")
    assert said(node.driver.lookup(asked)) == ("succeeded", "hook.done")
    assert count.read_text() == "x"
    other = node.operation(StepKind.DRAIN, operation_id="another")
    assert said(node.driver.lookup(other)) == ("failed", "hook.not_performed")
    assert count.read_text() == "x"


def test_a_command_is_awaited_by_another(place: HostPlace) -> None:
    node = Node(place, UID)
    drain = Drain.model_construct(
        signal="TERM",
        timeout=9_000,
        http=None,
        command=CommandProbe(command=("sh", "-c", "echo >asked")),
        until=Drained(command=CommandProbe(command=("sh", "-c", "test -e asked"))),
    )
    node.spec = place.spec(UID, drain=drain)
    node.do(StepKind.CREATE)
    assert said(node.do(StepKind.DRAIN)) == ("succeeded", "drain.drained")
