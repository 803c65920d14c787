"""Output of a node on its way to ours: at once, within a bound, and without a byte that commands the terminal."""

from __future__ import annotations

import codecs
import os
import re
from typing import TextIO

from fleetctl.cli.terminal import Terminal, clean

# What is passed on of each stream; the rest is counted. Memory needs no bound: nothing is kept.
OUTPUT_MAX_B = 64 * 2**20
# The beginning of an escape sequence at the end of a piece: its rest comes with the next one.
_HALF = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?$")
_HALF_MAX = 4096


class ReaderGone(Exception):
    """Whoever read our output has closed it: there is nobody to write for."""


class Cleaner:
    """`terminal.clean` over pieces, cut anywhere."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._half = ""

    def feed(self, data: bytes, *, last: bool = False) -> str:
        """The clean text of this piece, but for an escape sequence that has only begun."""
        text = self._half + self._decode(data, last)
        half = None if last else _HALF.search(text)
        self._half = ""
        if half is not None and len(text) - half.start() <= _HALF_MAX:
            self._half, text = text[half.start() :], text[: half.start()]
        return clean(text)


class RemoteOutput:
    """Hears a node (`executors.command.Hear`): its output goes to stdout, its errors to stderr.

    On a terminal control characters are taken out, unless `raw`; elsewhere every byte is passed on. Raises ReaderGone.
    """

    def __init__(self, terminal: Terminal, *, raw: bool, limit_b: int | None = OUTPUT_MAX_B) -> None:
        terminal.flush()
        self._streams = (_Stream(terminal.out, raw, limit_b), _Stream(terminal.err, raw, limit_b))

    def __call__(self, data: bytes, error: bool) -> None:
        self._streams[error].write(data)

    def end(self) -> int:
        """Writes what is left; how many bytes were not passed on."""
        return sum(stream.end() for stream in self._streams)


class _Stream:
    def __init__(self, stream: TextIO, raw: bool, limit_b: int | None) -> None:
        self._fd = stream.fileno()
        self._cleaner = Cleaner() if stream.isatty() and not raw else None
        self._left_b = limit_b
        self._dropped_b = 0

    def write(self, data: bytes) -> None:
        if self._left_b is not None:
            kept = data[: self._left_b]
            self._dropped_b += len(data) - len(kept)
            self._left_b -= len(kept)
            data = kept
        self._put(data if self._cleaner is None else self._cleaner.feed(data).encode())

    def end(self) -> int:
        if self._cleaner is not None:
            self._put(self._cleaner.feed(b"", last=True).encode())
        return self._dropped_b

    def _put(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except BrokenPipeError as e:
            raise ReaderGone from e
