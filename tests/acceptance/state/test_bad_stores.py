"""Stores that are slow, forgetful, shut or dishonest, through the real command."""

from __future__ import annotations

import threading

from tests.acceptance.client import ask
from tests.acceptance.state.conftest import Shared
from tests.stores import s3_faults as f
from tests.stores.broken_stores import BROKEN


def test_a_rollout_over_a_store_that_loses_answers_ends_well(shared: Shared) -> None:
    """Of every eleven requests one is refused as a conflict, one is done and not answered, one ends in a 500."""
    lock, number = threading.Lock(), [0]

    def unreliable(request: f.Request, forward: f.Forward) -> f.Response | None:
        with lock:
            number[0] += 1
            turn = number[0] % 11
        if request.method == "PUT" and request.conditional and turn == 3:
            return f.CONFLICT
        if turn == 6:
            return f.lost(request, forward)
        if turn == 9:
            return f.BROKEN
        return forward(request)

    folder = shared.folder("first")
    with f.proxy(shared.server.endpoint, f.Faults(always=unreliable)) as endpoint:
        through = {"FLEETCTL_STATE_ENDPOINT": endpoint}
        folder.apply(env=through)
        folder.fleet("1.1.0")
        folder.apply(env=through)
    assert [ask(p) for p in folder.ports] == ["1.1.0"] * 3
    assert folder.ok("plan", ".").out.startswith("No changes.")
    assert folder.ok("state", "verify", "--format", "json").json["whole"]


def test_a_store_that_cannot_be_used_stops_an_apply_before_it_begins(shared: Shared) -> None:
    folder = shared.folder("first")
    with f.proxy(shared.server.endpoint, f.Faults(always=BROKEN["ignored-if-none-match"](1)[0])) as endpoint:
        refused = folder.run("apply", ".", "--auto-approve", env={"FLEETCTL_STATE_ENDPOINT": endpoint})
    assert refused.code == 1, str(refused)
    assert "If-None-Match" in refused.err
    assert "fleetctl store qualify" in refused.err
    with f.proxy(
        shared.server.endpoint, f.Faults(always=f.answers(f.error(403, "AccessDenied")))
    ) as endpoint:
        denied = folder.run("plan", ".", env={"FLEETCTL_STATE_ENDPOINT": endpoint})
    assert denied.code == 1, str(denied)
    assert "denies it (AccessDenied)" in denied.err
    assert folder.node_processes() == []
    assert shared.objects() == {}


def test_a_store_that_is_lost_in_the_middle_ends_with_5_and_recover_settles_it(shared: Shared) -> None:
    folder = shared.folder("first")
    gone = threading.Event()

    def lost_after_the_first_start(request: f.Request, forward: f.Forward) -> f.Response | None:
        if gone.is_set() or (folder.started and any(ask(p, timeout_s=0.2) for p in folder.ports)):
            gone.set()
            return None
        return forward(request)

    with f.proxy(shared.server.endpoint, f.Faults(always=lost_after_the_first_start)) as endpoint:
        process = folder.start("apply", ".", "--auto-approve", env={"FLEETCTL_STATE_ENDPOINT": endpoint})
        done = folder.end(process)
    assert done.code == 5, str(done)
    assert "fleetctl recover" in done.err
    recovered = folder.run("recover", ".", "--auto-approve")
    assert recovered.code == 0, str(recovered)
    folder.apply()
    assert [ask(p) for p in folder.ports] == ["1.0.0"] * 3
