"""Where things are on a host: pure paths below the host's root.

ROOT/artifacts/sha256/<hex>/<name>     immutable, one per digest
ROOT/nodes/<uid>/record                what the node is, and its last operations (written last)
                 lock, barred          who acts; operations that may never begin any more
                 env, launch, run      the environment (0600), the command, what it runs under
                 spec.json fields.json what it was made from, and its managed fields
                 placed, sums          names and digests of what was written
                 process, exit         the last start, and how it ended
                 log/                  its output, rotated
                 data/ ...             its own files
"""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import join, normpath

from executors.driver import DriverError

DEFAULT_ROOT = "/var/lib/fleetctl"

# Names that the driver itself keeps in a node's folder: a node's own file must not stand there.
RESERVED = frozenset(
    {"record", "lock", "barred", "env", "launch", "run", "spec.json", "fields.json", "placed", "sums"}
    | {"process", "exit", "log", "token", "stopping", "gate", "owned"}
)
# These would break line-oriented lists of paths on the host.
_FORBIDDEN = frozenset(chr(c) for c in range(32)) | {"\x7f", "\\"}


class PathError(DriverError):
    """A node's file stands where it must not."""

    code = "host.path"


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one host. `root` is absolute."""

    root: str

    def __post_init__(self) -> None:
        if not self.root.startswith("/"):
            raise PathError(f"the root {self.root!r} of a host is not an absolute path")
        _check(self.root)

    def artifact(self, digest: str, name: str) -> str:
        """The immutable place of an artifact with this pin."""
        if not name or "/" in name or name in (".", ".."):
            raise PathError(f"{name!r} cannot be an artifact's file name")
        _check(name)
        return join(self.root, "artifacts", "sha256", digest.removeprefix("sha256:"), name)

    def node(self, uid: str) -> str:
        """A node's own folder."""
        return join(self.root, "nodes", uid)

    def file(self, uid: str, path: str) -> str:
        """A node's file: absolute as it is, or relative to the node's folder; raises PathError."""
        _check(path)
        if path.startswith("/"):
            return normpath(path)
        clean = normpath(path)
        first = clean.partition("/")[0]
        if first in ("..", "."):
            raise PathError(
                f"the file {path!r} leaves the node's folder",
                hint="write a path inside it, or an absolute one",
            )
        if first in RESERVED:
            raise PathError(
                f"the file {path!r} stands where fleetctl keeps its own {first!r}",
                hint=f"choose another name, for example conf/{clean}",
            )
        return join(self.node(uid), clean)


def _check(path: str) -> None:
    if _FORBIDDEN & set(path):
        raise PathError(f"the path {path!r} holds a control character or a backslash")
