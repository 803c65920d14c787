"""Documentation that cannot lie: links lead somewhere, and what is named exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from manifests.errors import ExitCode
from tests.house.sources import ROOT, tracked_files

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def pages() -> list[Path]:
    return [path for path in tracked_files() if path.suffix == ".md"]


@pytest.mark.parametrize("page", pages(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(page: Path) -> None:
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    assert [t for t in targets if not (page.parent / t).exists()] == []


def test_readme_opens_with_the_two_commands() -> None:
    """What it is for, for whom, and two commands, before anything else."""
    opening = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert opening.startswith("# fleetctl\n\n**For people who run ")
    assert re.findall(r"^\$ (make \w+)", opening, flags=re.MULTILINE) == ["make demo", "make test"]


def test_readme_lists_the_exit_codes_of_the_one_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    paragraph = readme[readme.index("Exit codes are one table:") :].partition("\n\n")[0]
    named = {int(number) for number in re.findall(r"\b\d+\b", paragraph)}
    assert named <= {int(code) for code in ExitCode}
    assert named >= {int(code) for code in ExitCode} - {ExitCode.WAITING}


def test_reference_explains_every_exit_code() -> None:
    page = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", page, flags=re.MULTILINE)] == [
        int(c) for c in ExitCode
    ]


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    assert [p.name for p in sorted(folder.glob("0*.md")) if f"({p.name})" not in index] == []


@pytest.mark.parametrize("page", ["add-a-driver", "add-a-manifest-key", "add-a-command"])
def test_checklists_name_files_that_exist(page: str) -> None:
    """Each path in code marks on a checklist is there; NAME stands for what the reader adds."""
    text = (ROOT / "docs" / "contributing" / f"{page}.md").read_text(encoding="utf-8")
    paths = [p for p in re.findall(r"`((?:[a-z]+/)+[\w./-]*)`", text) if "NAME" not in p]
    assert paths
    assert [p for p in paths if not (ROOT / p).exists()] == []
