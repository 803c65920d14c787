"""A review of 10,000 nodes: two revisions of a real repository, the newer of which upgrades every node."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.bench import gen_manifests
from tests.bench.measure import Sample, process
from tests.bench.table import Table

FLEETS, NODES = 100, 100
REVIEW_MAX_S = 3.0


def measure(table: Table, folder: Path, fleetctl: str) -> None:
    """Adds the rows: nodes counted in groups, and nodes written out one by one."""
    for name, counted in (("counted", True), ("explicit", False)):
        repository = write(folder / f"review-{name}", counted=counted)
        for form in ("human", "markdown") if counted else ("human",):
            done = _review(repository, fleetctl, form)
            table.add(
                f"review of two revisions, 10,000 {name} nodes, {form}",
                f"{done.wall_s:.3f} s (CPU {done.cpu_s:.2f} s, {done.peak_mib:.0f} MiB)",
                "",
                f"under {REVIEW_MAX_S:g} s",
                done.wall_s < REVIEW_MAX_S,
            )


def write(folder: Path, *, counted: bool) -> Path:
    """A repository with two commits: all nodes at 1.0.0, then all at 1.1.0."""
    gen_manifests.write(folder, fleets=FLEETS, nodes=NODES, counted=counted, version="1.0.0")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "one")
    gen_manifests.write(folder, fleets=FLEETS, nodes=NODES, counted=counted, version="1.1.0")
    git(folder, "commit", "--quiet", "--all", "--message", "two")
    return folder


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True)


def _review(repository: Path, fleetctl: str, form: str) -> Sample:
    command = [fleetctl, "review", "HEAD~1", "HEAD", "-f", str(repository), "--format", form]
    done = process(command, env={"FLEETCTL_TIMINGS": "1"}, runs=5)
    if done.code != 0:
        raise SystemExit(f"exit {done.code}\n{done.output[-2000:]}\n{done.errors[-2000:]}")
    return done
