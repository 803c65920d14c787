"""Throw-away unprivileged users of this machine, with /bin/sh, for sshd processes on loopback.

Their names hold the pid of the test process, so that runs side by side never share one, and a run that was cut off
leaves users that the next run recognises and removes.
"""

from __future__ import annotations

import os
import pwd
import re
import time
from dataclasses import dataclass
from pathlib import Path

from tests.lab.process import LabError, alive, end_pids, run

NAME = re.compile(r"flab(?P<pid>\d+)(?P<letter>[a-z]+)\Z")
LOCK_RETRIES = 50
LOCK_WAIT_S = 0.1
EXIT_PASSWD_LOCKED = 1
"""useradd and userdel say 1 when another process holds the lock of /etc/passwd."""


@dataclass(frozen=True)
class Account:
    """A user of this machine: name, ids, and home directory."""

    name: str
    uid: int
    gid: int
    home: Path


def add_account(homes: Path) -> Account:
    """Make a user with /bin/sh, no password, and a home below `homes`."""
    remove_stale()
    name = _free_name()
    home = homes / name
    home.mkdir(parents=True)
    options = ["--no-create-home", "--home-dir", str(home), "--shell", "/bin/sh", "--user-group"]
    # '*' means "no password fits"; '!' would mean a locked account, which sshd without PAM turns away.
    _retry(["useradd", *options, "--password", "*", "--key", "MAIL_DIR=/nonexistent", name])
    entry = pwd.getpwnam(name)
    os.chown(home, entry.pw_uid, entry.pw_gid)
    home.chmod(0o755)
    return Account(name, entry.pw_uid, entry.pw_gid, home)


def remove_account(name: str) -> None:
    """End what the user still runs and remove the user. Twice is harmless."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    end_pids(_processes_of(uid))
    _retry(["userdel", "--force", name])


def remove_stale() -> None:
    """Remove the users of test processes that are dead."""
    for entry in pwd.getpwall():
        match = NAME.match(entry.pw_name)
        if match and not alive(int(match["pid"])):
            remove_account(entry.pw_name)


def _free_name() -> str:
    taken = {entry.pw_name for entry in pwd.getpwall()}
    for letter in "abcdefghijklmnopqrstuvwxyz":
        name = f"flab{os.getpid()}{letter}"
        if name not in taken:
            return name
    raise LabError("26 users of this test process exist already")


def _processes_of(uid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _retry(argv: list[str]) -> None:
    done = run(argv, check=False)
    for _ in range(LOCK_RETRIES):
        if done.returncode != EXIT_PASSWD_LOCKED:
            break
        time.sleep(LOCK_WAIT_S)
        done = run(argv, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise LabError(f"{' '.join(argv)} exited {done.returncode}: {said}")
