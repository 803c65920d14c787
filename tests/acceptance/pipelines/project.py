"""This project as others use it: a git repository of its own, from which actions and hooks are fetched by commit."""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.pipelines.repository import git
from tests.house.sources import ROOT, tracked_files


@dataclass(frozen=True)
class Project:
    """The repository's folder, and the commit of the files as they are now."""

    path: Path
    commit: str

    def unpacked(self, target: Path) -> Path:
        """The files of the commit without the repository, as GitHub's runner fetches an action."""
        archive = subprocess.run(
            ["git", "archive", "--format=zip", self.commit], cwd=self.path, check=True, capture_output=True
        )
        with zipfile.ZipFile(io.BytesIO(archive.stdout)) as files:
            files.extractall(target)
        return target


def project(path: Path) -> Project:
    """The files that git tracks here, in a new repository, with what was changed since the last commit."""
    for file in tracked_files():
        target = path / file.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target)
    return committed(path)


def committed(path: Path) -> Project:
    """A folder's files as a repository of one commit."""
    git(path, "init", "--quiet", "--initial-branch", "main")
    git(path, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(path, "add", "--all", "--force")
    git(path, "commit", "--quiet", "--message", "this project")
    return Project(path, git(path, "rev-parse", "HEAD"))
