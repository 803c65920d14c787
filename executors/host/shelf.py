"""Artifacts on a host: what is there, and taking one away. Pure commands and a parser."""

from __future__ import annotations

import re
from posixpath import join

from executors.command import Command
from executors.driver import DriverError, StagedArtifact
from executors.host.layout import Layout

LIST_TIMEOUT_S = 120.0
_HEX = re.compile(r"[0-9a-f]{64}")

# One line an artifact: pin, KiB, seconds since its folder was last written. $1 is the folder of all.
_LIST = """
now=$(date +%s)
for folder in "$1"/*; do
  [ -d "$folder" ] || continue
  size=$(du -sk "$folder") && since=$(stat -c %Y "$folder") || continue
  echo "${folder##*/} ${size%%[!0-9]*} $((now - since))"
done
echo end
"""


def listing(layout: Layout) -> Command:
    """Lists what is staged."""
    return Command(("/bin/sh", "-c", _LIST, "sh", _folder(layout)), timeout_s=LIST_TIMEOUT_S)


def removal(layout: Layout, digest: str) -> Command:
    """Takes one artifact away. Raises DriverError for what is no pin, since the rest of the line is rm -rf."""
    name = digest.removeprefix("sha256:")
    if _HEX.fullmatch(name) is None:
        raise DriverError(f"{digest!r} is no pin")
    return Command(("rm", "-rf", join(_folder(layout), name)), timeout_s=LIST_TIMEOUT_S)


def read(stdout: bytes, layout: Layout) -> tuple[StagedArtifact, ...]:
    """The answer of `listing`. Raises DriverError when it was cut off; names that are no pins are not ours."""
    lines = stdout.decode("utf-8", "replace").splitlines()
    if not lines or lines[-1] != "end":
        raise DriverError("the list of staged artifacts was cut off")
    out = []
    for line in lines[:-1]:
        name, size, age = line.split(" ")
        if _HEX.fullmatch(name):
            out.append(
                StagedArtifact(f"sha256:{name}", join(_folder(layout), name), int(size) * 1024, float(age))
            )
    return tuple(out)


def _folder(layout: Layout) -> str:
    return join(layout.root, "artifacts", "sha256")
