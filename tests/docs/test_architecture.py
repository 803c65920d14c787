"""What the architecture page names is there."""

from __future__ import annotations

import re

import pytest

from tests.house.sources import PACKAGES, ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(rf"`((?:{'|'.join(PACKAGES)})(?:\.[a-z_]+)+)`", PAGE)))


@pytest.mark.parametrize("name", NAMED)
def test_module_exists(name: str) -> None:
    """A dotted name in code marks is a module, a package, or something that a module defines."""
    path = ROOT / name.replace(".", "/")
    if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
        return
    module, _, inner = name.rpartition(".")
    source = (ROOT / module.replace(".", "/")).with_suffix(".py")
    assert source.is_file(), name
    assert re.search(rf"^(?:def|class) {inner}\b", source.read_text(encoding="utf-8"), re.M), name


def test_request_goes_through_all_four_rooms() -> None:
    """In their order of use, from the command line down and back."""
    rows = re.findall(r"^\| (\d+) \| `([a-z_.]+)` \|", PAGE, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert {name.partition(".")[0] for _, name in rows} == set(PACKAGES)
    assert rows[0][1] == "fleetctl.cli.main"
