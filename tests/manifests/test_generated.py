"""What the benchmarks generate is valid, in both forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from manifests.load import load
from tests.bench.gen_manifests import write


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(("fleets", "nodes"), [(1, 1000), (30, 40)])
def test_generated_manifests_are_valid(tmp_path: Path, counted: bool, fleets: int, nodes: int) -> None:
    manifests = load([write(tmp_path / "m", fleets=fleets, nodes=nodes, counted=counted)])
    assert manifests.warnings == ()
    groups = [g for f in manifests.fleets.values() for g in f.groups]
    assert sum(len(g.nodes or ()) + (g.count or 0) for g in groups) == fleets * nodes
