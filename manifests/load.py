"""Paths -> `Manifests`: the one module here that opens files.

Each path argument is a layer: a file, or a directory whose `*.yaml` and `*.yml` files are read in the
order of their names. Directories are not searched further down, so that overlays, artifacts and state
can lie beside a manifest. Later layers are laid over earlier ones (`manifests.overlay`).
"""

from __future__ import annotations

import gc
import hashlib
import os
import stat
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from manifests.assemble import Layer, assemble
from manifests.diagnostics import Diagnostic, Span, error
from manifests.digest import sha256
from manifests.errors import ManifestError
from manifests.files import Files, NotRegular
from manifests.manifest import Manifests
from manifests.paths import resolve
from manifests.schema.kinds import KINDS
from manifests.shipped import with_tables
from manifests.source import FILE_BYTES_MAX, compose
from manifests.template import Renderer
from manifests.validate import validate
from manifests.variables import from_file, from_option
from manifests.zones import check_zones

SUFFIXES = (".yaml", ".yml")
# Below this a collection takes some milliseconds, and the process goes on as it was.
FREEZE_OBJECTS_MIN = 100_000
FilePath = str | os.PathLike[str]


def load(
    paths: Sequence[FilePath],
    *,
    variables: Mapping[str, str] | None = None,
    var_files: Sequence[FilePath] = (),
    files: Files | None = None,
) -> Manifests:
    """Reads, merges and checks the manifests of one invocation.

    Arguments: `paths` are files or directories, later ones laid over earlier ones; `variables` are the
    texts of --var by name; `var_files` hold mappings of variables, later ones win, and --var wins over all;
    `files` is where all of them lie, by default this machine.
    Raises ManifestError with every finding of the run, warnings included, when there is any error.
    """
    findings: list[Diagnostic] = []
    with _no_collection():
        shelf = Shelf(findings, files or Disk())
        values = _variables(shelf, variables or {}, var_files)
        layers = [shelf.layer(os.fspath(path)) for path in paths]
        if not paths:
            findings.append(error("file.none", "No manifest was given", hint="name a file or a directory"))
        unread = any(finding.is_error for finding in findings)
        renderer = Renderer()
        assembled = assemble(layers, values, renderer, findings)
        resolve(assembled, shelf, findings)
        check_zones(assembled, findings)
        manifests = Manifests(
            fleets=assembled.fleets,
            hosts=assembled.hosts,
            releases=assembled.releases,
            compatibility=tuple(assembled.compatibility),
            policies=assembled.policies,
            vars=values,
            digests=shelf.digests,
            where=assembled.where,
            render=renderer.render,
        )
        # What could not be read may have been any document.
        findings += validate(manifests, frozenset(KINDS) if unread else frozenset(assembled.incomplete))
    found = shelf.in_order(findings)
    if any(f.is_error for f in found):
        raise ManifestError(found)
    return with_tables(replace(manifests, warnings=found))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Holds the cyclic collector off: the nodes of a large manifest are all alive, and looking through them
    again and again takes longer than reading them. Afterwards those of a large manifest are set aside, or
    the first collection would look through all of them; they have no cycles and go when they are let go.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > FREEZE_OBJECTS_MIN:
                gc.freeze()
            gc.enable()


def _variables(shelf: Shelf, options: Mapping[str, str], files: Sequence[FilePath]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for path in files:
        data = shelf.read(os.fspath(path))
        if data is not None:
            values.update(from_file(data, os.fspath(path), shelf.findings))
    for name, text in options.items():
        values.update(from_option(name, text, shelf.findings))
    return values


_NOT_REGULAR = ("file.not-regular", "A path is no regular file")
_TWICE = ("file.twice", "A file is read twice")
_MISSING = ("file.missing", "A file does not exist")
_UNREADABLE = ("file.unreadable", "A file cannot be read")
_NO_PROBLEM = ("", "", "", None)


class Shelf:
    """The files of one invocation: what was read, its pins, and where relative paths lead."""

    def __init__(self, findings: list[Diagnostic], files: Files) -> None:
        self.findings = findings
        self.digests: dict[str, str] = {}
        self.first_folder = os.getcwd()  # noqa: PTH109 - texts throughout; Path objects cost more than the reading
        self._files = files
        self._folders: dict[str, str] = {}
        self._taken: dict[Hashable, str] = {}

    def layer(self, path: str) -> Layer:
        """The documents of one path argument; every problem is a finding."""
        first = not self._taken
        # An empty text is no path; Path would take it for the present directory.
        if path and self._files.is_folder(path):
            files = self._listed(path)
            folder = os.path.abspath(path)  # noqa: PTH100 - symbolic links stay as the operator wrote them
        else:
            files = [path]
            folder = os.path.dirname(os.path.abspath(path))  # noqa: PTH100, PTH120
        documents = []
        for file in files:
            data = self.read(file)
            if data is not None:
                self._folders[file] = folder
                composed, problems = compose(data, file)
                documents += composed
                self.findings += problems
        if first:
            self.first_folder = folder
        return Layer(tuple(documents))

    def read(self, path: str) -> bytes | None:
        """The bytes of a regular file, which is pinned and remembered; None and a finding otherwise."""
        if any("\ud800" <= letter <= "\udfff" for letter in path):
            # Plans, journals and reports are UTF-8, and name their manifests.
            shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            self.refuse(
                shown,
                "file.name",
                "A file's name is not UTF-8",
                f"{shown} cannot be written into a plan.",
                "rename it",
            )
            return None
        data, problem = self._bytes(path)
        if data is None:
            code, summary, detail, hint = problem
            self.refuse(path, code, summary, detail, hint)
        else:
            self.digests[path] = sha256(data)
        return data

    def _bytes(self, path: str) -> tuple[bytes | None, tuple[str, str, str, str | None]]:
        try:
            data, identity = self._files.read(path, FILE_BYTES_MAX + 1)
        except NotRegular:
            return None, (*_NOT_REGULAR, "A device or a pipe cannot be pinned.", None)
        except FileNotFoundError:
            return None, (*_MISSING, f"{path} was not found.", None)
        except IsADirectoryError:
            return None, (*_NOT_REGULAR, f"{path} is a directory.", None)
        except (OSError, ValueError) as e:
            reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
            return None, (*_UNREADABLE, f"{path}: {reason}.", None)
        earlier = self._taken.setdefault(identity, path)
        if earlier is not path:
            return None, (
                *_TWICE,
                f"It was already read as {earlier}.",
                "keep overlays in a folder of their own",
            )
        return data, _NO_PROBLEM

    def folder_of(self, file: str) -> str:
        """The absolute folder that relative paths written in this file are relative to."""
        return self._folders.get(file, self.first_folder)

    def in_order(self, findings: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
        """Each finding once, by place: files as they were read, then lines. A block that several aliases
        refer to was looked at once for each.
        """
        files = {path: i for i, path in enumerate(self._taken.values())}

        def place(finding: Diagnostic) -> tuple[int, int, int]:
            span = finding.span
            return (len(files), 0, 0) if span is None else (files.get(span.file, -1), span.line, span.column)

        return tuple(sorted(dict.fromkeys(findings), key=place))

    def pin(self, path: str) -> str | None:
        """The sha256 pin of a file that a node is given, by absolute path; None where it cannot be read."""
        if path not in self.digests:
            found = self._files.pin(path)
            if found is None:
                return None
            self.digests[path] = found
        return self.digests[path]

    def readable(self, path: str) -> bool:
        """Whether a regular file that may be read lies at an absolute path."""
        return self._files.readable(path)

    def _listed(self, path: str) -> list[str]:
        try:
            names = sorted(
                n for n in self._files.listed(path) if n.endswith(SUFFIXES) and not n.startswith(".")
            )
        except OSError as e:
            self.refuse(path, "file.unreadable", "A directory cannot be read", f"{path}: {e.strerror}.")
            return []
        files = [os.path.join(path, name) for name in names]  # noqa: PTH118
        if not files:
            self.refuse(
                path, "file.no-manifests", "A directory holds no manifest",
                f"{path} has no *.yaml or *.yml; folders below it are not searched.",
            )  # fmt: skip
        return files

    def refuse(self, path: str, code: str, summary: str, detail: str, hint: str | None = None) -> None:
        """Notes a path that cannot be used."""
        self.findings.append(error(code, summary, detail, span=Span(path, 1, 1), hint=hint))


class Disk:
    """This machine's files; see `manifests.files.Files`."""

    def is_folder(self, path: str) -> bool:
        return Path(path).is_dir()

    def listed(self, path: str) -> list[str]:
        return os.listdir(path)  # noqa: PTH208

    def read(self, path: str, limit_b: int) -> tuple[bytes, Hashable]:
        with open(path, "rb", opener=_without_waiting) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise NotRegular
            return file.read(limit_b), (status.st_dev, status.st_ino)

    def pin(self, path: str) -> str | None:
        try:
            with open(path, "rb", opener=_without_waiting) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return None
                return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
        except (OSError, ValueError):
            return None

    def readable(self, path: str) -> bool:
        try:
            return Path(path).is_file() and os.access(path, os.R_OK)
        except (OSError, ValueError):
            return False


def _without_waiting(path: str, flags: int) -> int:
    """Opens without waiting for the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
