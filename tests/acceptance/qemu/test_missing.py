"""Without the libvirt binding everything else works, and a group on qemu gets one error that says what to install."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from tests.acceptance.cli import FLEETCTL

MANIFEST = """\
api_version: fleetctl/v1
kind: Release
product: node
version: "1.0.0"
artifacts:
  - {{substrate: qemu, source: ./image, digest: "{digest}"}}
  - {{substrate: host, source: ./image, digest: "{digest}"}}
---
api_version: fleetctl/v1
kind: Fleet
name: f
trust_domain: t
release: {{product: node, version: "1.0.0"}}
rollout: {{max_unavailable: 1}}
groups:
  - {{name: g, count: 2, substrate: {substrate}, process: {{command: [x]}}}}
"""


def fleetctl(path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The command where `import libvirt` fails as it does where nothing is installed."""
    (path / "libvirt.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'libvirt'\", name='libvirt')\n"
    )
    return subprocess.run(
        [FLEETCTL, *args],
        cwd=path,
        env={**os.environ, "PYTHONPATH": str(path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def write(path: Path, substrate: str) -> None:
    (path / "image").write_bytes(b"image")
    digest = f"sha256:{hashlib.sha256(b'image').hexdigest()}"
    (path / "fleet.yaml").write_text(MANIFEST.format(digest=digest, substrate=substrate))


def test_a_group_on_qemu_is_told_once_what_to_install(tmp_path: Path) -> None:
    write(tmp_path, "qemu")
    assert fleetctl(tmp_path, "validate", "fleet.yaml").returncode == 0
    for command in ("plan", "apply"):
        done = fleetctl(tmp_path, command, "fleet.yaml", *(["--auto-approve"] if command == "apply" else []))
        said = done.stdout + done.stderr
        assert done.returncode == 3, said
        assert said.count("pip install 'fleetctl[libvirt]'") == 1, said
        assert "Traceback" not in said


def test_other_groups_do_not_need_it(tmp_path: Path) -> None:
    write(tmp_path, "host")
    done = fleetctl(tmp_path, "plan", "fleet.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "libvirt" not in done.stdout + done.stderr
