"""The SSH and Docker examples run as their READMEs write them, on throw-away hosts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.quickstart import free_ports
from tests.house.sources import ROOT
from tests.lab.docker_engine import DockerEngine
from tests.lab.process import free_port, missing_programs

STEP_TIMEOUT_S = 120


def _commands(readme: Path) -> list[str]:
    """The lines after `$ ` in the README's console blocks, as they stand."""
    blocks = re.findall(r"```console\n(.*?)```", readme.read_text(), flags=re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def _copy(name: str, target: Path, ports: dict[str, int]) -> Path:
    """The example beside the quickstart, whose artifacts it uses, on ports of its own."""
    for each in ("quickstart", name):
        ignored = shutil.ignore_patterns(".fleetctl", ".hosts", ".images", "__pycache__")
        shutil.copytree(ROOT / "examples" / each, target / each, ignore=ignored)
    folder = target / name
    path = folder / "fleet.yaml"
    text = path.read_text()
    for old, new in ports.items():
        assert old in text
        text = text.replace(old, str(new))
    path.write_text(text)
    return folder


def _run(folder: Path, lines: list[str], env: dict[str, str]) -> list[str]:
    """Runs the README's lines in one shell each; every one must succeed. Gives what each printed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    said = []
    for line in lines:
        done = subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=folder,
            env={**os.environ, "PATH": path, **env},
            capture_output=True,
            text=True,
            timeout=STEP_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}\n{done.stderr}"
        said.append(done.stdout)
    return said


@pytest.mark.ssh
def test_the_ssh_example_runs_as_written(tmp_path: Path) -> None:
    if reason := missing_programs("sshd", "ssh-keygen"):
        pytest.skip(reason)
    first = free_ports(3)
    folder = _copy("ssh", tmp_path, {f"1818{n + 1}": first + n for n in range(3)})
    lines = _commands(folder / "README.md")
    assert lines[1] == "./hosts.sh up"
    assert lines[-1] == "./hosts.sh down"
    env = {"PORT": str(free_port())}
    try:
        said = _run(folder, lines[1:-1], env)
    finally:
        # The README's own destroy has done it, unless a line before it has failed.
        _run(folder, [f"{lines[-2]} || :", lines[-1]], env)
    assert "3 of 3 available" in said[2]
    assert "never below 2 of 3" in said[3]
    assert "No changes" in said[4]
    assert not (folder / ".hosts").exists()


@pytest.mark.docker
def test_the_docker_example_runs_as_written(tmp_path: Path, docker_engine: DockerEngine) -> None:
    """On the laboratory's engine, which the example is told of by a variable."""
    first = free_ports(3)
    folder = _copy("docker", tmp_path, {"18281 ": f"{first} "})
    lines = _commands(folder / "README.md")
    assert lines[1] == "./images.sh"
    engine = f" --var engine={docker_engine.url}"
    said = _run(folder, [line + engine if line.startswith("fleetctl") else line for line in lines[1:]], {})
    assert "3 of 3 available" in said[2]
    assert "No changes" in said[4]
    assert docker_engine.out("ps", "-aq", "--filter", "label=fleetctl.fleet=pages") == ""
