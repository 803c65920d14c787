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


class Machines(Workspace):
    """The fleet's manifests; its nodes live in the folder `machine`, which belongs to no checkout."""

    @property
    def machine(self) -> Path:
        return self.path.parent.parent / "machine"

    def write_releases(self) -> None:
        super().write_releases()
        path = self.path / "releases.yaml"
        path.write_text(path.read_text().replace("root: ./host", f"root: {self.machine}"))

    def close(self) -> None:
        super().close()
        Workspace(self.machine).close()


def git(folder: Path, *arguments: str) -> str:
    """Runs git there, without anybody's own settings."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        **WHO,
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"git {' '.join(arguments)}: {done.stderr}"
    return done.stdout.strip()


@dataclass
class Repository:
    """The manifests lie in `fleet/` of a working tree, `upstream` is what checkouts are made from."""

    path: Path
    workspace: Workspace | None

    @classmethod
    def of(cls, path: Path, workspace: Workspace | None = None) -> Repository:
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

    def changed(self, before: str, after: str) -> list[str]:
        """The files that differ between two commits."""
        return git(self.path, "diff", "--name-only", before, after).splitlines()

    def pull(self, number: int, base: str, head: str) -> str:
        """What a pull request would become, as forges keep it: the merge commit of `refs/pull/N/merge`."""
        tree = git(self.path, "merge-tree", "--write-tree", base, head)
        merge = git(self.path, "commit-tree", tree, "-p", base, "-p", head, "-m", f"Merge {head} into {base}")
        git(self.path, "update-ref", f"refs/pull/{number}/merge", merge)
        return merge

    def checkout(self, target: Path, revision: str, depth: int = 1) -> Path:
        """A fresh checkout of one commit, as runners make it: with `depth` commits of the history and no more."""
        target.mkdir(parents=True)
        git(target, "init", "--quiet", "--initial-branch", "main")
        git(target, "remote", "add", "origin", f"file://{self.path}")
        git(target, "fetch", "--quiet", "--no-tags", f"--depth={depth}", "origin", revision)
        git(target, "checkout", "--quiet", "--detach", revision)
        return target
