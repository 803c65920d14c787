"""The SSH and Docker examples run as their READMEs write them, on throw-away hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import run_page
from tests.docs.reader import Reader, follows
from tests.examples.copies import copy_example
from tests.examples.quickstart import free_ports
from tests.lab.docker_engine import DockerEngine
from tests.lab.process import free_port, missing_programs

STEP_TIMEOUT_S = 120.0


@pytest.mark.ssh
@follows("examples/ssh/README.md")
def test_the_ssh_example_runs_as_written(reader: Reader, tmp_path: Path) -> None:
    if reason := missing_programs("sshd", "ssh-keygen"):
        pytest.skip(reason)
    first = free_ports(3)
    copy_example("quickstart", tmp_path)
    ports = {f"1818{n + 1}": str(first + n) for n in range(3)}
    folder = reader.path = copy_example("ssh", tmp_path, ports)
    reader.timeout_s = STEP_TIMEOUT_S
    reader.env["PORT"] = str(free_port())
    reader.run("export PATH=")
    destroy, down = (command.line for command in reader.left()[-2:])
    try:
        reader.run("./hosts.sh up")
        reader.run("fleetctl apply")
        assert "3 of 3 available" in reader.run("fleetctl status")
        assert "never below 2 of 3" in reader.run("fleetctl apply")
        assert "No changes" in reader.run("fleetctl plan")
        reader.run("fleetctl gc")
        reader.run("fleetctl destroy")
        reader.run("./hosts.sh down")
    finally:
        # The README's own lines have done it, unless one before them has failed.
        for line in (destroy, down) if (folder / ".hosts").exists() else ():
            run_page.in_shell(line, reader, STEP_TIMEOUT_S)
    assert not (folder / ".hosts").exists()


@pytest.mark.docker
@follows("examples/docker/README.md")
def test_the_docker_example_runs_as_written(
    reader: Reader, tmp_path: Path, docker_engine: DockerEngine
) -> None:
    """On the laboratory's engine, which the example is told of by a variable."""
    copy_example("quickstart", tmp_path)
    reader.path = copy_example("docker", tmp_path, {"18281 ": f"{free_ports(3)} "})
    reader.timeout_s = STEP_TIMEOUT_S
    engine = f"--var engine={docker_engine.url}"
    reader.run("export PATH=")
    reader.run("./images.sh")
    reader.run("fleetctl apply", more=engine)
    assert "3 of 3 available" in reader.run("fleetctl status", more=engine)
    reader.run("fleetctl apply", more=engine)
    assert "No changes" in reader.run("fleetctl plan", more=engine)
    reader.run("fleetctl destroy", more=engine)
    assert docker_engine.out("ps", "-aq", "--filter", "label=fleetctl.fleet=pages") == ""
