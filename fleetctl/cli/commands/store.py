"""fleetctl store: finds out whether an object store can keep a state."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation

if TYPE_CHECKING:
    from fleetctl.bootstrap import Measured, Report

FORMAT_VERSION = "1.0"
# Whoever waits for ten thousand rounds hears of them this often.
SAY_EVERY_S = 5.0
OPTIONAL = ("parameters", "cross-gateway", "latency", "denials")


@click.group(short_help="Find out whether an object store can keep a state.")
def command() -> None:
    """Find out whether an object store can keep a state."""


@command.command("qualify")
@click.argument("place", metavar="PLACE")
@options.state_endpoint_option
@click.option(
    "--gateway", "gateways", multiple=True, metavar="URL", help="A further endpoint of the same store."
)
@click.option("--rounds", type=click.IntRange(1), default=10_000, show_default=True, metavar="N")
@click.option("--contenders", type=click.IntRange(2, 32), default=2, show_default=True, metavar="N")
@click.option("--warmups", type=click.IntRange(0), default=100, show_default=True, metavar="N")
@click.option(
    "--workers",
    type=click.IntRange(2, 32),
    default=16,
    show_default=True,
    metavar="N",
    help="Requests at once.",
)
@click.option("--p99-ms", type=click.FloatRange(0), default=250.0, show_default=True, metavar="MS")
@click.option("--foreign-bucket", metavar="NAME", help="A bucket that these credentials must not reach.")
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(OPTIONAL),
    help="Leave a check out on purpose; may be repeated.",
)
@options.format_option("human", "json")
@options.debug_option
@click.pass_obj
def qualify(
    invocation: Invocation,
    place: str,
    gateways: tuple[str, ...],
    rounds: int,
    contenders: int,
    warmups: int,
    workers: int,
    p99_ms: float,
    foreign_bucket: str | None,
    without: tuple[str, ...],
    form: str,
) -> int:
    """Measure an object store: races under conditions, reads at once, stale writes, latency, denials.

    PLACE is s3://BUCKET[/PREFIX], or a compatible store's https://STORE/BUCKET[/PREFIX].

    Exits with codes of its own: 0 PASS; 1 FAIL, the store must not keep a state; 2 NOT_RUN, something that
    was asked could not be measured; 3 ERROR, the store cannot be used at all; 4 what was written could not
    be removed. Everything is written below PREFIX and removed again.
    """
    from fleetctl import bootstrap
    from fleetctl.cli.views import json_text
    from manifests.errors import FleetctlError

    terminal = invocation.terminal
    said_s = invocation.clock.monotonic()

    def say(done: int, of: int) -> None:
        nonlocal said_s
        if invocation.clock.monotonic() - said_s >= SAY_EVERY_S:
            said_s = invocation.clock.monotonic()
            terminal.say(f"{done} of {of} rounds")

    try:
        measured, report = bootstrap.qualify(
            place,
            invocation.state_endpoint,
            invocation.clock,
            say,
            rounds=rounds,
            contenders=contenders,
            warmups=warmups,
            workers=workers,
            gateways=gateways,
            foreign_bucket=foreign_bucket,
            p99_ms_max=p99_ms,
            without=without,
        )
    except FleetctlError as error:
        from fleetctl.cli.views.diagnostics import render_error

        terminal.say(render_error(error, terminal.err_paint))
        return bootstrap.QUALIFY_ERROR
    if form == "json":
        terminal.data(json_text.render(_document(measured, report)))
    else:
        terminal.data(_text(report))
    return int(report.verdict)


def _document(measured: Measured, report: Report) -> dict[str, Any]:
    shown = asdict(measured)
    shown["latencies_ms"] = {name: len(samples) for name, samples in measured.latencies_ms.items()}
    checks = [{"name": c.name, "verdict": c.verdict.name, "detail": c.detail} for c in report.checks]
    return {
        "format_version": FORMAT_VERSION,
        "verdict": report.verdict.name,
        "reason": report.reason,
        "checks": checks,
        "measured": {**shown, "latency_samples": shown.pop("latencies_ms")},
    }


def _text(report: Report) -> str:
    from fleetctl.cli.views import table

    rows = [(c.verdict.name, c.name, c.detail) for c in report.checks]
    lines = table.render(("verdict", "check", "what was seen"), rows)
    return "\n".join([*lines, "", f"{report.verdict.name} ({report.reason})"])
