"""Commands that bring a file to a host: temporary name beside it, sha256 checked there, fsync, rename.

Pure. POSIX sh with coreutils or busybox; nothing of the old file is touched before the new one is whole.
"""

from __future__ import annotations

from executors.command import Command, Completed
from executors.transport import TransportError

# Below this a file is sent without asking first whether it is there: the question costs a round trip.
ALWAYS_SEND_MAX_B = 64 * 1024
CHECK_TIMEOUT_S = 120.0
_THERE = b"there\n"

_CHECK = '[ -f "$1" ] && [ "$(sha256sum < "$1" | cut -c1-64)" = "$2" ] && echo there || echo missing'

# $1 path, $2 sha256, $3 mode. What is there already stays the same file: its times tell whether anybody changed
# it. Leftovers of interrupted uploads of this path are older than an hour: removed.
_SEND = """
set -eu
path=$1 want=$2 mode=$3
dir=${path%/*}
mkdir -p "$dir"
temp="$dir/.${path##*/}.$$.part"
trap 'rm -f "$temp"' EXIT
trap 'exit 129' HUP INT TERM
cat > "$temp"
got=$(sha256sum < "$temp" | cut -c1-64)
if [ "$got" != "$want" ]; then echo "arrived as sha256:$got" >&2; exit 65; fi
if [ -f "$path" ] && [ "0$(stat -c %a "$path")" = "$mode" ] &&
  [ "$(sha256sum < "$path" | cut -c1-64)" = "$want" ]; then exit 0; fi
chmod "$mode" "$temp"
sync "$temp" 2>/dev/null || sync
mv -f "$temp" "$path"
sync "$dir" 2>/dev/null || sync
set -- "$dir/.${path##*/}."*.part
[ ! -e "$1" ] || find "$@" -mmin +60 -exec rm -f {} + 2>/dev/null || :
"""


def check(digest: str, path: str) -> Command:
    """Asks whether the file is there with this digest."""
    return Command(("/bin/sh", "-c", _CHECK, "sh", path, _hex(digest)), timeout_s=CHECK_TIMEOUT_S)


def is_there(completed: Completed) -> bool:
    """Reads the answer of `check`."""
    return completed.ok and completed.stdout == _THERE


def send(digest: str, path: str, mode: int, timeout_s: float) -> Command:
    """Writes the file from its standard input, which is streamed."""
    return Command(("/bin/sh", "-c", _SEND, "sh", path, _hex(digest), f"{mode:04o}"), timeout_s=timeout_s)


def raise_for(completed: Completed, label: str, path: str) -> None:
    """Raises TransportError when the upload failed; the old file, if any, is as it was."""
    if completed.ok:
        return
    said = completed.stderr.decode("utf-8", "replace").strip() or f"status {completed.status}"
    raise TransportError(f"{label}: {path} could not be written: {said}", code="transport.put_failed")


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")
