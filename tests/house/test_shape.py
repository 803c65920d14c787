"""The shape of the source: small modules, silent packages, nothing at the top that does not belong there."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.house.sources import ROOT, package_modules, tracked_files

# Design: modules aim at 100 to 250 lines and one idea. Above this limit, a module holds two ideas.
MODULE_LINES_MAX = 400

TOP_LEVEL = {
    ".ci",
    ".editorconfig",
    ".gitignore",
    ".pre-commit-hooks.yaml",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "action.yml",
    "docs",
    "examples",
    "executors",
    "fleetctl",
    "manifests",
    "planner",
    "pyproject.toml",
    "tests",
}

# Written in halves, so that this file does not contain what it looks for.
FOREIGN_WORDS = tuple(
    "".join(halves)
    for halves in (
        ("/work", "/main"),
        ("/work", "/shared"),
        ("/tmp", "/brief"),
        ("..", "/shared"),
        ("pypi", ".org"),
        ("python", "hosted"),
        ("npm", "js.org"),
        ("crates", ".io/"),
        ("proxy.", "golang"),
    )
)

# Names that say nothing: shared words live where they are defined.
EMPTY_NAMES = {"utils", "util", "common", "core", "helpers", "misc", "shared"}


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "path", [p for p in tracked_files() if p.name == "__init__.py"] or [None], ids=lambda p: p and relative(p)
)
def test_package_file_holds_a_docstring_only(path: Path | None) -> None:
    """A re-exporting `__init__` would load YAML into the planner behind the import contracts' back."""
    assert path is not None, "git tracks no package"
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assert len(body) == 1, f"{relative(path)} holds more than a docstring"
    assert isinstance(body[0], ast.Expr)
    assert isinstance(body[0].value, ast.Constant)
    assert isinstance(body[0].value.value, str)


def test_no_module_is_longer_than_the_limit() -> None:
    lengths = {relative(p): len(p.read_text(encoding="utf-8").splitlines()) for p in package_modules()}
    assert lengths, "no package source found"
    assert {name: n for name, n in lengths.items() if n > MODULE_LINES_MAX} == {}


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        relative(p)
        for p in package_modules()
        if not ast.get_docstring(ast.parse(p.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_module_or_folder_has_an_empty_name() -> None:
    named = [relative(p) for p in package_modules() if EMPTY_NAMES & {p.stem, *p.relative_to(ROOT).parts}]
    assert named == []


def test_top_level_holds_what_the_layout_names_and_nothing_else() -> None:
    top = {p.relative_to(ROOT).parts[0] for p in tracked_files()}
    assert top - TOP_LEVEL == set()
    assert TOP_LEVEL - top == set()


def test_tracked_files_name_no_foreign_place() -> None:
    """No path of a developer's machine and no registry host is part of the project."""
    found = [
        (relative(path), word)
        for path in tracked_files()
        for word in FOREIGN_WORDS
        if word.encode() in path.read_bytes()
    ]
    assert found == []


def test_ci_calls_the_commands_of_the_readme() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\nmake check\n" in script
    assert "\nmake test" in script
    assert "make demo" in readme
    assert "make test" in readme
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_shell_scripts_parse() -> None:
    """`sh -n` reads each POSIX script, `bash -n` each that says it is for bash."""
    scripts = [p for p in tracked_files() if p.suffix == ".sh" or p == ROOT / ".ci" / "run"]
    assert scripts
    for path in scripts:
        shell = "bash" if "bash" in path.read_text(encoding="utf-8").partition("\n")[0] else "sh"
        result = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{relative(path)}: {result.stderr}"
