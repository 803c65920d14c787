"""What `review` compares: two trees of manifests, each a revision, a folder, or the working tree.

Both are read as if they lay where the newer one lies, so that nothing differs but what was written; the
places in findings are those of the newer one.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from executors.folder import Folder
from executors.git import GitError, Repository
from executors.revision import Revision
from fleetctl.cli.invocation import Invocation
from manifests.errors import FleetctlError
from manifests.load import SUFFIXES, load
from manifests.manifest import Manifests

if TYPE_CHECKING:
    from fleetctl.cli.options import Sources

WORKING_TREE = "the working tree"
# Where the merge base is looked for, the first that exists.
TRUNKS = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
# As much of a commit's id as people read.
SHORT = 12


class ReviewError(FleetctlError):
    """What is to be compared cannot be found."""

    code = "review.no-such-tree"


class Remembering:
    """Files that keep what was read of them, for the lines that findings show."""

    def __init__(self, files: Revision | Folder) -> None:
        self._files = files
        self.texts: dict[str, bytes] = {}

    def is_folder(self, path: str) -> bool:
        return self._files.is_folder(path)

    def listed(self, path: str) -> list[str]:
        return self._files.listed(path)

    def read(self, path: str, limit_b: int) -> tuple[bytes, Hashable]:
        data, identity = self._files.read(path, limit_b)
        self.texts[path] = data
        return data, identity

    def pin(self, path: str) -> str | None:
        return self._files.pin(path)

    def readable(self, path: str) -> bool:
        return self._files.readable(path)


@dataclass(frozen=True, slots=True)
class Tree:
    """One side. `name` is what people call it, `commit` its id where it is a revision."""

    name: str
    commit: str | None
    files: Revision | Folder
    read: Remembering = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "read", Remembering(self.files))

    def load(self, sources: Sources, *, may_lack: bool = False) -> Manifests:
        """Its manifests. `may_lack`: paths that are not there are left out. Raises ManifestError."""
        paths, var_files = list(sources.paths), list(sources.var_files)
        if may_lack:
            paths = [p for p in paths if self._has_manifests(str(p))]
            var_files = [p for p in var_files if self.files.there(str(p))]
            if not paths:
                return Manifests(fleets={}, hosts={}, releases={})
        return load(paths, variables=sources.variables, var_files=var_files, files=self.read)

    def _has_manifests(self, path: str) -> bool:
        """Whether a file lies there, or a folder with manifests: one that was only made for them has none yet."""
        if not self.files.is_folder(path):
            return self.files.there(path)
        return any(n.endswith(SUFFIXES) and not n.startswith(".") for n in self.files.listed(path))

    def lines(self) -> dict[str, list[str]]:
        """What was read, as lines by file, for `views.diagnostics`."""
        return {path: _lines(data) for path, data in self.read.texts.items()}


def _lines(data: bytes) -> list[str]:
    return data.decode("utf-8", errors="replace").splitlines()


@dataclass(frozen=True, slots=True)
class Trees:
    """Both sides, the manifests' sources in the newer one, and the folder that places are told from.

    `root` is the top of the repository, or the folder that is compared.
    """

    base: Tree
    head: Tree
    sources: Sources
    root: str

    def below_root(self) -> tuple[str, ...]:
        """The manifests' paths as they are below the root, the same wherever the root lies."""
        return tuple(os.path.relpath(path, self.root) for path in self.sources.paths)


def find(invocation: Invocation, base: str | None, head: str | None, sources: Sources, given: bool) -> Trees:
    """The two sides that were named. `given`: the sources' paths were, and do not stand for the current folder.

    Raises ReviewError and GitError.
    """
    named = [text for text in (base, head) if text is not None]
    _ensure_clear(invocation, named, sources)
    folders = [_is_folder(text) for text in named]
    if folders and all(folders) and base is not None:
        return _folders(base, head, sources, given=given)
    if any(folders):
        raise ReviewError(
            f"{base} and {head} are a folder and a revision, and only like is compared with like",
            hint="name two revisions, or two folders",
        )
    repository = Repository(_folder_of(sources.paths), invocation.environ)
    top = repository.top
    outside = Folder(top, top)
    newer = Tree(WORKING_TREE, None, Folder(top, top))
    if head is not None:
        commit = _commit(repository, head)
        newer = Tree(head, commit, Revision(repository, commit, head, outside))
    name, commit = _base(repository, base, newer.commit)
    older = Tree(name, commit, Revision(repository, commit, name, outside))
    return Trees(older, newer, sources, top)


def _folders(base: str, head: str | None, sources: Sources, *, given: bool) -> Trees:
    """Two folders; the paths that were given are looked for in each of them."""
    for folder in (base, head or "."):
        if not Path(folder).is_dir():
            raise ReviewError(
                f"there is no folder {folder}", hint="name a folder that is there, or a revision"
            )
    shown = os.path.abspath(head or ".")  # noqa: PTH100
    real = os.path.abspath(base)  # noqa: PTH100
    if head is not None:
        paths = tuple(Path(head) / path for path in sources.paths) if given else (Path(head),)
        var_files = tuple(Path(head) / path for path in sources.var_files)
        sources = replace(sources, paths=paths, var_files=var_files)
    older = Tree(base, None, Folder(shown, real))
    newer = Tree(head or "the current folder", None, Folder(shown, shown))
    return Trees(older, newer, sources, shown)


def _is_folder(text: str) -> bool:
    """Whether a folder is meant: by the look of it, or because one lies there."""
    return _looks_like_a_folder(text) or Path(text).is_dir()


def _looks_like_a_folder(text: str) -> bool:
    return text in (".", "..") or text.startswith(("./", "../", "/")) or text.endswith("/")


def _ensure_clear(invocation: Invocation, texts: Sequence[str], sources: Sources) -> None:
    """Raises ReviewError for a name that is a folder here and a revision as well."""
    for text in texts:
        if _looks_like_a_folder(text) or not Path(text).is_dir():
            continue
        try:
            commit = Repository(_folder_of(sources.paths), invocation.environ).commit(text)
        except GitError:
            return
        if commit is not None:
            raise ReviewError(
                f"{text} is a folder here, and a revision",
                hint=f"write ./{text} for the folder, or refs/heads/{text} (or its commit) for the revision",
            )


def _folder_of(paths: Sequence[Path]) -> str:
    """The nearest folder that is there around the first path: git is asked from inside it."""
    folder = Path(os.path.abspath(paths[0]))  # noqa: PTH100
    while not folder.is_dir():
        folder = folder.parent
    return str(folder)


def _commit(repository: Repository, revision: str) -> str:
    """Raises ReviewError."""
    commit = repository.commit(revision)
    if commit is None:
        hint = "git fetch it first; or name another revision, or two folders"
        if repository.shallow():
            hint = "the clone is shallow, so the revision may be missing: git fetch --unshallow (in CI: fetch-depth: 0)"
        raise ReviewError(f"git knows no revision {revision!r}", hint=hint)
    return commit


def _base(repository: Repository, base: str | None, head: str | None) -> tuple[str, str]:
    """The name and commit to compare with: the one given, or where the branch left the trunk."""
    if base is not None:
        return base, _commit(repository, base)
    trunk = next((t for t in TRUNKS if repository.commit(t) is not None), None)
    if trunk is None:
        raise ReviewError(
            f"none of {', '.join(TRUNKS)} is there to compare with", hint="name it: fleetctl review BASE"
        )
    here = head or _commit(repository, "HEAD")
    commit = repository.merge_base(trunk, here)
    if commit is None:
        raise GitError(
            f"{trunk} and the revision under review have no commit in common",
            hint="the clone is shallow: git fetch --unshallow (in CI: fetch-depth: 0)"
            if repository.shallow()
            else "name what to compare with: fleetctl review BASE",
            code="git.no-merge-base",
        )
    return f"{trunk} at {commit[:SHORT]}", commit
