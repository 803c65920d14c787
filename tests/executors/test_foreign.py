"""What is read of containers and units that fleetctl did not make, and what of them cannot be carried over."""

from __future__ import annotations

from typing import Any

import pytest

from executors.docker.foreign import read as read_container
from executors.foreign import NotThere
from executors.host.foreign import command
from executors.host.foreign import read as read_unit

PIN = "sha256:" + "a" * 64
IMAGE: dict[str, Any] = {
    "RepoDigests": [f"registry.invalid/app@{PIN}"],
    "Config": {
        "Env": ["PATH=/bin", "MODE=image"],
        "WorkingDir": "/srv",
        "Labels": {"org.opencontainers.image.version": "1.2.3"},
    },
}
CONTAINER: dict[str, Any] = {
    "Name": "/app",
    "State": {"Running": True},
    "Config": {
        "Image": "registry.invalid/app:1.2",
        "Env": ["PATH=/bin", "MODE=mine", "EXTRA=a=b"],
        "Entrypoint": ["/app"],
        "Cmd": ["--serve"],
        "User": "1000",
        "WorkingDir": "/srv",
    },
    "HostConfig": {
        "NetworkMode": "default",
        "RestartPolicy": {"Name": "always"},
        "PortBindings": {
            "8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18080"}],
            "9090/tcp": [{"HostIp": "", "HostPort": "19090"}],
        },
        "CapAdd": ["CAP_NET_BIND_SERVICE"],
        "Memory": 64 * 2**20,
        "PidsLimit": 32,
    },
    "Mounts": [
        {"Type": "volume", "Name": "data", "Destination": "/data"},
        {"Type": "bind", "Source": "/etc/app", "Destination": "/etc/app"},
    ],
}
UNIT = """fleetctl-foreign 1
Id=app.service
LoadState=loaded
ActiveState=active
MainPID=12
User=app
DynamicUser=no
Environment=A=1 "B=x y"
EnvironmentFiles=/etc/default/app (ignore_errors=no)
WorkingDirectory=/srv/app
MemoryMax=1048576
TasksMax=100
exe={exe}
cmdline={cmdline}
file={digest}  {path}
arch=x86_64
end
"""


def test_a_container_is_read_with_what_cannot_be_carried_over() -> None:
    found = read_container(CONTAINER, IMAGE, "box")
    assert (found.artifact, found.digest, found.version) == (f"registry.invalid/app:1.2@{PIN}", PIN, "1.2.3")
    assert found.command == ("/app", "--serve")
    assert found.env == {"MODE": "mine", "EXTRA": "a=b"}, "what the image says itself is not repeated"
    assert (found.port, found.settings["port"], found.settings["bind"]) == (18080, 8080, "127.0.0.1")
    assert found.settings["capabilities"] == ["NET_BIND_SERVICE"]
    assert found.limits == {"memory": "67108864B", "processes": 32}
    assert found.volumes == (("data", "/data"),)
    said = " ".join(found.lost)
    for what in ("19090", "/etc/app is not mounted", "default capabilities"):
        assert what in said


def test_a_node_of_fleetctl_and_an_image_without_a_digest_are_refused() -> None:
    ours = {
        **CONTAINER,
        "Config": {**CONTAINER["Config"], "Labels": {"fleetctl.uid": "u", "fleetctl.fleet": "f"}},
    }
    with pytest.raises(NotThere, match="a node of fleet/f already"):
        read_container(ours, IMAGE, "box")
    with pytest.raises(NotThere, match="has no digest in any registry"):
        read_container(CONTAINER, {**IMAGE, "RepoDigests": []}, "box")


def unit(exe: str, *argv: str, path: str) -> bytes:
    line = b"\0".join(word.encode() for word in argv) + b"\0"
    return UNIT.format(exe=exe, cmdline=line.hex(), digest="a" * 64, path=path).encode()


def test_a_unit_is_read_from_its_main_process() -> None:
    found = read_unit(unit("/usr/bin/app", "app", "--x", "a b", path="/usr/bin/app"), "h", "app.service")
    assert (found.name, found.artifact, found.digest) == ("app", "/usr/bin/app", PIN)
    assert found.command == ("/usr/bin/app", "--x", "a b")
    assert (found.env, found.user, found.limits) == ({"A": "1", "B": "x y"}, "app", {"memory": "1048576B"})
    said = " ".join(found.lost)
    for what in ("/etc/default/app", "/srv/app"):
        assert what in said


def test_of_an_interpreter_the_file_that_it_runs_is_the_program() -> None:
    answer = unit("/usr/bin/python3.11", "python3", "/srv/app.py", "--x", path="/srv/app.py")
    found = read_unit(answer, "h", "app.service")
    assert (found.artifact, found.command) == ("/srv/app.py", ("python3", "/srv/app.py", "--x"))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"fleetctl-foreign 1\nLoadState=not-found\nend\n",
        b"fleetctl-foreign 1\nLoadState=loaded\nend\n",
        unit("/usr/bin/app", "app", path="/other"),
    ],
)
def test_what_is_not_there_or_not_readable_is_said(answer: bytes) -> None:
    with pytest.raises(NotThere):
        read_unit(answer, "h", "app.service")


def test_the_units_name_is_quoted() -> None:
    assert command("a'b; rm -rf.service").stdin.startswith(b"unit='a'\\''b; rm -rf.service'\n")
