"""The page of error codes is what the source says, and no code is missing from it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

from tests.docs.error_codes import (
    COMPOSED,
    ERRORS,
    FINDINGS_OF_MANIFESTS,
    by_code,
    composed_beginnings,
    first_sentence,
    page,
)
from tests.docs.write_error_codes import PAGE
from tests.house.sources import ROOT, package_modules

# `code="x.y"` as text: found without reading the tree, so that the reader of the tree is held against it.
_GIVEN = re.compile(r"\bcode(?:: str)? ?= ?\"([a-z0-9_-]+\.[a-z0-9_-]+)\"")
# Events have a page of their own.
_SUMMARY = re.compile(r"(?<!EventType)\(\s*\"([a-z]+(?:-[a-z]+)*\.[a-z]+(?:-[a-z]+)*)\",\s*f?\"[A-Z][^\"]* ")


def test_page_is_what_the_source_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.write_error_codes"


def listed() -> set[str]:
    return set(re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.M))


def test_no_code_of_the_source_is_missing() -> None:
    """Whatever looks like a code, read as plain text, is a row."""
    given: set[str] = set()
    for path in package_modules():
        if "cellz" not in path.parts:
            text = path.read_text(encoding="utf-8")
            given |= {*_GIVEN.findall(text), *_SUMMARY.findall(text)}
    assert len(given) > 150
    assert given - listed() == set()


def _codes(value: object) -> set[str]:
    if isinstance(value, dict):
        own = {v for k, v in value.items() if k == "code" and isinstance(v, str)}
        return own.union(*(_codes(v) for v in value.values()))
    if isinstance(value, list):
        return set().union(*(_codes(v) for v in value)) if value else set()
    return set()


def test_codes_that_are_put_together_are_known_by_their_beginnings() -> None:
    """A new `f"beginning.{ending}"` needs its endings in COMPOSED."""
    assert composed_beginnings() == set(COMPOSED)
    assert {"compat.unknown", "change.destroy", "environment.required", "manifest.version"} <= listed()


def test_codes_that_cases_expect_are_listed() -> None:
    """The case files are written by hand, and name what really came."""
    found: set[str] = set()
    for path in (ROOT / "tests" / "cases" / "manifests").glob("*.yaml"):
        found |= set(re.findall(r"\bcode: ([a-z]+\.[a-z-]+)", path.read_text(encoding="utf-8")))
    for path in (ROOT / "tests" / "cases" / "planner").glob("*.yaml"):
        refused = re.findall(r"\brefusals: \[([^\]]*)\]", path.read_text(encoding="utf-8"))
        found |= {code.strip() for codes in refused for code in codes.split(",") if code.strip()}
    assert len(found) > 70
    assert found - listed() == set()


def test_every_code_says_what_it_means() -> None:
    """Errors, findings and refusals have words of their own."""
    places = by_code((*ERRORS, *FINDINGS_OF_MANIFESTS, "refusal", "warning"))
    assert [code for code, found in places.items() if not any(p.meaning for p in found)] == []


def test_a_command_ends_as_the_page_says(tmp_path: Path) -> None:
    """The codes that the real command prints are rows, with the exit code that it has."""
    fleetctl = str(Path(sys.executable).with_name("fleetctl"))
    (tmp_path / "bad.yaml").write_text("kind: Nothing\n", encoding="utf-8")
    done = subprocess.run(
        [fleetctl, "validate", "bad.yaml", "--format", "json"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    codes = _codes(yaml.safe_load(done.stdout))
    assert codes
    assert codes <= listed()
    assert {p.exit_code for code in codes for p in by_code()[code]} == {done.returncode}


def test_first_sentence() -> None:
    assert first_sentence("The lock is held; wait.\n\nMore.") == "The lock is held"
    assert first_sentence("One line of\ntwo") == "One line of two"
