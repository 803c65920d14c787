"""The file tree of a whole Debian host with systemd, sshd and sudo: built once by debootstrap, cached as a tar."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from tests.lab.cache import cache_dir, locked
from tests.lab.docker_engine import DockerEngine
from tests.lab.process import missing_programs, missing_root, run

BUILD_TIMEOUT_S = 900.0
MIRROR_ENV = "FLEETCTL_LAB_MIRROR"
"""A Debian mirror to build from; without it debootstrap uses the one it knows."""

REFERENCE = "lab/host:1"
BUILD_SCRIPT = Path(__file__).with_name("build-host-tree.sh")


def missing() -> str | None:
    """Why the tree cannot be built here, in one line, or None; a cached tree needs nothing."""
    if host_tree_path().exists():
        return None
    return missing_programs("debootstrap", "unshare", "tar") or missing_root()


def host_tree_path() -> Path:
    """Where the tar is kept: the name changes with the recipe and with the release of the machine."""
    recipe = hashlib.sha256(BUILD_SCRIPT.read_bytes() + _suite().encode()).hexdigest()[:12]
    return cache_dir() / f"host-{_suite()}-{recipe}.tar"


def host_tree() -> Path:
    """Path of the tar, built first if the cache has none (about a minute); one build at a time on a machine."""
    path = host_tree_path()
    if path.exists():
        return path
    with locked("host-tree", timeout_s=BUILD_TIMEOUT_S):
        if path.exists():
            return path
        work = Path(tempfile.mkdtemp(prefix="host-tree-", dir=cache_dir()))
        try:
            # A mount namespace of its own: what debootstrap mounts is gone with it, also when it is killed.
            argv = [
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                BUILD_SCRIPT,
                _suite(),
                work,
            ]
            run([*argv, os.environ.get(MIRROR_ENV, "")], timeout_s=BUILD_TIMEOUT_S)
            (work / "host.tar").rename(path)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return path


def load_host_image(engine: DockerEngine) -> str:
    """Bring the host image into an engine (once) and return its reference."""
    if engine.docker("image", "inspect", REFERENCE, check=False).returncode != 0:
        engine.docker("import", str(host_tree()), REFERENCE, timeout_s=BUILD_TIMEOUT_S)
    return REFERENCE


def _suite() -> str:
    """Code name of the machine's own release, so that its archive keys fit."""
    for line in Path("/etc/os-release").read_text().splitlines():
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"')
    return "stable"
