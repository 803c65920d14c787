"""Imports go downward only. The contracts deny; the allowlists here catch what a denylist forgets."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

from tests.house.sources import PACKAGES, ROOT

PURE = ("planner", "manifests.schema", "manifests.validate", "fleetctl.ledger")

# Standard library and third-party packages that neither act, nor look at a clock, nor draw lots.
PURE_MAY_IMPORT = {
    "__future__",
    "abc",
    "base64",
    "bisect",
    "collections",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "hmac",
    "ipaddress",
    "itertools",
    "json",
    "math",
    "operator",
    "posixpath",  # for its functions on text; the planner never asks a file system
    "pydantic",
    "pydantic_core",
    "re",
    "rfc8785",
    "semver",
    "string",
    "textwrap",
    "types",
    "typing",
    "typing_extensions",
    "urllib",
}

# Templates are rendered, in a sandbox, by a library that is handed all it sees.
PURE_MAY_ALSO_IMPORT = {"manifests.validate": {"jinja2"}}

# The first room is pure but for these, which open files, parse text or resolve secrets.
MANIFESTS_SHELL = {"manifests.load", "manifests.source", "manifests.template", "manifests.secret"}

NOUNS = {f"planner.{noun}" for noun in ("observed", "recorded", "spec", "change", "graph", "plan")}

# Slow to import, or talking to the world: loaded by the module that needs them, when it needs them.
HEAVY = ("paramiko", "boto3", "botocore", "docker", "httpx", "rich", "jinja2", "libvirt", "yaml", "sqlite3")


@cache
def graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, include_external_packages=True, cache_dir=None)


def internal(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def modules_of(package: str) -> set[str]:
    return {m for m in graph().modules if inside(m, package)}


def test_contracts_hold() -> None:
    """`lint-imports` keeps every contract of pyproject.toml."""
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [str(program), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=100
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("package", PURE)
def test_pure_code_imports_only_what_is_allowed(package: str) -> None:
    """Reached directly or through other modules, every external import of a pure package is on the list."""
    sources = modules_of(package)
    assert sources, f"{package} is not there"
    reached = set(sources)
    for module in sources:
        reached |= {m for m in graph().find_upstream_modules(module) if internal(m)}
    allowed = PURE_MAY_IMPORT | PURE_MAY_ALSO_IMPORT.get(package, set())
    external = {
        (module, imported)
        for module in reached
        for imported in graph().find_modules_directly_imported_by(module)
        if not internal(imported) and imported.partition(".")[0] not in allowed
    }
    assert external == set()


def test_planner_knows_the_documents_but_not_how_they_are_read() -> None:
    known = {m for module in modules_of("planner") for m in graph().find_upstream_modules(module)}
    assert known & (MANIFESTS_SHELL - {"manifests.secret"}) == set()


def test_only_load_opens_files_in_manifests() -> None:
    """`manifests.load` is the one door from the file system, `manifests.secret` the one to a secret."""
    openers = {
        module
        for module in modules_of("manifests")
        if graph().find_modules_directly_imported_by(module) & {"os", "pathlib", "io"}
    }
    assert {m for m in openers if not inside(m, "manifests.load")} - {"manifests.secret"} == set()


def test_executors_know_the_nouns_only() -> None:
    """An executor reads a plan; it never reasons about one."""
    known = {
        imported
        for module in modules_of("executors")
        for imported in graph().find_modules_directly_imported_by(module)
        if inside(imported, "planner")
    }
    assert known - NOUNS == set()


def test_only_the_named_homes_start_processes() -> None:
    homes = {
        module
        for module in graph().modules
        if internal(module) and graph().find_modules_directly_imported_by(module) & {"subprocess", "pty"}
    }
    assert homes - {"executors.transports.local"} == set()


@pytest.mark.parametrize("module", ["planner.make", "manifests.validate", "fleetctl.ledger", "planner.check"])
def test_loading_pure_code_loads_nothing_heavy(module: str) -> None:
    """What the graph cannot see (a re-export, an import inside a function) shows in a fresh interpreter."""
    program = (
        f"import sys, importlib; importlib.import_module({module!r}); "
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (result.returncode, result.stdout.strip()) == (0, "[]"), result.stderr


def test_tests_do_not_shadow_the_packages() -> None:
    """`tests/planner/__init__.py` without `tests/__init__.py` would be imported as `planner`."""
    for package in PACKAGES:
        module = __import__(package)
        assert module.__file__ is not None
        assert Path(module.__file__).parent == ROOT / package
