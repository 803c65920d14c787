"""The wire contract of cellz 0.2.1, case by case on a real socket; with CELLZ_PEER also against the original."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.cellz import casefiles
from tests.cellz.running import NodeProcess, running
from tests.lab.process import free_port


@pytest.fixture(scope="module", params=["interval:1s", "commit", "evict"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running(tmp_path_factory.mktemp("contract"), sync=request.param) as started:
        yield started


@pytest.mark.parametrize(("file", "case"), casefiles.case_names())
def test_case(node: NodeProcess, file: str, case: str) -> None:
    variables = casefiles.fresh_variables()
    with node.client() as client:
        for step in casefiles.load(file)[case]:
            answer = casefiles.run_step(client, step, variables)
            casefiles.check(step, answer, variables)


def test_every_intended_difference_is_used_by_a_case() -> None:
    used = {
        step["differs"]
        for file, case in casefiles.case_names()
        for step in casefiles.load(file)[case]
        if "differs" in step
    }
    assert used | {"error-body"} == set(casefiles.intended())


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The original, built elsewhere; CELLZ_PEER names its program."""
    program = os.environ.get("CELLZ_PEER")
    if not program:
        pytest.skip("set CELLZ_PEER to the program of cellz 0.2.1 to compare with it")
    folder = tmp_path_factory.mktemp("peer")
    port = free_port()
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("CELLZ_")},
        "CELLZ_HOST": "127.0.0.1",
        "CELLZ_PORT": str(port),
        "CELLZ_DATA_DIR": str(folder / "data"),
        "CELLZ_STORAGE_DIR": str(folder / "storage"),
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program], env=environment, stdout=log, stderr=log, cwd=folder)
    address = f"http://127.0.0.1:{port}"
    try:
        _await(address)
        yield address
    finally:
        process.kill()
        process.wait()


def _await(address: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            httpx.get(address + "/health", timeout=5)
            return
        except httpx.HTTPError:
            time.sleep(0.05)
    raise AssertionError(f"nothing answers at {address}")


def test_replayed_on_both_only_intended_differences_show(
    peer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every case on both nodes; the differences are printed, and each must be named."""
    found: list[str] = []
    unnamed: list[str] = []
    with running(tmp_path) as ours, ours.client() as here, httpx.Client(base_url=peer, timeout=60) as there:
        for file, case in casefiles.case_names():
            mine = casefiles.fresh_variables()
            its = dict(mine)
            for number, step in enumerate(casefiles.load(file)[case]):
                name = step.get("differs", "")
                if "take" in step and name:
                    continue  # the original would keep a stream open that never says anything
                first = casefiles.shape(casefiles.run_step(here, step, mine))
                try:
                    second = casefiles.shape(casefiles.run_step(there, step, its))
                except (KeyError, TypeError, IndexError):
                    second = {"status": "nothing to capture"}
                if first["status"] == second["status"] and first["status"] in (400, 413, 415, 422):
                    continue  # named error-body: the framework's own text
                if first != second:
                    line = f"{file}: {case}: step {number}: {name or 'UNNAMED'}: {first} / {second}"
                    (found if name else unnamed).append(line)
    with capsys.disabled():
        print("\n".join(["", *found]))
    assert unnamed == []
