"""A revision's files, read where the working tree has them: what `manifests.load` reads of the past.

Only what git has counts inside the repository; a path that leads out of it is read from this machine.
Symbolic links and submodules are refused: what lies behind them is no part of the revision.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Hashable
from pathlib import PurePosixPath

from executors.git import LINK, SUBMODULE, Entry, Repository
from manifests.digest import sha256
from manifests.files import Files

# A file that a node is given; one past this is no configuration.
PINNED_MAX_B = 256 * 2**20


class Revision:
    """The files of one commit; see `manifests.files.Files`. `outside` has what is not in the repository."""

    def __init__(self, repository: Repository, commit: str, name: str, outside: Files) -> None:
        self._repository = repository
        self._commit = commit
        self._name = name
        self._outside = outside

    def is_folder(self, path: str) -> bool:
        parts = self._inside(path)
        if parts is None:
            return self._outside.is_folder(path)
        return isinstance(self._repository.tree(self._commit, parts), dict)

    def listed(self, path: str) -> list[str]:
        parts = self._inside(path)
        if parts is None:
            return self._outside.listed(path)
        found = self._repository.tree(self._commit, parts)
        if not isinstance(found, dict):
            raise FileNotFoundError(errno.ENOENT, "no such folder", path)
        manifests = (e for n, e in found.items() if n.endswith((".yaml", ".yml")) and e.mode != LINK)
        self._repository.read_together(e for e in manifests if e.size_b is not None)
        return list(found)

    def read(self, path: str, limit_b: int) -> tuple[bytes, Hashable]:
        parts = self._inside(path)
        if parts is None:
            return self._outside.read(path, limit_b)
        entry = self._entry(path, parts)
        if (entry.size_b or 0) > limit_b:
            raise OSError(errno.EFBIG, f"{entry.size_b:,} bytes are too many for a manifest", path)
        # Two names may have the same bytes, so the place tells them apart.
        return self._repository.blob(entry)[:limit_b], ("git", *parts)

    def pin(self, path: str) -> str | None:
        parts = self._inside(path)
        if parts is None:
            return self._outside.pin(path)
        try:
            entry = self._entry(path, parts)
        except OSError:
            return None
        return None if (entry.size_b or 0) > PINNED_MAX_B else sha256(self._repository.blob(entry))

    def readable(self, path: str) -> bool:
        """True: artifacts are seldom kept in git, and their pins say what they are."""
        del path
        return True

    def there(self, path: str) -> bool:
        """Whether the revision has anything at this path; True for what is not in the repository."""
        parts = self._inside(path)
        return parts is None or self._repository.tree(self._commit, parts) is not None

    def _entry(self, path: str, parts: tuple[str, ...]) -> Entry:
        """Raises OSError."""
        found = self._repository.tree(self._commit, parts)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, f"it is not in {self._name}", path)
        if isinstance(found, dict):
            raise IsADirectoryError(errno.EISDIR, "a folder", path)
        if found.mode in (LINK, SUBMODULE):
            what = "a symbolic link" if found.mode == LINK else "a submodule"
            raise OSError(
                errno.ELOOP, f"it is or lies behind {what} in {self._name}, which is not followed", path
            )
        if found.size_b is None:
            raise OSError(errno.EIO, "git knows no size of it", path)
        return found

    def _inside(self, path: str) -> tuple[str, ...] | None:
        """The path's parts inside the repository; None for one that leads out of it."""
        if "\0" in path:
            raise ValueError("a path has no NUL")
        absolute = os.path.abspath(path)  # noqa: PTH100 - by its text, as the shelf makes it
        top = self._repository.top
        for candidate in (absolute, os.path.realpath(absolute)):
            inside = PurePosixPath(candidate)
            if inside.is_relative_to(top):
                return inside.relative_to(top).parts
        return None
