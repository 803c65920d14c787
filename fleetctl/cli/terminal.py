"""The process's own ends: data to stdout, talk to stderr, questions to the person in front of it.

Nothing here imports more than click does. A reader of stdout that went away is no reason to stop a rollout,
so writing to a closed pipe is quiet and the command goes on to its own exit code.
"""

from __future__ import annotations

import os
import re
import select
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TextIO

# Escape sequences whole, then what is left of control characters, and the marks that reorder text on a screen.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])?")
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "red bold": "1;31",
    "yellow bold": "1;33",
    "green bold": "1;32",
}


def clean(text: str) -> str:
    """Text from elsewhere (log tails, probe answers) without control characters; tabs and newlines stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str) -> str:
    """Text from elsewhere on one line."""
    return " ".join(clean(text).split())


@dataclass(frozen=True, slots=True)
class Paint:
    """Colours text, or does not. `paint("red", text)`."""

    enabled: bool

    def __call__(self, style: str, text: str) -> str:
        return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if self.enabled and text else text


PLAIN = Paint(enabled=False)


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed by the caller
        return False


@dataclass(slots=True)
class Terminal:
    """Where the command speaks. `interactive`: a person can be asked. `guard` makes talk harmless for whoever
    reads stderr as more than text.
    """

    out: TextIO
    err: TextIO
    out_paint: Paint
    err_paint: Paint
    interactive: bool
    guard: Callable[[str], str] | None = None
    _closed: set[int] = field(default_factory=set)
    _owed: Callable[[], None] | None = None

    @classmethod
    def of_process(cls, environ: Mapping[str, str]) -> Terminal:
        """The terminal of this process. Colour needs a terminal and no NO_COLOR (any value but empty)."""
        colour = not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        out, err = _lenient(sys.stdout), _lenient(sys.stderr)
        return cls(
            out=out,
            err=err,
            out_paint=Paint(enabled=colour and _is_terminal(out)),
            err_paint=Paint(enabled=colour and _is_terminal(err)),
            interactive=_is_terminal(sys.stdin) and _is_terminal(err),
        )

    def data(self, text: str) -> None:
        """Writes to stdout, with a newline at the end if there is none."""
        self._write(self.out, text if text.endswith("\n") or not text else text + "\n")

    @property
    def out_closed(self) -> bool:
        """Whether nobody reads stdout any more."""
        return id(self.out) in self._closed

    def owe(self, action: Callable[[], None]) -> None:
        """Has this done before the next word is written: it may have to wait for the terminal, as that word has to."""
        self._owed = action

    def data_bytes(self, data: bytes) -> None:
        """Writes bytes to stdout, past the text layer."""
        self.flush()
        try:
            self.out.buffer.write(data)
            self.out.buffer.flush()
        except BrokenPipeError:
            self._give_up(self.out)

    def say(self, text: str = "") -> None:
        """Writes a line to stderr, at once."""
        self._write(self.err, (text if self.guard is None else self.guard(text)) + "\n")
        self.flush()

    def give_stdout_away(self) -> None:
        """Somebody else writes to stdout from now on (`--events -`): what was data is talk."""
        self.out, self.out_paint = self.err, self.err_paint

    def err_writer(self) -> Callable[[str], None]:
        """What writes text to stderr past the stream's own buffer and lock, for a thread that may be stuck in it: a
        terminal that is stopped must hold up that thread and nobody else. It raises OSError when the end is gone.
        """
        self.flush()
        return _direct(self.err)

    def out_writer(self) -> Callable[[str], None]:
        """The same for stdout."""
        self.flush()
        return _direct(self.out)

    def ask(self, question: str) -> str | None:
        """One line from the person; None at the end of input. KeyboardInterrupt passes."""
        self.flush()
        self._write(self.err, question)
        self.flush()
        line = sys.stdin.readline()
        if not line:
            self.say()
            return None
        return line.strip()

    def flush(self) -> None:
        for stream in (self.out, self.err):
            try:
                stream.flush()
            except BrokenPipeError:
                self._give_up(stream)

    def _write(self, stream: TextIO, text: str) -> None:
        if id(stream) in self._closed:
            return
        if self._owed is not None:
            action, self._owed = self._owed, None
            with suppress(OSError):
                action()
        try:
            stream.write(text)
        except BrokenPipeError:
            self._give_up(stream)

    def _give_up(self, stream: TextIO) -> None:
        """The other end is gone: what is buffered has to go somewhere, or Python complains at exit."""
        self._closed.add(id(stream))
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())
        os.close(devnull)


def _direct(stream: TextIO) -> Callable[[str], None]:
    try:
        fd = stream.fileno()
    except (OSError, ValueError):  # no file behind it
        return partial(print, end="", file=stream)
    encoding = stream.encoding or "utf-8"

    def write(text: str) -> None:
        data = text.encode(encoding, "backslashreplace")
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:  # somebody else made it non-blocking
                select.select([], [fd], [])

    return write


def _lenient(stream: TextIO | None) -> TextIO:
    """The stream, unable to fail over a character that its encoding lacks; a closed one swallows all."""
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 - lives as long as the process
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
    return stream
