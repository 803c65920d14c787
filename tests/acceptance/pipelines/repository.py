"""A repository with a fleet's manifests, as a forge holds it, and fresh shallow checkouts of it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.cli import Workspace

WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "someone"), ("EMAIL", "someone@example.invalid"))
}


def git(folder: Path, *arguments: str) -> str:
    """Runs git there, without anybody's own settings."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_GLOBAL": os.devnull, **WHO}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


@dataclass
class Repository:
    """The manifests lie in `fleet/` of a working tree, `upstream` is what checkouts are made from."""

    path: Path
    workspace: Workspace

    @classmethod
    def of(cls, path: Path, workspace: Workspace) -> Repository:
        """The repository at `path`, whose manifests are the workspace's."""
        made = cls(path, workspace)
        git(path, "init", "--quiet", "--initial-branch", "main")
        # As forges do: a commit that is named can be fetched, wherever it is.
        git(path, "config", "uploadpack.allowAnySHA1InWant", "true")
        return made

    def commit(self, message: str) -> str:
        """Commits everything that was written, and gives the commit."""
        git(self.path, "add", "--all")
        git(self.path, "commit", "--quiet", "--message", message)
        return git(self.path, "rev-parse", "HEAD")

    def checkout(self, target: Path, revision: str) -> Path:
        """A fresh checkout of one commit and nothing else, as runners make it."""
        target.mkdir(parents=True)
        git(target, "init", "--quiet", "--initial-branch", "main")
        git(target, "remote", "add", "origin", f"file://{self.path}")
        git(target, "fetch", "--quiet", "--no-tags", "--depth=1", "origin", revision)
        git(target, "checkout", "--quiet", "--detach", revision)
        return target
