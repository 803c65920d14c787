"""Judges what was measured of an object store. Pure: the same measurements give the same verdict.

A store may keep a state when of any number of writers exactly one wins, every loser is told so, what was
written is what is read at once and everywhere, and answers come in time. What could not be measured is
NOT_RUN, and NOT_RUN is never a pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import ceil

# What a store for production is asked for; fewer rounds find gross mistakes and prove little.
ROUNDS_FULL = 10_000
WARMUPS_FULL = 100
CONTENDERS_MIN = 2
WORKERS_MAX = 32
P99_MS_MAX = 250.0
AMPLIFICATION_MAX = 3.0


class Verdict(IntEnum):
    """The exit code of `fleetctl store qualify`; the worst check decides, in the order of ORDER."""

    PASS = 0
    FAIL = 1
    NOT_RUN = 2
    ERROR = 3
    CLEANUP = 4


ORDER = (Verdict.PASS, Verdict.NOT_RUN, Verdict.FAIL, Verdict.ERROR, Verdict.CLEANUP)
REASONS = {
    Verdict.PASS: "CELLD_STORAGE_S3_V1_QUALIFIED",
    Verdict.FAIL: "CELLD_STORAGE_GATE_FAILED",
    Verdict.NOT_RUN: "CELLD_STORAGE_FIXTURE_NON_PROMOTING",
    Verdict.ERROR: "CELLD_STORAGE_QUALIFIER_ERROR",
    Verdict.CLEANUP: "CELLD_STORAGE_QUALIFIER_ERROR",
}
# Checks that can be left out on purpose, by the name that an operator types.
OPTIONAL = {
    "parameters": "s3.parameters",
    "cross-gateway": "s3.cross_gateway_reads",
    "latency": "s3.latency",
    "denials": "s3.denials",
}


@dataclass(slots=True)
class Races:
    """Rounds in which several writers wanted one object: how each request ended."""

    rounds: int = 0
    commits: int = 0
    losers: int = 0
    ambiguous: int = 0
    unknown: int = 0
    denied: int = 0
    # Rounds whose object afterwards was not what the one winner was told that it wrote.
    contradicted: int = 0

    @property
    def total(self) -> int:
        return self.commits + self.losers + self.ambiguous + self.unknown + self.denied


@dataclass(slots=True)
class Attempts:
    """Requests that must be refused, how many were, and the last other answer."""

    tries: int = 0
    refused: int = 0
    said: str = ""


@dataclass(slots=True)
class Measured:
    """Everything that a run saw. Latencies are in milliseconds, by what was done."""

    rounds: int
    contenders: int
    warmups: int
    workers: int
    gateways: int
    create: Races = field(default_factory=Races)
    overwrite: Races = field(default_factory=Races)
    stale: Attempts = field(default_factory=Attempts)
    reads: int = 0
    mismatches: int = 0
    latencies_ms: dict[str, list[float]] = field(default_factory=dict)
    cases: int = 0
    requests: int = 0
    denials: dict[str, Attempts] = field(default_factory=dict)
    left_over: int = 0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was asked of the store, and the answer in words."""

    name: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class Report:
    """The checks and what they add up to."""

    checks: tuple[Check, ...]
    verdict: Verdict
    reason: str


def p99(samples: Sequence[float]) -> float:
    """The nearest-rank 99th percentile; there is at least one sample."""
    return sorted(samples)[ceil(0.99 * len(samples)) - 1]


def evaluate(measured: Measured, *, without: Collection[str] = (), p99_ms_max: float = P99_MS_MAX) -> Report:
    """The report. `without` names checks of OPTIONAL that are left out on purpose."""
    checks = [
        _parameters(measured),
        _races("s3.create_races", measured.create, measured.contenders),
        _races("s3.overwrite_races", measured.overwrite, measured.contenders),
        _stale(measured.stale),
        _reads(measured),
        *(_latency(n, measured.latencies_ms.get(n, ()), p99_ms_max) for n in LATENCIES),
        _retries(measured),
        _denials(measured),
        _cleanup(measured),
    ]
    left_out = tuple(OPTIONAL[name] for name in without)
    kept = tuple(c for c in checks if not (left_out and c.name.startswith(left_out)))
    verdict = max((c.verdict for c in kept), key=ORDER.index)
    return Report(kept, verdict, REASONS[verdict])


LATENCIES = ("create_winner", "overwrite_winner", "get", "head")


def _parameters(m: Measured) -> Check:
    asked = f"{m.rounds} rounds, {m.contenders} contenders, {m.warmups} warmups, {m.workers} workers"
    full = (
        m.rounds >= ROUNDS_FULL
        and m.warmups >= WARMUPS_FULL
        and m.contenders >= CONTENDERS_MIN
        and m.workers <= WORKERS_MAX
    )
    if full:
        return Check("s3.parameters", Verdict.PASS, asked)
    return Check(
        "s3.parameters",
        Verdict.NOT_RUN,
        f"{asked}; {ROUNDS_FULL} rounds and {WARMUPS_FULL} warmups qualify a store",
    )


def _races(name: str, r: Races, contenders: int) -> Check:
    wrong = []
    if r.commits != r.rounds:
        wrong.append(f"{r.commits} winners in {r.rounds} rounds")
    if r.losers != r.rounds * (contenders - 1):
        wrong.append(f"{r.losers} of {r.rounds * (contenders - 1)} losers were told so")
    for count, what in (
        (r.ambiguous, "conflicts that no winner explains"),
        (r.unknown, "requests without a clear answer"),
        (r.denied, "denied requests"),
        (r.contradicted, "rounds whose object is not what its winner wrote"),
    ):
        if count:
            wrong.append(f"{count} {what}")
    if r.total != r.rounds * contenders:
        wrong.append(f"{r.total} of {r.rounds * contenders} requests accounted for")
    if wrong:
        return Check(name, Verdict.FAIL, "; ".join(wrong))
    return Check(name, Verdict.PASS, f"one winner in each of {r.rounds} rounds")


def _stale(a: Attempts) -> Check:
    if a.refused != a.tries:
        return Check(
            "s3.stale_conditions",
            Verdict.FAIL,
            f"{a.tries - a.refused} of {a.tries} writes with a condition that did not hold any more were taken",
        )
    return Check("s3.stale_conditions", Verdict.PASS, f"{a.tries} stale writes refused")


def _reads(m: Measured) -> Check:
    name = "s3.cross_gateway_reads"
    if m.mismatches:
        return Check(name, Verdict.FAIL, f"{m.mismatches} of {m.reads} reads were not what was written last")
    if m.gateways < 2:
        return Check(
            name, Verdict.NOT_RUN, f"{m.reads} reads agree, but through one gateway only: --gateway URL"
        )
    return Check(name, Verdict.PASS, f"{m.reads} reads through {m.gateways} gateways agree")


def _latency(what: str, samples: Sequence[float], p99_ms_max: float) -> Check:
    name = f"s3.latency.{what}"
    if not samples:
        return Check(name, Verdict.NOT_RUN, "nothing was measured")
    found = p99(samples)
    verdict = Verdict.PASS if found <= p99_ms_max else Verdict.FAIL
    return Check(name, verdict, f"p99 {found:.1f} ms of {len(samples)} ({p99_ms_max:g} ms allowed)")


def _retries(m: Measured) -> Check:
    amplification = m.requests / m.cases if m.cases else 0.0
    detail = f"{m.requests} requests for {m.cases} cases"
    verdict = Verdict.PASS if 0 < amplification <= AMPLIFICATION_MAX else Verdict.FAIL
    if m.requests != m.cases:
        verdict = Verdict.FAIL
        detail += "; the client tried again by itself, which hides who won"
    return Check("s3.retry_policy", verdict, detail)


def _denials(m: Measured) -> Check:
    name = "s3.denials"
    open_doors = [
        f"{what} ({a.tries - a.refused} of {a.tries}{f', answered {a.said}' if a.said else ''})"
        for what, a in m.denials.items()
        if a.refused != a.tries
    ]
    if open_doors:
        return Check(name, Verdict.FAIL, f"not denied: {', '.join(open_doors)}")
    missing = [what for what in DENIALS if not m.denials.get(what, Attempts()).tries]
    if missing:
        hint = ": --foreign-bucket NAME" if missing == ["cross_bucket"] else ""
        return Check(name, Verdict.NOT_RUN, f"not tried: {', '.join(missing)}{hint}")
    return Check(name, Verdict.PASS, f"{', '.join(DENIALS)} denied")


DENIALS = ("invalid", "expired", "wrong_bucket", "cross_bucket")


def _cleanup(m: Measured) -> Check:
    if m.left_over:
        return Check("s3.cleanup", Verdict.CLEANUP, f"{m.left_over} objects could not be removed")
    return Check("s3.cleanup", Verdict.PASS, "nothing is left behind")
