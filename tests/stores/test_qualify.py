"""A sound store passes, each of five broken ones is caught, and what was not measured is never a pass."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from executors.clock import SystemClock
from fleetctl.stores.qualify import Asked, measure
from fleetctl.stores.qualify_verdict import (
    DENIALS,
    LATENCIES,
    Attempts,
    Measured,
    Races,
    Report,
    Verdict,
    evaluate,
    p99,
)
from fleetctl.stores.s3_bucket import Place
from tests.acceptance.cli import Workspace
from tests.lab.s3 import S3
from tests.stores import s3_faults as f
from tests.stores.broken_stores import BROKEN, gateways

ROUNDS, CONTENDERS = 3, 3
SCALED = ("parameters", "denials", "latency")


def run(endpoints: Sequence[str], without: Sequence[str] = SCALED) -> Report:
    asked = Asked(
        rounds=ROUNDS,
        contenders=CONTENDERS,
        warmups=1,
        workers=6,
        gateways=tuple(endpoints[1:]),
        foreign_bucket="somebody-elses" if "denials" not in without else None,
        denials="denials" not in without,
    )
    measured = measure(Place("states", "q", endpoints[0]), asked, SystemClock(), lambda done, of: None)
    return evaluate(measured, without=without)


def verdicts(report: Report) -> dict[str, Verdict]:
    return {c.name: c.verdict for c in report.checks}


def test_a_sound_store_passes_through_two_gateways_and_keeps_nothing(s3_states: S3) -> None:
    with gateways(s3_states.endpoint, [lambda request, forward: forward(request)] * 2) as endpoints:
        report = run(endpoints)
    assert report.verdict is Verdict.PASS, report
    left = s3_states.client().list_objects_v2(Bucket="states", Prefix="q/")
    assert left["KeyCount"] == 0


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_store_fails(s3_states: S3, name: str) -> None:
    with gateways(s3_states.endpoint, BROKEN[name](2)) as endpoints:
        report = run(endpoints)
    assert report.verdict is Verdict.FAIL, report
    blamed = {
        "ignored-if-none-match": "s3.create_races",
        "ignored-or-stale-if-match": "s3.overwrite_races",
        "gateway-local-locking": "s3.create_races",
        "stale-first-read": "s3.cross_gateway_reads",
        "misleading-outcome": "s3.create_races",
    }[name]
    assert verdicts(report)[blamed] is Verdict.FAIL, report


def test_one_gateway_cannot_prove_what_several_would_do(s3_states: S3) -> None:
    report = run([s3_states.endpoint])
    assert verdicts(report)["s3.cross_gateway_reads"] is Verdict.NOT_RUN
    assert report.verdict is Verdict.NOT_RUN
    assert run([s3_states.endpoint], (*SCALED, "cross-gateway")).verdict is Verdict.PASS


def guarded(request: f.Request, forward: f.Forward) -> f.Response:
    """Denies strangers, links past their time, and other buckets, as S3 does."""
    query = parse_qs(urlsplit(request.path).query)
    signed = request.headers.get("authorization", "") + "".join(query.get("X-Amz-Credential", []))
    expired = "X-Amz-Expires" in query
    if "laboratory" not in signed or expired or not request.path.startswith("/states"):
        return f.error(403, "AccessDenied")
    return forward(request)


def test_doors_that_are_shut_pass_and_open_ones_fail(s3_states: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleetctl.stores.qualify.LINK_WAIT_S", 0.0)
    without = ("parameters", "cross-gateway", "latency")
    with f.proxy(s3_states.endpoint, f.Faults(always=guarded)) as endpoint:
        assert run([endpoint], without).verdict is Verdict.PASS
    report = run([s3_states.endpoint], without)  # moto lets everybody in
    assert verdicts(report)["s3.denials"] is Verdict.FAIL


def test_objects_that_cannot_be_removed_outrank_everything(s3_states: S3) -> None:
    def keeps(request: f.Request, forward: f.Forward) -> f.Response:
        kept = request.method == "DELETE" and "round-" in request.path
        return f.error(403, "AccessDenied") if kept else forward(request)

    with f.proxy(s3_states.endpoint, f.Faults(always=keeps)) as endpoint:
        assert run([endpoint]).verdict is Verdict.CLEANUP


# --- the judge, over measurements ------------------------------------------------------------------------


def sound(rounds: int = 10_000) -> Measured:
    races = Races(rounds=rounds, commits=rounds, losers=rounds)
    return Measured(
        rounds=rounds,
        contenders=2,
        warmups=100,
        workers=32,
        gateways=2,
        create=races,
        overwrite=Races(rounds=rounds, commits=rounds, losers=rounds),
        stale=Attempts(2 * rounds, 2 * rounds),
        reads=4 * rounds,
        latencies_ms={name: [10.0] * rounds for name in LATENCIES},
        cases=100,
        requests=100,
        denials={name: Attempts(3, 3) for name in DENIALS},
    )


def test_a_door_that_answers_something_else_is_told_with_its_answer() -> None:
    measured = sound()
    measured.denials["invalid"] = Attempts(6, 0, "404 NoSuchUser")
    (check,) = [c for c in evaluate(measured).checks if c.name == "s3.denials"]
    assert (check.verdict, check.detail) == (
        Verdict.FAIL,
        "not denied: invalid (6 of 6, answered 404 NoSuchUser)",
    )


def test_a_full_run_without_a_fault_qualifies() -> None:
    report = evaluate(sound())
    assert (report.verdict, report.reason) == (Verdict.PASS, "CELLD_STORAGE_S3_V1_QUALIFIED")


def test_a_scaled_down_run_qualifies_nothing_unless_that_was_meant() -> None:
    assert evaluate(sound(9_999)).verdict is Verdict.NOT_RUN
    assert evaluate(sound(9_999), without=("parameters",)).verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"create": Races(10_000, 10_001, 9_999)}, "s3.create_races"),
        ({"create": Races(10_000, 9_999, 10_001)}, "s3.create_races"),
        ({"overwrite": Races(10_000, 10_000, 9_999, ambiguous=1)}, "s3.overwrite_races"),
        ({"overwrite": Races(10_000, 10_000, 9_999, unknown=1)}, "s3.overwrite_races"),
        ({"overwrite": Races(10_000, 10_000, 10_000, contradicted=1)}, "s3.overwrite_races"),
        ({"overwrite": Races(10_000, 10_000, 9_999)}, "s3.overwrite_races"),
        ({"stale": Attempts(10, 9)}, "s3.stale_conditions"),
        ({"mismatches": 1}, "s3.cross_gateway_reads"),
        ({"latencies_ms": {**sound().latencies_ms, "get": [10.0] * 98 + [251.0] * 2}}, "s3.latency.get"),
        ({"requests": 101}, "s3.retry_policy"),
        ({"denials": {**sound().denials, "expired": Attempts(3, 2)}}, "s3.denials"),
    ],
)
def test_one_fault_is_enough(change: dict[str, object], check: str) -> None:
    measured = sound()
    for name, value in change.items():
        setattr(measured, name, value)
    report = evaluate(measured)
    assert report.verdict is Verdict.FAIL
    assert verdicts(report)[check] is Verdict.FAIL


def test_the_99th_percentile_is_of_the_nearest_rank() -> None:
    assert p99([float(n) for n in range(1, 101)]) == 99.0
    assert p99([5.0]) == 5.0


def test_a_latency_that_nobody_measured_is_no_pass() -> None:
    measured = sound()
    del measured.latencies_ms["head"]
    assert evaluate(measured).verdict is Verdict.NOT_RUN


# --- the command -----------------------------------------------------------------------------------------


def fleetctl(tmp_path: Path, *args: str) -> tuple[int, str, str]:
    aws = {k: v for k, v in os.environ.items() if k.startswith("AWS_")}
    done = Workspace(tmp_path / "w", env=aws).run(*args)
    return done.code, done.out, done.err


def test_the_command_exits_with_its_own_codes(s3_states: S3, tmp_path: Path) -> None:
    scale = ["--rounds", "2", "--warmups", "1", "--workers", "4"]
    without = [
        w for name in ("parameters", "cross-gateway", "latency", "denials") for w in ("--without", name)
    ]
    place = ["store", "qualify", "s3://states/c", "--state-endpoint", s3_states.endpoint, *scale]
    by_url = ["store", "qualify", f"{s3_states.endpoint}/states/c", *scale]
    code, out, _ = fleetctl(tmp_path, *by_url, *without, "--format", "json")
    assert code == 0
    document = json.loads(out)
    assert (document["verdict"], document["measured"]["create"]["commits"]) == ("PASS", 2)
    with f.proxy(s3_states.endpoint, f.Faults(always=BROKEN["ignored-if-none-match"](1)[0])) as endpoint:
        broken = [endpoint if a == s3_states.endpoint else a for a in place]
        code, out, _ = fleetctl(tmp_path, *broken, *without)
    assert code == 1
    assert "FAIL     s3.create_races" in out
    code, _, err = fleetctl(tmp_path, "store", "qualify", "s3://no-such-bucket", *place[3:], *without)
    assert code == 3
    assert "NoSuchBucket" in err
