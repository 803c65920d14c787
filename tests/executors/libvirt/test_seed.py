"""What a guest is given lies on a small disk that cloud-init finds by its label."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest

from executors.libvirt import seed
from manifests.secret import Secret
from planner.plan import StepKind
from planner.spec import FileSpec, SecretUse
from tests.executors.libvirt.nodes import UID, operation, spec

pycdlib = pytest.importorskip("pycdlib", reason="pip install 'fleetctl[libvirt]'")

SECRETS = {"env:TOKEN": Secret('to"k$n')}
GIVEN = spec(
    env={"B": "b c", "A": SecretUse(secret="env:TOKEN")},
    files=(
        FileSpec(path="/etc/node.conf", content="x = 1\n", mode="0640"),
        FileSpec(path="network-config", content="version: 2\n"),
        FileSpec(path="deep/er/key", secret="env:TOKEN"),
    ),
)


def test_the_seed_says_who_the_guest_is_and_what_it_runs() -> None:
    found = seed.files(operation(StepKind.CREATE, GIVEN, generation=3), SECRETS)
    assert json.loads(found["meta-data"]) == {"instance-id": f"{UID}-3", "local-hostname": "guest-0"}
    head, _, body = found["user-data"].partition(b"\n")
    assert head == b"#cloud-config"
    data = json.loads(body)
    assert data["runcmd"] == [["node", "--serve"]]
    conf, env = data["write_files"]
    assert (conf["path"], conf["permissions"], conf["encoding"]) == ("/etc/node.conf", "0640", "b64")
    assert (env["path"], env["permissions"]) == ("/etc/fleetctl/env", "0600")
    assert found["network-config"] == b"version: 2\n"
    assert found["deep/er/key"] == b'to"k$n'


def test_variables_are_read_by_a_shell_as_they_were_written(tmp_path: Path) -> None:
    body = seed.files(operation(StepKind.CREATE, GIVEN), SECRETS)["user-data"].partition(b"\n")[2]
    (tmp_path / "env").write_text(json.loads(body)["write_files"][1]["content"])
    said = subprocess.run(
        ["sh", "-c", '. ./env; printf "%s|%s" "$A" "$B"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == 'to"k$n|b c'


def test_user_data_of_the_operators_own_is_taken_as_it_is() -> None:
    own = spec(files=(FileSpec(path="user-data", content="#cloud-config\nusers: []\n"),))
    assert seed.files(operation(StepKind.CREATE, own), {})["user-data"] == b"#cloud-config\nusers: []\n"


def test_the_disk_holds_the_files_under_their_names() -> None:
    content = {"meta-data": b"m", "user-data": b"u", "deep/er/key": b"k", "empty": b""}
    disk = pycdlib.PyCdlib()
    disk.open_fp(io.BytesIO(seed.iso(content)))
    try:
        assert disk.pvd.volume_identifier.decode().strip() == "cidata"
        for path, data in content.items():
            for kind in ("rr_path", "joliet_path"):
                out = io.BytesIO()
                disk.get_file_from_iso_fp(out, **{kind: f"/{path}"})
                assert out.getvalue() == data, (kind, path)
    finally:
        disk.close()
