"""Measures what was promised and prints it as one table, each number beside what it is compared with.

Whole processes, medians of five, peak memory; see `measure`. The seconds of a machine that does other things
too say little, so CPU seconds stand beside them.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

from tests.bench import docker, gen_manifests, journal, large, review, slope, ssh
from tests.bench.measure import Sample, process
from tests.bench.table import Table

FLEETCTL = str(Path(sys.executable).with_name("fleetctl"))
NODES_PER_FLEET = 100
# The promises: issue "Plan and apply a real fleet", section Speed.
VERSION_FACTOR, VERSION_EXTRA_S = 1.5, 0.060
PLAN_MAX_S, PLAN_MAX_MIB = 1.5, 400
GROWTH_MAX = 12
VALIDATE_MAX_S = 1.5
SYNCS_MAX, CPU_MAX_MS = 1.0, 1.0
ENGINE_MAX_MS = 1.0


def main() -> int:
    """Prints the table of the parts named on the command line, or of all; 1 when a promise is broken."""
    chosen = sys.argv[1:]
    if unknown := set(chosen) - set(PARTS):
        print(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}", file=sys.stderr)
        return 1
    table = Table()
    with tempfile.TemporaryDirectory(prefix="fleetctl-bench-") as temporary:
        folder = Path(temporary)
        for name, part in PARTS.items():
            if chosen and name not in chosen:
                continue
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            part(table, folder)
    print(table)
    print(f"{os.cpu_count()} CPUs, Python {sys.version.split()[0]}, load {os.getloadavg()[0]:.1f}")
    return int(table.broken)


def _start(table: Table, folder: Path) -> None:
    del folder
    ours = process([FLEETCTL, "--version"])
    bare = process([sys.executable, "-c", "import click"])
    bound_s = VERSION_FACTOR * bare.wall_s + VERSION_EXTRA_S
    table.add(
        "fleetctl --version",
        _seconds(ours),
        f"import click: {_seconds(bare)}; {ours.wall_s / bare.wall_s:.2f} x",
        f"at most 1.5 x + 60 ms = {bound_s:.3f} s",
        ours.wall_s <= bound_s,
    )


def _validate(table: Table, folder: Path) -> None:
    made = gen_manifests.write(folder / "explicit", fleets=10, nodes=1000)
    ours = process([FLEETCTL, "validate", str(made)])
    _succeeded(ours)
    parse = (
        "import sys, yaml, pathlib\n"
        "for p in pathlib.Path(sys.argv[1]).glob('*.yaml'):\n"
        "    list(yaml.compose_all(p.read_text(), Loader=yaml.CSafeLoader))"
    )
    bare = process([sys.executable, "-c", parse, str(made)])
    table.add(
        "validate, 10,000 explicit nodes",
        _seconds(ours),
        f"yaml.compose alone: {_seconds(bare)}; {ours.wall_s / bare.wall_s:.1f} x",
        f"at most {VALIDATE_MAX_S} s",
        ours.wall_s <= VALIDATE_MAX_S,
    )


def _plan(table: Table, folder: Path) -> None:
    small = _plan_of(folder / "plan-10k", 10_000, runs=5)
    table.add(
        "plan --observed, 10,000 nodes",
        _seconds(small),
        "",
        f"at most {PLAN_MAX_S} s, {PLAN_MAX_MIB} MiB",
        small.wall_s <= PLAN_MAX_S and small.peak_mib <= PLAN_MAX_MIB,
    )
    _shares(table, "10,000", small)
    big = _plan_of(folder / "plan-100k", 100_000, runs=1)
    factor = big.wall_s / small.wall_s
    table.add(
        "plan --observed, 100,000 nodes",
        _seconds(big),
        f"{factor:.1f} x of 10,000",
        f"at most {GROWTH_MAX} x",
        factor <= GROWTH_MAX,
    )
    _shares(table, "100,000", big)


def _plan_of(folder: Path, nodes: int, runs: int) -> Sample:
    manifests, observed, state = large.write(folder, nodes // NODES_PER_FLEET, NODES_PER_FLEET)
    command = [FLEETCTL, "plan", str(manifests), "--observed", str(observed), "--state", str(state)]
    done = process(command, env={"FLEETCTL_TIMINGS": "1"}, runs=runs)
    _succeeded(done)
    return done


def _shares(table: Table, nodes: str, sample: Sample) -> None:
    found = re.findall(r"(\w+)=([0-9.]+)s", sample.errors)
    parts = [(name, float(took)) for name, took in found]
    whole_s = sample.last_wall_s
    rest = whole_s - sum(took for _, took in parts)
    shares = [f"{name} {took:.2f} s ({took / whole_s:.0%})" for name, took in [*parts, ("start", rest)]]
    table.note(f"phases of the plan of {nodes} nodes (one run): {', '.join(shares)}")


def _journal(table: Table, folder: Path) -> None:
    few, many = 100, 1100
    made = folder / "journal"
    made.mkdir()
    ours = journal.load(made, 1000)
    table.add(
        "journal: CPU per transition",
        f"{ours['cpu_ms']:.2f} ms",
        f"{ours['entry_b']:.0f} bytes an entry",
        f"under {CPU_MAX_MS:g} ms",
        ours["cpu_ms"] < CPU_MAX_MS,
    )
    table.add(
        "journal: wall clock per transition",
        f"{ours['wall_ms']:.2f} ms",
        f"append + fsync of a file: {ours['bare_ms']:.2f} ms; {ours['wall_ms'] / ours['bare_ms']:.1f} x",
    )
    first, second = journal.syncs(few), journal.syncs(many)
    if first is None or second is None:
        table.note("journal: strace is not there, so syncs were not counted")
        return
    each = (second - first) / (many - few)
    table.add(
        "journal: syncs per transition",
        f"{each:.3f}",
        f"{first - few * each:.0f} for opening, leases and checkpoints",
        f"at most {SYNCS_MAX:g}",
        each <= SYNCS_MAX,
    )


def _seconds(sample: Sample) -> str:
    return f"{sample.wall_s:.3f} s (CPU {sample.cpu_s:.2f} s, {sample.peak_mib:.0f} MiB)"


def _succeeded(sample: Sample) -> None:
    if sample.code != 0:
        raise SystemExit(f"exit {sample.code}\n{sample.output[-2000:]}\n{sample.errors[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())


def _engine(table: Table, folder: Path) -> None:
    from tests.simulator import cost

    del folder
    costs = [cost.measure(nodes) for nodes in cost.SIZES]
    shown = ", ".join(f"{c.median_ms:.3f} ms at {c.nodes:,}" for c in costs)
    worst = max(c.median_ms for c in costs)
    table.add(
        "engine CPU per step, median, by nodes", shown, "", f"below {ENGINE_MAX_MS} ms", worst < ENGINE_MAX_MS
    )


PARTS = {
    "start": _start,
    "validate": _validate,
    "plan": _plan,
    "review": lambda table, folder: review.measure(table, folder, FLEETCTL),
    "journal": _journal,
    "engine": _engine,
    "slope": lambda table, folder: slope.measure(table),
    "docker": lambda table, folder: docker.measure(table),
    "ssh": lambda table, folder: ssh.measure(table),
}
