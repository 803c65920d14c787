"""Events for machines: each is of a type that is written down, and a slow reader of them holds up nobody."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from executors.clock import SystemClock
from fleetctl.cli.views import events
from fleetctl.cli.views.event_log import EventLog, EventsError
from fleetctl.cli.views.event_types import ENVELOPE, EVENTS, schema
from fleetctl.engine.events import Report
from tests.acceptance.cli import wait_for
from tests.cli import write_events

VALIDATOR = Draft202012Validator(schema())
STEP = {"step": "stop", "host": "h1", "generation": 2, "attempt": 1}
COUNTS = {"available": 2, "count": 3, "floor": 2, "reserve": 1}
REPORTS = [
    Report("run", None, "run r", facts={"run": "r", "command": "apply", "resumed": False, "done": ["web-0"]}),
    Report("step", None, "bringing x", 1.0, {"step": "stage", "host": "h1", "state": "begun"}),
    Report("step", "web-1", "stop begins", 1.0, {**STEP, "state": "begun"}),
    Report("step", "web-1", "stop done", facts={**STEP, "state": "done"}),
    Report("step", "web-1", "stop: the answer was lost", facts={**STEP, "state": "lost"}),
    Report("answer", None, "12 of 40 MiB", facts={"host": "h1"}),
    Report("answer", "web-1", "503", facts={"state": "failing", "passed": 0, "wanted": 2}),
    Report("healthy", "web-1", "healthy after 1 s", facts={"took_s": 1.0, "answer": "200"}),
    Report("failed", "web-1", "no", facts={"step": "verify", "host": "h1", "why": "no", "waited_s": 1.5}),
    Report("evidence", "web-1", "", facts={"state": "exited", "exit_code": 3, "detail": "", "log": "a\nb"}),
    Report(
        "availability",
        None,
        "2 of 3",
        facts={**COUNTS, "under_way": 1, "wave": 1, "reverting": False, "scopes": {"group/web": COUNTS}},
    ),
    Report("wait", None, "waiting: 2 of 3 available", 1.0),
    Report("halt", None, "stopping: it failed", facts={"result": "failed"}),
    Report("note", "web-1", "stays as it is"),
    Report("finished", None, "done", facts={"run": "r", "result": "succeeded", "exit_code": 0}),
]


def written(path: Path, *given: events.Event) -> list[dict[str, Any]]:
    log = EventLog(str(path), SystemClock())
    for event in given:
        log.put(event, "hello")
    assert log.close() == ""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_the_page_and_the_schema_follow_the_table() -> None:
    """Written by `python -m tests.cli.write_events`."""
    before = write_events.PAGE.read_text(encoding="utf-8")
    assert write_events.page(before) == before
    assert write_events.SCHEMA.read_text(encoding="utf-8") == write_events.schema_text()
    assert [f.name for f in ENVELOPE if f"| `{f.name}` |" not in before] == []


def test_every_report_becomes_an_event_of_the_table_and_every_type_has_one(tmp_path: Path) -> None:
    made = [e for e in map(events.of_report, REPORTS) if e is not None]
    plan = {"type": "command.started", "plan_id": "p", "fleets": []}
    lines = written(tmp_path / "e", plan, *made, events.finished(0, "done"))
    for line in lines:
        VALIDATOR.validate(line)
    assert {line["type"] for line in lines} == {e.name for e in EVENTS}
    known = {e.name: {f.name for f in (*ENVELOPE, *e.fields)} for e in EVENTS}
    assert [
        (line["type"], set(line) - known[line["type"]]) for line in lines if set(line) - known[line["type"]]
    ] == []


def test_the_schema_has_teeth() -> None:
    line = {"v": 1, "n": 1, "at": "2026-01-01T00:00:00.000Z", "type": "node.healthy", "node": "web-0"}
    assert not VALIDATOR.is_valid(line), "took_s and answer are missing"
    assert VALIDATOR.is_valid({**line, "type": "of.a.later.release"})
    assert not VALIDATOR.is_valid({**line, "type": "of.a.later.release", "v": 2})


def test_what_nodes_say_commands_no_terminal(tmp_path: Path) -> None:
    evil = "\x1b]0;title\x07\x1b[31mred\u202e\x9b2J"
    reports = [
        Report("answer", "web-1", evil, facts={"state": "failing", "passed": 0, "wanted": 2}),
        Report("failed", "web-1", evil, facts={"step": "verify", "host": "h", "why": evil, "answer": evil}),
        Report(
            "evidence", "web-1", evil, facts={"state": "", "exit_code": None, "detail": evil, "log": evil}
        ),
        Report("halt", None, evil),
    ]
    lines = written(tmp_path / "e", *(e for e in map(events.of_report, reports) if e is not None))
    assert len(lines) == 4
    for line in lines:
        assert not any(c in str(line) for c in "\x1b\x07\x9b\u202e")


def test_events_are_numbered_and_appended_for_their_owner_only(tmp_path: Path) -> None:
    file = tmp_path / "e"
    written(file, {"type": "note", "text": "one"}, {"type": "note", "text": "two"})
    lines = written(file, {"type": "note", "text": "three"})
    assert [(line["n"], line["text"]) for line in lines] == [(1, "one"), (2, "two"), (1, "three")]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_place_that_cannot_be_written_is_refused_before_anything_begins(tmp_path: Path) -> None:
    with pytest.raises(EventsError):
        EventLog(str(tmp_path / "nowhere" / "e"), SystemClock())


def test_a_reader_that_takes_nothing_delays_nobody_and_what_it_missed_is_told(tmp_path: Path) -> None:
    """More than a pipe holds: whoever writes into it directly would hang here."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    log = EventLog(str(fifo), SystemClock())
    for n in range(2000):
        log.put({"type": "note", "text": f"{n} " + "x" * 200})
    told = log.close(patience_s=0.2)
    assert "of 2000 events were not taken by the reader" in told
    os.close(reader)


def test_a_reader_that_comes_late_gets_every_event(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    log = EventLog(str(fifo), SystemClock())
    for n in range(2000):
        log.put({"type": "note", "text": f"{n} " + "x" * 200})
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.extend(fifo.read_text().splitlines()))
    reader.start()
    assert log.close(patience_s=60) == ""
    reader.join()
    assert [json.loads(line)["n"] for line in heard] == list(range(1, 2001))


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


def test_a_reader_that_goes_away_is_told_and_stops_nothing(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    log = EventLog(str(fifo), SystemClock())
    log.put({"type": "note", "text": "one"})
    wait_for(lambda: _read(reader) != b"", "the first line came")
    os.close(reader)
    log.put({"type": "note", "text": "two"})
    assert "could not be written" in log.close()
