"""Alarms: decided purely, durable, fired at least once under a stable id, after restarts and takeovers too."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetctl.cellz import alarms
from fleetctl.cellz.errors import BadShape
from tests.cellz.running import NodeProcess, append, cells, read_log, running

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DEADLINE_S = 60.0


def spec(**data: Any) -> alarms.Spec:
    return alarms.parse_spec(data, NOW)


def test_once_is_due_at_its_time_and_then_never() -> None:
    once = spec(at="2026-03-01T13:00:00+01:00", payload={"x": 1})
    assert alarms.first_due("a", once, NOW) == "2026-03-01T12:00:00.000000+00:00"
    firing = alarms.fire("c", "a", once, "2026-03-01T12:00:00.000000+00:00", NOW)
    assert firing.event is not None
    assert firing.next_at is None


def test_the_same_due_time_gives_the_same_event_id_whoever_fires_it_and_when() -> None:
    interval = spec(every_s=60)
    due = alarms.first_due("a", interval, NOW)
    assert due is not None
    ids = {
        firing.event.id
        for delay in (0, 5, 4000)
        if (firing := alarms.fire("c", "a", interval, due, NOW + timedelta(seconds=60 + delay))).event
    }
    assert len(ids) == 1
    other = alarms.fire("c", "b", interval, due, NOW + timedelta(seconds=60)).event
    assert other is not None
    assert other.id not in ids


def test_an_interval_that_was_missed_fires_once_and_says_how_many() -> None:
    interval = spec(every_s=60)
    due = alarms.first_due("a", interval, NOW)
    assert due == "2026-03-01T12:01:00.000000+00:00"
    firing = alarms.fire("c", "a", interval, due, NOW + timedelta(seconds=60 * 5 + 30))
    assert firing.missed == 4
    assert firing.next_at == "2026-03-01T12:06:00.000000+00:00"


def test_past_its_deadline_an_alarm_appends_nothing() -> None:
    late = spec(every_s=60, deadline_s=10)
    firing = alarms.fire("c", "a", late, "2026-03-01T12:01:00.000000+00:00", NOW + timedelta(seconds=75))
    assert firing.event is None
    assert firing.next_at == "2026-03-01T12:02:00.000000+00:00"


def test_cron_counts_in_its_own_time_zone() -> None:
    daily = spec(cron="30 9 * * *", timezone="Europe/Berlin")
    assert alarms.first_due("a", daily, NOW) == "2026-03-02T08:30:00.000000+00:00"


@given(st.floats(0.1, 1e6), st.floats(0, 1e7), st.floats(0, 3600))
def test_the_next_time_is_never_now_or_before(every_s: float, passed_s: float, jitter_s: float) -> None:
    interval = spec(every_s=every_s, jitter_s=jitter_s)
    now = NOW + timedelta(seconds=passed_s)
    due = alarms.first_due("a", interval, now)
    assert due is not None
    assert due > alarms.stamp(now)
    assert alarms.fire("c", "a", interval, due, datetime.fromisoformat(due)).next_at > due  # type: ignore[operator]


def test_jitter_is_the_same_on_every_node_and_below_its_bound() -> None:
    spread = {alarms.first_due(f"a{n}", spec(every_s=60, jitter_s=30), NOW) for n in range(50)}
    assert len(spread) > 40
    assert all("2026-03-01T12:01:00" <= due < "2026-03-01T12:01:30.1" for due in spread if due)
    assert spread == {alarms.first_due(f"a{n}", spec(every_s=60, jitter_s=30), NOW) for n in range(50)}


@pytest.mark.parametrize(
    "data",
    [
        {"kind": "weekly"},
        {"kind": "once"},
        {"at": "tomorrow"},
        {"at": "2026-01-01T00:00:00"},
        {"every_s": "60"},
        {"every_s": True},
        {"every_s": 0.01},
        {"cron": "* * *"},
        {"cron": "* * * * *", "timezone": "Mars/Base"},
        {"after_s": -1},
        {"after_s": 1, "jitter_s": -1},
        {"after_s": 1, "event_type": 5},
    ],
)
def test_a_wrong_spec_names_its_field(data: dict[str, Any]) -> None:
    with pytest.raises(BadShape) as refused:
        alarms.parse_spec(data, NOW)
    assert refused.value.message.split(":")[0] in {*data, "kind", "at"}


def set_alarm(client: httpx.Client, cell: str, **data: Any) -> None:
    answer = client.post(cells(f"{cell}/alarms"), json=data)
    assert answer.status_code == 201, answer.text


def events_of(client: httpx.Client, cell: str, kind: str, count: int) -> list[dict[str, Any]]:
    """Wait until the log has `count` events of a type and return them."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        found = [event for event in read_log(client, cell) if event["event_type"] == kind]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{cell} has not {count} events of type {kind}")


def test_an_interval_fires_again_and_again(tmp_path: Path) -> None:
    with running(tmp_path) as node, node.client() as client:
        set_alarm(client, "c", id="tick", every_s=0.2)
        fired = events_of(client, "c", "alarm", 3)
        assert len({event["payload"]["scheduled_at"] for event in fired}) == len(fired)
        assert all(event["id"] == event["payload"]["fire_id"] for event in fired)
        client.delete(cells("c/alarms/tick"))
        assert client.get(cells("c/alarms")).json() == {"alarms": []}


@pytest.mark.parametrize("sync", ["commit", "evict"])
def test_an_alarm_of_an_evicted_cell_wakes_it(tmp_path: Path, sync: str) -> None:
    with running(tmp_path, sync=sync, alarm_scan=0.2) as node, node.client() as client:
        append(client, "c", 1)
        set_alarm(client, "c", id="once", after_s=1.5)
        assert client.post(cells("c/evict")).status_code == 200
        deadline = time.monotonic() + DEADLINE_S
        while client.get("/state").json()["resident"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(events_of(client, "c", "alarm", 1)) == 1


def test_an_alarm_that_came_due_while_its_node_was_dead_fires_after_the_restart(tmp_path: Path) -> None:
    with running(tmp_path, alarm_scan=0.2) as node:
        with node.client() as client:
            append(client, "c", 1)
            set_alarm(client, "c", id="once", after_s=0.5, payload="kept")
        node.kill()
        time.sleep(0.6)
        node.start()
        with node.client() as client:
            (fired,) = events_of(client, "c", "alarm", 1)
            assert fired["payload"]["payload"] == "kept"


def test_a_peer_takes_over_the_alarms_of_a_dead_node_without_being_asked(tmp_path: Path) -> None:
    settings = {"sync": "commit", "lease_ttl": 1.5, "alarm_scan": 0.2}
    with running(tmp_path, "a", **settings) as first, running(tmp_path, "b", **settings) as second:
        with first.client() as client:
            append(client, "c", 1)
            set_alarm(client, "c", id="once", after_s=1.0)
        first.kill()
        with second.client() as client:
            _await_resident(second, client)
            assert len(events_of(client, "c", "alarm", 1)) == 1


def _await_resident(node: NodeProcess, client: httpx.Client) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while client.get("/state").json()["resident"] == 0:
        assert time.monotonic() < deadline, node.log_path.read_text()
        time.sleep(0.05)
