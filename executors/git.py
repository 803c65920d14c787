"""A git repository, asked through the `git` program: commits, trees and blobs, never the working tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from executors.command import Command, Completed
from executors.transport import TransportError
from executors.transports.local import LocalTransport
from manifests.errors import FleetctlError

# Objects that are not there yet may be fetched by a partial clone; past this something hangs.
GIT_TIMEOUT_S = 60.0
# A tree of a hundred thousand names is below this; so are the manifests of one folder together.
GIT_OUTPUT_MAX_B = 256 * 2**20
# Read in one go with their folder: what is larger is read when it is asked for.
TOGETHER_MAX_B = 64 * 2**20
_OF_A_HOOK = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_NAMESPACE"})
LINK, SUBMODULE, TREE = "120000", "160000", "040000"


class GitError(FleetctlError):
    """Git is not there, knows no such revision, or does not answer."""

    code = "git.failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a tree: `mode` as git writes it, the object's id, and its size (None for what is no blob)."""

    mode: str
    object: str
    size_b: int | None


class Repository:
    """One repository, by a folder inside it. What was read is kept: an object never changes."""

    def __init__(self, folder: str, environ: Mapping[str, str]) -> None:
        """Raises GitError when there is no git, or no working tree around the folder."""
        self._folder = folder
        # Messages that are told apart are in English; nothing is asked, locked or written. Inside of a hook git
        # names its own repository, which need not be the folder's.
        kept = {name: value for name, value in environ.items() if name not in _OF_A_HOOK}
        quiet = {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
        self._transport = LocalTransport(environ={**kept, **quiet})
        self._trees: dict[str, dict[str, Entry]] = {}
        self._blobs: dict[str, bytes] = {}
        found = self._git("rev-parse", "--show-toplevel")
        if not found.ok or not found.stdout.strip():
            raise _no_repository(folder, _said(found))
        self.top = found.stdout.decode(errors="surrogateescape").rstrip("\n")

    def commit(self, revision: str) -> str | None:
        """The id of the commit that a revision names; None when it names none."""
        wanted = f"{revision}^{{commit}}"
        found = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", wanted)
        return found.stdout.decode().strip() if found.ok else None

    def merge_base(self, one: str, other: str) -> str | None:
        """The id of the newest commit that two commits have in common; None when they have none."""
        found = self._git("merge-base", one, other)
        return found.stdout.decode().split()[0] if found.ok and found.stdout.strip() else None

    def shallow(self) -> bool:
        """Whether history was cut off when the repository was cloned."""
        return self._git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"

    def tree(self, commit: str, parts: Iterable[str]) -> dict[str, Entry] | Entry | None:
        """What lies at a path of a commit: a folder's entries by name, or the entry that is no folder.

        None where nothing lies. A path that goes on past a link or a submodule gives that entry.
        """
        names = self._listed(f"{commit}^{{tree}}")
        rest = list(parts)
        while rest:
            entry = names.get(rest.pop(0))
            if entry is None or entry.mode != TREE:
                return None if rest and entry is not None and entry.mode not in (LINK, SUBMODULE) else entry
            names = self._listed(entry.object)
        return names

    def blob(self, entry: Entry) -> bytes:
        """The bytes of a blob. Raises GitError."""
        if entry.object not in self._blobs:
            found = self._git("cat-file", "blob", entry.object)
            if not found.ok:
                raise GitError(f"git cannot read {entry.object}: {_said(found)}")
            self._blobs[entry.object] = found.stdout
        return self._blobs[entry.object]

    def read_together(self, entries: Iterable[Entry]) -> None:
        """Reads many blobs by one call, as far as they are small."""
        wanted, sum_b = [], 0
        for entry in entries:
            sum_b += entry.size_b or 0
            if entry.object not in self._blobs and sum_b <= TOGETHER_MAX_B:
                wanted.append(entry)
        if len(wanted) < 2:
            return
        given = "".join(f"{e.object}\n" for e in wanted).encode()
        found = self._git("cat-file", "--batch", stdin=given)
        at = 0
        for entry in wanted:
            # `<id> blob <size>\n<bytes>\n`; whatever else comes is left for `blob` to complain about.
            end = found.stdout.find(b"\n", at)
            header = found.stdout[at:end].split() if end >= 0 else []
            if len(header) != 3 or header[0].decode() != entry.object:
                return
            size_b = int(header[2])
            self._blobs[entry.object] = found.stdout[end + 1 : end + 1 + size_b]
            at = end + 1 + size_b + 1

    def _listed(self, tree: str) -> dict[str, Entry]:
        if tree not in self._trees:
            found = self._git("ls-tree", "-z", "-l", "--full-tree", tree)
            if not found.ok:
                raise GitError(f"git cannot list {tree}: {_said(found)}")
            names: dict[str, Entry] = {}
            for line in found.stdout.split(b"\0"):
                head, tab, name = line.partition(b"\t")
                if tab:
                    mode, _, object_id, size = head.decode().split()
                    size_b = int(size) if size.isdecimal() else None
                    names[name.decode(errors="surrogateescape")] = Entry(mode, object_id, size_b)
            self._trees[tree] = names
        return self._trees[tree]

    def _git(self, *arguments: str, stdin: bytes = b"") -> Completed:
        """Runs git in the folder, with nothing of the repository's configuration that could run a program."""
        argv = ("git", "-C", self._folder, "-c", "core.fsmonitor=false", *arguments)
        command = Command(argv, stdin, GIT_TIMEOUT_S, output_max_b=GIT_OUTPUT_MAX_B)
        try:
            return self._transport.run(command)
        except TransportError as error:
            raise GitError(
                "git cannot be run",
                hint="install git; or compare two folders: fleetctl review OLD NEW",
                code="git.missing",
            ) from error


def _said(completed: Completed) -> str:
    return completed.stderr.decode(errors="replace").strip() or f"exit {completed.status}"


def _no_repository(folder: str, said: str) -> GitError:
    if "dubious ownership" in said:
        return GitError(
            f"git does not trust the repository around {folder}: it belongs to somebody else",
            hint=f"git config --global --add safe.directory {folder}",
            code="git.not-trusted",
        )
    if "not a git repository" in said:
        return GitError(
            f"{folder} is not inside a git repository",
            hint="run it inside one; or compare two folders: fleetctl review OLD NEW",
            code="git.no-repository",
        )
    return GitError(
        f"git finds no working tree around {folder}: {said}",
        hint="run it inside a clone that is not bare",
        code="git.no-repository",
    )
