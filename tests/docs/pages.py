"""The pages as data: fenced blocks, the files they write, the commands they show and what these answer.

The rules of a page that runs: a block whose first line is `# NAME` is that file; in a `console` block a line that begins
with `$ ` is a command, and the lines below it are parts of its answer, in order, where `…` stands for anything. A line
that ends in a question and a word is a prompt and what is typed. `$ echo $?` shows the exit code of the command before
it; a command without that ends with 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.house.sources import ROOT, tracked_files

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[a-z]*)\n(?P<text>.*?)^ *```$", re.M | re.S)
_FILE = re.compile(r"# ([\w./-]+\.\w+)")
_INLINE = re.compile(r"(?<!`)`(fleetctl [^`]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block without its indentation."""

    kind: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if it is one."""
        named = _FILE.fullmatch(self.text.partition("\n")[0])
        return named.group(1) if named else None


@dataclass
class Shown:
    """A command as a page shows it, and what the page shows of its answer."""

    line: str
    answer: list[str] = field(default_factory=list)
    exit_code: int = 0


def documentation() -> list[Path]:
    """Every page of docs/ and the README."""
    return [
        path
        for path in tracked_files()
        if path.suffix == ".md" and (path.is_relative_to(ROOT / "docs") or path == ROOT / "README.md")
    ]


def blocks(page: str) -> list[Block]:
    """The page's fenced blocks in order."""
    found = []
    for match in _FENCE.finditer(page):
        indent = len(match["indent"])
        lines = [line[indent:] for line in match["text"].splitlines()]
        found.append(Block(match["kind"], "\n".join(lines) + "\n"))
    return found


def shown(block: Block) -> list[Shown]:
    """The commands of a console block; a line that ends in a backslash goes on in the next."""
    found: list[Shown] = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if line == "$ echo $?":
            continue
        if line.startswith("$ "):
            found.append(Shown(line.removeprefix("$ ")))
        elif found:
            found[-1].answer.append(line)
    asked = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)\$ echo \$\?\n(\d+)$", block.text, re.M)
    for line, _, code in asked:
        (one,) = [s for s in found if s.line == line and code in s.answer]
        one.answer.remove(code)
        one.exit_code = int(code)
    return found


def command_lines(page: str) -> list[str]:
    """Every line with fleetctl as its command: of console and shell blocks, and between backticks."""
    lines = [s.line for b in blocks(page) if b.kind == "console" for s in shown(b)]
    for block in blocks(page):
        if block.kind in ("sh", "bash"):
            lines += block.text.replace("\\\n", " ").splitlines()
        if block.kind == "":
            lines += re.findall(r"(?:^|  )(fleetctl \S.*?)(?:  |$)", block.text, re.M)
    outside = _FENCE.sub("", page)
    lines += [" ".join(text.replace("\\|", "|").split()) for text in _INLINE.findall(outside)]
    return [
        line
        for line in (text.strip() for text in lines)
        if re.match(r"fleetctl [\[a-z-]+(?= |$)", line) and "->" not in line
    ]
