"""A real git repository of manifests, whose commits have the same ids wherever and whenever it is made."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.cli import FLEETCTL, RUN_TIMEOUT_S, Result

# Nobody's name and a fixed moment: commit ids are digests of them.
_WHO = {
    "GIT_AUTHOR_NAME": "nobody",
    "GIT_AUTHOR_EMAIL": "nobody@example.invalid",
    "GIT_AUTHOR_DATE": "2030-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "nobody",
    "GIT_COMMITTER_EMAIL": "nobody@example.invalid",
    "GIT_COMMITTER_DATE": "2030-01-01T00:00:00Z",
    # Whatever the machine's own configuration says of signatures, hooks and branch names.
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ALLOW_PROTOCOL": "file",
}


@dataclass
class GitRepository:
    """A working tree at `path` on the branch main."""

    path: Path

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch", "main", "--object-format", "sha1")

    def git(self, *arguments: str) -> str:
        """What git says; it must succeed."""
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments],
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def commit(self, files: Mapping[str, str], message: str = "change") -> str:
        """Writes files and commits all there is; the commit's id."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        dropped = ("FLEETCTL_", "PYTEST_", "GIT_", "GITHUB_")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        return {**kept, **_WHO, "NO_COLOR": "1", "LC_ALL": "C.UTF-8", **(env or {})}

    def run(self, *args: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Result:
        """Runs fleetctl inside the repository."""
        done = subprocess.run(
            [FLEETCTL, *args],
            cwd=cwd or self.path,
            env=self.environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=RUN_TIMEOUT_S,
        )
        return Result(done.returncode, done.stdout, done.stderr)
