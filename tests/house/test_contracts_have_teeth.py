"""Each import contract is broken once, in a skeleton of the house, and must notice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.sources import ROOT

SKELETON = (
    "manifests/__init__ manifests/validate manifests/load manifests/schema/__init__ manifests/schema/fleet "
    "planner/__init__ planner/observed planner/recorded planner/spec planner/change planner/graph planner/plan "
    "planner/diff planner/compat planner/budget planner/waves planner/check planner/make "
    "executors/__init__ executors/registry executors/inventory executors/clock "
    "executors/host/__init__ executors/host/driver executors/docker/__init__ executors/docker/driver "
    "executors/libvirt/__init__ executors/simulated/__init__ executors/simulated/driver "
    "fleetctl/__init__ fleetctl/version fleetctl/bootstrap fleetctl/cli/__init__ fleetctl/cli/main "
    "fleetctl/engine/__init__ fleetctl/engine/apply fleetctl/ledger/__init__ fleetctl/ledger/entries "
    "fleetctl/stores/__init__ fleetctl/stores/sqlite fleetctl/stores/memory fleetctl/cellz/__init__"
).split()

# Contract, module, and an import that it must not have.
BREACHES = [
    ("pipeline", "manifests/validate", "import planner.plan"),
    ("pipeline", "planner/make", "import executors.clock"),
    ("pipeline", "executors/inventory", "import fleetctl.version"),
    ("fleetctl-layers", "fleetctl/ledger/entries", "import fleetctl.engine.apply"),
    ("fleetctl-layers", "fleetctl/engine/apply", "import fleetctl.bootstrap"),
    ("fleetctl-layers", "fleetctl/stores/sqlite", "import fleetctl.cellz"),
    ("fleetctl-layers", "fleetctl/nowhere", ""),
    ("cellz-alone", "fleetctl/cellz/__init__", "import fleetctl.engine.apply"),
    ("cellz-unknown", "fleetctl/cli/main", "import fleetctl.cellz"),
    ("drivers-independent", "executors/host/driver", "import executors.simulated.driver"),
    ("drivers-independent", "executors/docker/driver", "import executors.registry"),
    ("drivers-named-once", "fleetctl/engine/apply", "import executors.host.driver"),
    ("drivers-named-once", "executors/inventory", "import executors.docker.driver"),
    ("stores-named-once", "fleetctl/cli/main", "import fleetctl.stores.sqlite"),
    ("nouns-only", "executors/host/driver", "import planner.waves"),
    ("pure", "planner/make", "import time"),
    ("pure", "planner/make", "import manifests.load"),
    ("pure", "manifests/schema/fleet", "import os.path"),
    ("pure", "fleetctl/ledger/entries", "from datetime import datetime\nimport logging"),
]


def lint(folder: Path, contract: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache", "--contract", contract],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def skeleton(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("skeleton")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name in SKELETON:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('"""A module."""\n', encoding="utf-8")
    (folder / "manifests" / "load.py").write_text("import pathlib\n", encoding="utf-8")
    return folder


def contracts() -> list[str]:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    return [contract["id"] for contract in tools["importlinter"]["contracts"]]


@pytest.mark.parametrize("contract", contracts())
def test_contract_accepts_the_skeleton(skeleton: Path, contract: str) -> None:
    result = lint(skeleton, contract)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(("contract", "module", "line"), BREACHES)
def test_contract_notices_a_breach(skeleton: Path, contract: str, module: str, line: str) -> None:
    path = skeleton / f"{module}.py"
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(f"{line}\n", encoding="utf-8")
    try:
        result = lint(skeleton, contract)
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_text(before, encoding="utf-8")
    assert result.returncode == 1
    assert module.removesuffix("/__init__").rpartition("/")[2] in result.stdout
    assert "0 kept, 1 broken" in result.stdout


def test_contracts_name_every_driver() -> None:
    """A new package in `executors` is a driver, unless it holds transports."""
    config = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    chosen = {c["id"]: c for c in tomllib.loads(config)["tool"]["importlinter"]["contracts"]}
    folders = {p.parent.name for p in (ROOT / "executors").glob("*/__init__.py")} - {"transports"}
    assert folders
    for driver in folders:
        assert f"({driver})" in chosen["drivers-independent"]["layers"][1]
        assert f"executors.{driver}" in chosen["drivers-named-once"]["protected_modules"]


def test_every_contract_is_tried() -> None:
    assert {contract for contract, _, _ in BREACHES} == set(contracts())
