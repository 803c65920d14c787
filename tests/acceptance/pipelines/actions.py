"""Stand-ins for the actions of GitHub that our workflow uses; each fails on an input that it does not know.

What they do is what their documentation says: a checkout is a real clone over HTTP that leaves its token behind, an
artifact is a folder that outlives the machine and is never written twice.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.pipelines.repository import git

RETENTION_DAYS_MAX = 90


@dataclass(frozen=True)
class Place:
    """Where a step is: the job's workspace, the run's artifacts, and what the run is about."""

    workspace: Path
    artifacts: Path
    server: str
    repository: str
    ref: str
    sha: str
    token: str


@dataclass(frozen=True)
class Step:
    """What a stand-in takes and gives, and how it ends: its log, or RuntimeError."""

    inputs: frozenset[str]
    outputs: frozenset[str]
    run: Callable[[Place, Mapping[str, str]], str]


def checkout(place: Place, given: Mapping[str, str]) -> str:
    """Fetches the one commit that the event is about, with the job's token."""
    credentials = base64.b64encode(f"x-access-token:{place.token}".encode()).decode()
    header = f"http.{place.server}/.extraheader"
    branch = place.ref.removeprefix("refs/").removeprefix("heads/")
    remote = f"refs/remotes/{'origin/' if place.ref.startswith('refs/heads/') else ''}{branch}"
    git(place.workspace, "init", "--quiet", "--initial-branch", "main")
    git(place.workspace, "remote", "add", "origin", f"{place.server}/{place.repository}")
    git(place.workspace, "config", "--local", header, f"AUTHORIZATION: basic {credentials}")
    depth = given.get("fetch-depth", "1")
    deep = [] if depth == "0" else [f"--depth={depth}"]
    git(place.workspace, "fetch", "--quiet", "--no-tags", *deep, "origin", f"+{place.sha}:{remote}")
    git(place.workspace, "checkout", "--quiet", "--force", "--detach", remote)
    if given.get("persist-credentials", "true") == "false":
        git(place.workspace, "config", "--local", "--unset-all", header)
    return f"{place.sha}\n"


def upload(place: Place, given: Mapping[str, str]) -> str:
    """Keeps one file; that it is not there is a warning only."""
    name = given.get("name", "artifact")
    assert 1 <= int(given.get("retention-days", "1")) <= RETENTION_DAYS_MAX
    source, kept = place.workspace / given["path"], place.artifacts / name
    if kept.exists():
        raise RuntimeError(f"an artifact with the name {name} is there already")
    if not source.is_file():
        return f"::warning::No files were found with the provided path: {given['path']}\n"
    kept.mkdir(parents=True)
    shutil.copy(source, kept / source.name)
    return f"{name}: {source.name}\n"


def download(place: Place, given: Mapping[str, str]) -> str:
    """Lays an artifact's files into the workspace."""
    kept = place.artifacts / given["name"]
    if not kept.is_dir():
        raise RuntimeError(f"there is no artifact {given['name']}")
    target = place.workspace / given.get("path", ".")
    shutil.copytree(kept, target, dirs_exist_ok=True)
    return f"{given['name']} was fetched\n"


KNOWN = {
    "actions/checkout@v4": Step(
        frozenset({"fetch-depth", "persist-credentials"}), frozenset({"ref", "commit"}), checkout
    ),
    "actions/upload-artifact@v4": Step(
        frozenset({"name", "path", "retention-days"}), frozenset({"artifact-id"}), upload
    ),
    "actions/download-artifact@v4": Step(frozenset({"name", "path"}), frozenset({"download-path"}), download),
}
