"""The site has an order, and no reader is more than three steps from any page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import documentation
from tests.house.sources import ROOT

DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s:]+\.md)(?:#[^)]*)?\)")
STEPS_MAX = 3


class Configuration(yaml.SafeLoader):
    """mkdocs' own YAML, which may name functions of its extensions."""


Configuration.add_multi_constructor("tag:yaml.org,2002:python/name:", lambda _, name, __: name)


def listed(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [page for part in inner for page in listed(part)]


def pages() -> set[str]:
    return {p.relative_to(DOCS).as_posix() for p in documentation() if p.is_relative_to(DOCS)}


def test_navigation_lists_every_page_once() -> None:
    """The single decisions are found from their index."""
    configuration = yaml.load((ROOT / ".ci" / "mkdocs.yml").read_text(encoding="utf-8"), Configuration)
    found = listed(configuration["nav"])
    assert len(found) == len(set(found))
    assert set(found) == {p for p in pages() if not p.startswith("decisions/0")}


def test_every_page_is_within_three_steps_of_the_entry() -> None:
    reached, edge = {"index.md"}, {"index.md"}
    for _ in range(STEPS_MAX):
        linked = {
            _target(page, link) for page in edge for link in LINK.findall((DOCS / page).read_text("utf-8"))
        }
        edge = (linked & pages()) - reached
        reached |= edge
    assert pages() - reached == set()


def _target(page: str, link: str) -> str:
    path = (DOCS / page).parent / link
    return (
        Path(path).resolve().relative_to(ROOT / "docs").as_posix()
        if path.resolve().is_relative_to(DOCS)
        else ""
    )


@pytest.mark.parametrize("kind", ["how-to", "reference"])
def test_entry_page_leads_to_each_page_of_a_kind(kind: str) -> None:
    entry = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [p for p in sorted(pages()) if p.startswith(f"{kind}/") and f"({p})" not in entry] == []


def test_checklists_have_each_kind_of_change() -> None:
    page = (DOCS / "checklists.md").read_text(encoding="utf-8")
    parts = {part.partition("\n")[0]: part.count("- [ ] ") for part in page.split("\n## ")[1:]}
    assert set(parts) >= {
        "Upgrade",
        "Downgrade",
        "A change of the data's format",
        "Scaling",
        "A host is lost",
        "A secret is rotated",
        "A configuration is changed",
        "Replace a host",
        "Move the state",
    }
    assert min(parts.values()) >= 4


def test_comparison_says_its_limits_first_and_cites() -> None:
    page = (DOCS / "comparison.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", page, re.M)
    assert headings[0] == "Our limits first"
    assert [tool for tool in ("Ansible", "pyinfra", "Kamal", "Nomad", "OpenTofu") if tool not in page] == []
    notes = re.findall(r"^- \[(\d)\] .*https://", page, re.M)
    assert sorted(set(re.findall(r"\[(\d)\]", page))) == notes
