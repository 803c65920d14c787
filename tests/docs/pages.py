"""The pages as data: fenced blocks, the files they write, the commands they show and what these answer.

The rules of a page that runs: a block whose first line is `# NAME` is that file; in a `console` block a line that begins
with `$ ` is a command, and the lines below it are parts of its answer, in order, where `…` stands for anything. A line
that ends in a question and a word is a prompt and what is typed. `$ echo $?` shows the exit code of the command before
it; a command without that ends with 0. Each line of an `sh` block is a command. In a block of no kind, a command is what
begins with a program's name, up to two spaces or the line's end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.house.sources import ROOT, tracked_files

FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[a-z]*)\n(?P<text>.*?)^ *```$", re.M | re.S)
_FILE = re.compile(r"# ([\w./-]+\.\w+)")
_INLINE = re.compile(r"(?<!`)`([a-z][\w.-]* [^`]+)`(?!`)")
PROGRAMS = (
    "fleetctl",
    "cellz",
    "make",
    "curl",
    "docker",
    "virsh",
    "git",
    "ssh",
    "pip",
    "apt-get",
    "systemctl",
    "sh",
    "jq",
)
"""What a command begins with where no kind of block says that its lines are commands."""
_COMMAND = re.compile(rf"(?:^|  )((?:{'|'.join(PROGRAMS)}) \S.*?)(?:  |$)", re.M)
KINDS = {"console": "prompts", "sh": "lines", "": "fragments", "text": "fragments"}
"""How commands are told in a block of each kind."""
QUIET = {"yaml", "json", "python", "mermaid"}
"""Kinds of blocks that hold no commands."""


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
    """Every page of docs/, the README, and those of the examples."""
    return [
        path
        for path in tracked_files()
        if path.suffix == ".md"
        and (path == ROOT / "README.md" or path.relative_to(ROOT).parts[0] in ("docs", "examples"))
    ]


def blocks(page: str) -> list[Block]:
    """The page's fenced blocks in order."""
    found = []
    for match in FENCE.finditer(page):
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


def commands(page: str) -> list[Shown]:
    """Every command of the page's blocks, in order, whatever its program."""
    found: list[Shown] = []
    for block in blocks(page):
        how = KINDS.get(block.kind)
        if block.file is not None:
            continue
        if how == "prompts":
            found += shown(block)
        elif how == "lines":
            lines = block.text.replace("\\\n", " ").splitlines()
            found += [Shown(line.strip()) for line in lines if line.strip() and not line.startswith("#")]
        elif how == "fragments":
            found += [Shown(text) for text in _COMMAND.findall(block.text)]
    return found


def inline(page: str) -> list[str]:
    """What stands between backticks outside of blocks and has more than one word."""
    return [" ".join(text.replace("\\|", "|").split()) for text in _INLINE.findall(FENCE.sub("", page))]


def command_lines(page: str) -> list[str]:
    """Every line with fleetctl or cellz as its command: of blocks, and between backticks."""
    lines = [re.sub(r"^(?:[A-Z_]+=\S+ +)+", "", command.line) for command in commands(page)]
    return [
        line
        for line in (text.strip() for text in [*lines, *inline(page)])
        if re.match(r"(?:fleetctl|cellz) [\[a-z-]+(?= |$)", line) and "->" not in line
    ]
