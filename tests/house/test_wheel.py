"""What ships works: the wheel, in a clean environment, outside the checkout.

`planner`, `executors` and `manifests` are generic names, and package data breaks silently: a table that is
there in the checkout may be missing in the wheel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.examples.quickstart import answering, copy_quickstart, free_ports
from tests.house.sources import PACKAGES, ROOT, tracked_files

# Building, and installing all dependencies from the package index, takes most of it.
pytestmark = pytest.mark.timeout(600)


@dataclass(frozen=True)
class Installed:
    """A clean environment with nothing but the wheel and what it asks for."""

    bin: Path

    def run(self, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.bin}{os.pathsep}/usr/local/bin{os.pathsep}/usr/bin{os.pathsep}/bin",
            "HOME": str(cwd),
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            [str(self.bin / "fleetctl"), *arguments],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("fleetctl-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    home = tmp_path_factory.mktemp("clean")
    venv.create(home, with_pip=True)
    subprocess.run(
        [
            str(home / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            str(wheel),
        ],
        check=True,
        cwd=home,
    )
    return Installed(home / "bin")


@pytest.fixture
def quickstart(installed: Installed, tmp_path: Path) -> Iterator[tuple[Path, int]]:
    first_port = free_ports(3)
    folder = copy_quickstart(tmp_path, first_port)
    yield folder, first_port
    if answering(first_port):
        installed.run("recover", ".", "--auto-approve", cwd=folder)
        installed.run("destroy", ".", "--auto-approve", cwd=folder)


def test_wheel_holds_every_file_of_the_packages_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = {
        p.relative_to(ROOT).as_posix() for p in tracked_files() if p.relative_to(ROOT).parts[0] in PACKAGES
    }
    assert tracked
    assert tracked - shipped == set()
    assert {name for name in shipped if name.partition("/")[0] not in PACKAGES} == set()


def test_installed_command_tells_the_version_of_the_source(installed: Installed, tmp_path: Path) -> None:
    namespace: dict[str, str] = {}
    exec((ROOT / "fleetctl" / "version.py").read_text(encoding="utf-8"), namespace)
    result = installed.run("--version", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert namespace["__version__"] in result.stdout


def test_installed_command_runs_the_quickstart(installed: Installed, quickstart: tuple[Path, int]) -> None:
    """Validate, plan, apply, no changes, roll, refuse, destroy: with the wheel alone."""
    folder, first_port = quickstart
    journey = [
        (0, ("validate", ".")),
        (2, ("plan", ".", "--detailed-exitcode")),
        (0, ("apply", ".", "--auto-approve")),
        (0, ("plan", ".", "--detailed-exitcode")),
        (0, ("apply", ".", "--var", "version=1.1.0", "--auto-approve")),
        (3, ("plan", ".", "--var", "version=2.0.0")),
        (0, ("plan", ".", "--var", "version=1.1.0", "--detailed-exitcode")),
    ]
    for expected, arguments in journey:
        result = installed.run(*arguments, cwd=folder)
        assert result.returncode == expected, f"{arguments}\n{result.stdout}\n{result.stderr}"
    assert len(answering(first_port)) == 3
    result = installed.run("destroy", ".", "--auto-approve", cwd=folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert answering(first_port) == []
