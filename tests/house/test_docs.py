"""Documentation that cannot lie: links lead somewhere, and what is named exists."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from manifests.errors import ExitCode
from tests.house.sources import ROOT, tracked_files

LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")


def fleetctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("fleetctl")), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


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


def test_manifest_in_the_readme_is_valid(tmp_path: Path) -> None:
    """With the quickstart's releases beside it, `fleetctl validate` accepts the README's manifest."""
    (block,) = re.findall(
        r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S
    )
    quickstart = ROOT / "examples" / "quickstart"
    documents = (quickstart / "releases.yaml").read_text(encoding="utf-8").split("---\n")
    releases = "---\n".join(text for text in documents if "kind: Release" in text)
    (tmp_path / "fleet.yaml").write_text(f"{block}---\n{releases}", encoding="utf-8")
    shutil.copytree(quickstart / "artifacts", tmp_path / "artifacts")
    result = fleetctl("validate", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr


def test_readme_lists_the_commands_that_exist() -> None:
    """Each command in the README's table is known to the command line, and none is left out."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = readme[readme.index("| command |") :].partition("\n\n")[0]
    named = set(re.findall(r"`fleetctl (\w+)", table))
    listed = fleetctl("--help").stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    assert named == set(re.findall(r"^  (\w+)  ", listed, re.M))


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


@pytest.mark.parametrize("page", ["add-a-driver", "add-a-manifest-key", "add-a-command", "document"])
def test_checklists_name_files_that_exist(page: str) -> None:
    """Each path in code marks on a checklist is there; NAME stands for what the reader adds."""
    text = (ROOT / "docs" / "contributing" / f"{page}.md").read_text(encoding="utf-8")
    paths = [p for p in re.findall(r"`((?:[a-z]+/)+[\w./-]*)`", text) if "NAME" not in p]
    assert paths
    assert [p for p in paths if not (ROOT / p).exists()] == []
