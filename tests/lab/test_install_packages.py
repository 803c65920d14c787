"""The installer says what it does, does it once, and leaves the machine's policy as it was."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.process import run

INSTALLER = Path(__file__).with_name("install-packages.sh")


def install(
    *words: str, path: str | None = None, user: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the installer, perhaps with another PATH or as another user."""
    argv = ["/bin/sh", str(INSTALLER), *words]
    if user is not None:
        argv = ["setpriv", "--reuid", user, "--clear-groups", "--", *argv]
    env = {**os.environ, "PATH": path or os.environ["PATH"]}
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, check=False)


def fake_program(directory: Path, name: str, script: str) -> None:
    """Put a shell script in the place of a program."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def test_installer_refuses_an_unknown_set() -> None:
    done = install("kubernetes")
    assert done.returncode == 2
    assert "unknown set 'kubernetes'" in done.stderr


def test_installer_says_that_this_is_no_debian(tmp_path: Path) -> None:
    done = install(path=str(tmp_path))
    assert done.returncode == 4
    assert "not a Debian or Ubuntu machine" in done.stderr


def test_installer_names_what_is_missing_and_needs_root_for_it(tmp_path: Path) -> None:
    """A machine without the packages, seen by a plain user: the names, and the command that installs them."""
    if os.geteuid() != 0:
        pytest.skip("needs root to become another user")
    fakes = tmp_path / "fakes"
    fake_program(fakes, "dpkg-query", "exit 1")
    tmp_path.chmod(0o755)
    path = f"{fakes}:{os.environ['PATH']}"
    assert "docker.io" in install("--check", path=path).stdout
    with readable_by_all(fakes) as open_fakes:
        done = install(path=f"{open_fakes}:/usr/bin:/bin", user="nobody")
    assert done.returncode == 5
    assert "must run as root" in done.stderr
    assert "docker.io" in done.stderr


@contextlib.contextmanager
def readable_by_all(directory: Path) -> Iterator[Path]:
    """A copy of a directory that every user can reach (pytest's own is private)."""
    copy = Path(run(["mktemp", "-d", "/tmp/flab-fakes-XXXXXX"]).stdout.decode().strip())
    try:
        for entry in directory.iterdir():
            (copy / entry.name).write_bytes(entry.read_bytes())
            (copy / entry.name).chmod(0o755)
        copy.chmod(0o755)
        yield copy
    finally:
        for entry in copy.iterdir():
            entry.unlink()
        copy.rmdir()


def test_installer_gives_back_the_service_policy_when_apt_fails(tmp_path: Path) -> None:
    """While apt runs no service may start; afterwards the machine's own policy is back, byte for byte."""
    if os.geteuid() != 0:
        pytest.skip("needs root to change the machine's service policy")
    policy = Path("/usr/sbin/policy-rc.d")
    before = policy.read_bytes() if policy.exists() else None
    fakes = tmp_path / "fakes"
    fake_program(fakes, "dpkg-query", "exit 1")
    fake_program(fakes, "apt-get", f"cat {policy} >>{tmp_path}/seen; exit 100")
    done = install(path=f"{fakes}:{os.environ['PATH']}")
    assert done.returncode != 0
    assert "exit 101" in (tmp_path / "seen").read_text()
    assert (policy.read_bytes() if policy.exists() else None) == before
