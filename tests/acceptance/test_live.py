"""The live view on a real terminal: what stands there, what is left when it ends, and that it holds up nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fleetctl.cli.terminal import clean
from fleetctl.cli.views.event_types import schema
from tests.acceptance.cli import FLEETCTL, RUN_TIMEOUT_S, Workspace
from tests.acceptance.watched import Watched

CANARY = "  canary: {count: 1}\n"


class Gated(Workspace):
    """Three nodes of 1.0.0 that run, and a rollout to 1.1.0 with a canary, in which a node is healthy when it is let."""

    def prepare(self) -> None:
        self.fleet(rollout=CANARY)
        self.apply()
        self.release("1.1.0", f"gated:{self.path}/open-")
        self.fleet("1.1.0", rollout=CANARY, deadline="5m")

    def let(self, *numbers: int) -> None:
        """Lets these nodes be healthy."""
        for number in numbers:
            (self.path / f"open-{self.port + number}").touch()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Gated]:
    made = Gated(tmp_path / "w")
    try:
        made.prepare()
        yield made
    finally:
        made.close()


def apply(fleet: Gated, *more: str, **how: Any) -> Watched:
    return Watched(fleet, "apply", ".", "--auto-approve", *more, **how)


def line(person: Watched, begins: str) -> str:
    return next((x for x in person.lines if x.startswith(begins)), "")


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(x) for x in path.read_text(encoding="utf-8").splitlines()]


def checked(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All of the schema, numbered without a gap, from the first to the last."""
    validator = Draft202012Validator(schema())
    for each in lines:
        validator.validate(each)
    assert [e["n"] for e in lines] == list(range(1, len(lines) + 1))
    assert (lines[0]["type"], lines[-1]["type"]) == ("command.started", "command.finished")
    return lines


@pytest.mark.parametrize(("columns", "rows"), [(100, 30), (40, 12)])
def test_waves_nodes_and_availability_stand_on_the_screen_whatever_its_size(
    fleet: Gated, columns: int, rows: int
) -> None:
    """What is done scrolls by above; nothing is wider than the terminal, and the picture is gone at the end."""
    with apply(fleet, columns=columns, rows=rows) as person:
        before = person.attributes()
        fleet.let(0)
        answered = "(503 Service Unavailable from /health" if columns == 100 else "waiting for health, for "
        person.until(
            lambda: "wave 2 of 2" in line(person, "fleet/hello  ") and answered in person.lines[-1],
            "a node of the second wave that is waited for, and its answer",
        )
        picture = person.lines[person.lines.index(line(person, "fleet/hello  ")) :]
        assert "of 3 done" in picture[0]
        assert picture[1].startswith("available  ▕█")
        assert "┃" in picture[1], "the floor is marked"
        assert "2 of 3" in picture[1]
        assert picture[2].startswith("waves      1 done (1 node)")
        assert len(picture) == 4
        assert max(len(x) for x in picture) < columns
        fleet.let(1, 2)
        assert person.end() == 0
        assert not line(person, "available"), "the picture is gone"
        assert person.lines[-1] == "Done: 3 of 3 nodes done."
        assert line(person, "waves") == ""
        assert person.attributes() == before
    assert b"\x1b[?" not in person.raw, "no mode of the terminal was changed"


def test_a_terminal_of_a_few_rows_shows_how_it_stands_and_nothing_breaks(fleet: Gated) -> None:
    with apply(fleet, columns=60, rows=4) as person:
        person.until(lambda: line(person, "available"), "the bar")
        assert line(person, "fleet/hello  ")
        fleet.let(0, 1, 2)
        assert person.end() == 0
        assert person.lines[-1] == "Done: 3 of 3 nodes done."


@pytest.mark.parametrize(("columns", "rows", "rewraps"), [(50, 14, True), (160, 50, False)])
def test_a_terminal_that_is_resized_has_one_picture_that_fits(
    fleet: Gated, columns: int, rows: int, rewraps: bool
) -> None:
    """Some terminals wrap anew what stands on them, others cut it off."""
    with apply(fleet, columns=100, rows=30) as person:
        person.until(lambda: line(person, "available"), "the picture")
        taken = len(person.raw)
        person.resize(columns, rows, rewraps=rewraps)
        person.until(lambda: len(person.raw) > taken + 400, "it is drawn again")
        person.until(lambda: line(person, "available"), "the picture")
        heads = [x for x in person.lines if x.startswith("fleet/hello  ")]
        assert len(heads) == 1, person.lines
        assert len([x for x in person.lines if x.startswith("available")]) == 1
        assert max(len(x) for x in person.lines) <= columns
        fleet.let(0, 1, 2)
        assert person.end() == 0


def test_without_colour_lines_with_the_time_come_instead(fleet: Gated) -> None:
    """tests/cli/test_progress.py asks for the other reasons: a dumb terminal, CI, no terminal."""
    fleet.let(0, 1, 2)
    with apply(fleet, NO_COLOR="1") as person:
        assert person.end() == 0
    assert b"\x1b" not in person.raw, "no escape sequence at all"
    assert "Z web-0: healthy after" in person.screen


def test_ctrl_c_finishes_what_is_under_way_and_leaves_the_terminal_as_it_was(fleet: Gated) -> None:
    with apply(fleet, "--events", "e.ndjson") as person:
        before = person.attributes()
        person.until(lambda: "wave 1 of 2" in line(person, "fleet/hello  "), "the first wave")
        person.press_ctrl_c()
        assert person.end() == 130
        assert person.attributes() == before
        assert not person.shown.cursor.hidden
        assert not line(person, "available")
        assert "Error: " in "\n".join(person.lines)
    lines = checked(events_of(fleet.path / "e.ndjson"))
    assert lines[-1]["exit_code"] == 130
    assert any(e["type"] == "run.halting" and "interrupted" in e["reason"] for e in lines)


def test_a_killed_command_leaves_a_terminal_that_works(fleet: Gated) -> None:
    """There is nothing to restore, so nothing is missed by kill -9."""
    with apply(fleet) as person:
        before = person.attributes()
        person.until(lambda: line(person, "available"), "the picture")
        person.signal(signal.SIGKILL)
        person.process.wait(30)
        person.until(lambda: not person._read(0.1), "the rest")
        assert person.attributes() == before
        assert not person.shown.cursor.hidden


def test_a_stopped_terminal_delays_no_step_and_drops_no_event(fleet: Gated) -> None:
    """Ctrl-S: every write blocks from then on. The rollout goes to its end all the same, and Ctrl-Q shows how it ended."""
    with apply(fleet, "--events", "e.ndjson") as person:
        person.until(lambda: line(person, "available"), "the picture")
        person.type("\x13")
        fleet.let(0, 1, 2)
        file = fleet.path / "e.ndjson"
        person.deaf_until(lambda: file.read_text().count('"command.finished"'), "the end of the rollout")
        healthy = {e["node"] for e in checked(events_of(file)) if e["type"] == "node.healthy"}
        assert healthy == {f"web-{n}" for n in range(3)}
        assert "Done: " not in person.screen
        person.type("\x11")
        assert person.end() == 0
        assert person.lines[-1] == "Done: 3 of 3 nodes done."
        assert not line(person, "available"), "the picture is gone"


def test_a_pipe_that_nobody_reads_delays_no_step(fleet: Gated) -> None:
    """Full before it begins: not one line of progress can be written."""
    fleet.let(0, 1, 2)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(writer, b"x" * 4096):
            pass
    os.set_blocking(writer, True)
    with (fleet.path / "out").open("wb") as out:
        process = subprocess.Popen(
            [FLEETCTL, "apply", ".", "--auto-approve", "--events", "e.ndjson"],
            cwd=fleet.path,
            env=fleet.environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=writer,
        )
    try:
        assert process.wait(RUN_TIMEOUT_S) == 0
    finally:
        process.kill()
        os.close(reader)
        os.close(writer)
    assert "Done: 3 of 3 nodes done." in (fleet.path / "out").read_text()
    assert checked(events_of(fleet.path / "e.ndjson"))[-1]["exit_code"] == 0


def test_a_failing_node_explains_itself_while_it_runs_and_at_the_end(fleet: Gated) -> None:
    """Its last words are marked as its own, and command nothing."""
    fleet.release("1.1.0", "exits")
    fleet.fleet("1.1.0", rollout=CANARY + "  auto_revert: true\n")
    with apply(fleet, "--events", "e.ndjson", rows=40) as person:
        assert person.end() == 4
        text = "\n".join(person.lines)
    assert "\n  web-0 | cannot go on" in clean(person.screen), "in the picture"
    assert "node/hello/web-0 failed: " in text
    assert "    web-0 | cannot go on" in text
    assert "exit status 3" in text
    assert "more         fleetctl logs web-0" in text
    lines = checked(events_of(fleet.path / "e.ndjson"))
    (evidence,) = [e for e in lines if e["type"] == "node.evidence"]
    assert (evidence["state"], evidence["exit_code"], evidence["log"][-1]) == ("exited", 3, "cannot go on")
    assert any(e["type"] == "availability" and e["reverting"] for e in lines)
    assert next(e["result"] for e in lines if e["type"] == "run.finished") == "reverted"


def test_events_on_stdout_leave_it_to_them(fleet: Gated) -> None:
    fleet.let(0, 1, 2)
    result = fleet.run("apply", ".", "--auto-approve", "--events", "-")
    assert result.code == 0, str(result)
    lines = checked([json.loads(x) for x in result.out.splitlines()])
    waves = lines[0]["fleets"][0]["waves"]
    assert [w["nodes"] for w in waves] == [["web-0"], ["web-1", "web-2"]]
    floor = min(e["available"] for e in lines if e["type"] == "availability")
    assert floor == 2, "the floor is kept, and the events say so"
    assert "Plan: " in result.err
    assert "Done: " in result.err


def test_events_tell_a_run_that_waits_and_the_one_that_goes_on(fleet: Gated) -> None:
    fleet.let(0, 1, 2)
    fleet.fleet("1.1.0", rollout="  canary: {count: 1, promotion: manual}\n")
    file = fleet.path / "e.ndjson"
    assert fleet.run("apply", ".", "--auto-approve", "--events", "e.ndjson").code == 8
    first = checked(events_of(file))
    assert next(e["result"] for e in first if e["type"] == "run.finished") == "paused"
    os.truncate(file, 0)
    fleet.ok("promote", ".", "--events", "e.ndjson")
    second = checked(events_of(file))
    begun = next(e for e in second if e["type"] == "run.started")
    assert (begun["resumed"], begun["done"]) == (True, ["web-0"])
    assert {e["node"] for e in second if e["type"] == "node.healthy"} == {"web-1", "web-2"}


def test_events_of_destroy_and_rollback_are_of_the_same_schema(fleet: Gated) -> None:
    file = fleet.path / "e.ndjson"
    fleet.let(0, 1, 2)
    fleet.apply()
    for command in ("rollback", "destroy"):
        fleet.ok(command, ".", "--auto-approve", "--events", "e.ndjson")
        assert next(e for e in checked(events_of(file)) if e["type"] == "run.started")["command"] == command
        os.truncate(file, 0)


def test_a_file_for_events_that_cannot_be_written_stops_everything_before_it_begins(fleet: Gated) -> None:
    result = fleet.run("apply", ".", "--auto-approve", "--events", "no/such/folder/e")
    assert result.code == 1
    assert "the events cannot be written to no/such/folder/e" in result.err
    assert "1.1.0" not in fleet.ok("status").out
