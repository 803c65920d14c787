"""fleetctl recover: settles a run that was cut off, and continues it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from fleetctl.cli import options
from fleetctl.cli.invocation import Invocation
from manifests.errors import ExitCode


@click.command(short_help="Settle a run that was cut off.")
@options.place_options
@options.parallelism_option
@options.approve_option
@options.events_option
@click.pass_obj
def command(
    invocation: Invocation,
    paths: tuple[Path, ...],
    files: tuple[Path, ...],
    state: str | None,
    parallelism: int | None,
    auto_approve: bool,
) -> int:
    """Look up what became of each effect whose outcome is open, and carry the plan of the run on to its end.

    Nothing is repeated that may have happened. The state is found beside the first of PATHS; manifests are
    not read, since the state keeps the plan.
    """
    from fleetctl import bootstrap
    from fleetctl.cli import approval, carry_out
    from fleetctl.cli.views import plan_text
    from fleetctl.engine import recover

    terminal = invocation.terminal
    wanted = options.sources(paths, files, (), ())
    settings = options.resolve_settings(invocation, wanted.folder, state, parallelism)
    store = bootstrap.open_store(settings, invocation.clock, read_only=True)
    try:
        cut_off = recover.open_runs(store, store.fleets())
        plans = {r.fleet: recover.stored_plan(store, r.document) for r in cut_off.values()}
        known = bootstrap.replayed(store, cut_off)
    finally:
        store.close()
    if not cut_off:
        terminal.data("Nothing to recover: no run was cut off.")
        return ExitCode.OK
    for run in cut_off.values():
        bootstrap.ensure_free(settings, invocation.clock, run.fleet)
        terminal.data(
            f"fleet/{run.fleet}: run {run.run} ({run.command} of {run.who}, begun {run.started_at}) was cut off "
            f"after {run.effects} effects, {len(run.unsettled)} of them with an open outcome."
        )
        for record in run.unsettled:
            terminal.data(f"  open: {record.effect} of {record.about(run.fleet)} ({record.operation_id})")
        terminal.data(f"  its plan was: {plan_text.counts(plans[run.fleet]).removeprefix('Plan: ')}")
    # What has ended already is no news; the run's other fleets are not carried on here.
    gone = {uid for r in known.values() for uid, n in r.recorded.nodes.items() if n.destroyed}
    left = tuple(f for plan in {p.plan_id: p for p in plans.values()}.values() for f in plan.fleets)
    rest = next(iter(plans.values())).model_copy(
        update={"fleets": tuple(f for f in left if f.fleet in plans)}
    )
    question = "Look up what is open and carry the plan on?"
    approval.approve_plan(terminal, rest, question, auto=auto_approve, gone=gone)
    code = 0
    for plan_id in dict.fromkeys(p.plan_id for p in plans.values()):
        fleets = [fleet for fleet, p in plans.items() if p.plan_id == plan_id]
        work = partial(recover.recover, fleets=fleets)
        code = code or carry_out.carry_out(invocation, settings, plans[fleets[0]], work)
    return code
