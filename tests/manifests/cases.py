"""Runs a case file: standard documents, a change to them, and the findings that follow, with their places.

A case has `text` (a whole file), or `change` (texts of the standard documents and what stands in their
place), or `files` (several of them by name). `layers` are the path arguments (default: all files, each a
layer, or the one file); `variables` are those of --var. Each finding in `expect` has a `code`, the place
where the text `at` begins (its `nth` occurrence; or `line` as line:column), and may have texts that `detail` and `hint` must hold.
A case without `expect` must load, and `loads` may say what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from manifests.diagnostics import Diagnostic
from manifests.errors import ManifestError
from manifests.load import load
from manifests.manifest import Manifests

FOLDER = Path(__file__).resolve().parents[1] / "cases" / "manifests"
ARTIFACT = b"#!/bin/sh\n"
DIGEST = "sha256:" + "ab" * 32
STANDARD = f"""\
api_version: fleetctl/v1
kind: Release
product: hello
version: "1.0.0"
artifacts:
  - {{substrate: host, arch: any, source: ./hello.sh, digest: "{DIGEST}"}}
---
api_version: fleetctl/v1
kind: Compatibility
product: hello
pairs:
  - {{from: "1.0.0", to: "1.1.0", mode: rolling, reverse: rolling}}
---
api_version: fleetctl/v1
kind: Fleet
name: edge
trust_domain: edge.internal
release: {{product: hello, version: "1.0.0"}}
rollout: {{max_unavailable: 1}}
groups:
  - name: web
    count: 3
    substrate: host
    hosts: [localhost]
    port: 18080
    process:
      command: ["{{{{ artifact.path }}}}", "{{{{ node.port }}}}"]
      env: {{GREETING: hello}}
    health: {{http: {{path: /health}}, deadline: 30s}}
"""


@dataclass(frozen=True)
class Case:
    """One case of a file."""

    source: str
    name: str
    files: dict[str, str]
    layers: tuple[str, ...]
    variables: dict[str, str]
    var_files: tuple[str, ...]
    expect: list[dict[str, Any]]
    loads: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.source}-{self.name}"


def all_cases() -> list[Case]:
    """Every case of every case file."""
    return [_case(path.stem, raw) for path in sorted(FOLDER.glob("*.yaml")) for raw in _read(path)]


def _read(path: Path) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return loaded


def _case(source: str, raw: dict[str, Any]) -> Case:
    if "files" in raw:
        files = {name: _changed(body) for name, body in raw["files"].items()}
    else:
        files = {"fleet.yaml": _changed(raw)}
    unknown = set(raw) - {
        "name",
        "text",
        "change",
        "files",
        "layers",
        "variables",
        "var_files",
        "expect",
        "loads",
    }
    assert not unknown, (raw["name"], unknown)
    return Case(
        source,
        raw["name"],
        files,
        tuple(raw.get("layers", files)),
        raw.get("variables", {}),
        tuple(raw.get("var_files", ())),
        raw.get("expect", []),
        raw.get("loads", {}),
    )


def _changed(body: Any) -> str:
    if isinstance(body, str):
        return STANDARD if body == "standard" else body
    if "text" in body:
        text: str = body["text"]
        return text
    text = STANDARD
    for old, new in body.get("change", {}).items():
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the standard documents"
        text = text.replace(old, new)
    return text


def run(case: Case, folder: Path) -> Manifests | tuple[Diagnostic, ...]:
    """Writes the files, loads them, and gives the manifests or the findings."""
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        (path.parent / "hello.sh").write_bytes(ARTIFACT)
    try:
        return load(
            [folder / name for name in case.layers],
            variables=case.variables,
            var_files=[folder / name for name in case.var_files],
        )
    except ManifestError as e:
        return e.diagnostics


def place(case: Case, wanted: dict[str, Any], folder: Path) -> str:
    """file:line:column of the text `at`, in the file `file` (default: the only one)."""
    name = wanted.get("file", next(iter(case.files)))
    if "line" in wanted:
        return f"{folder / name}:{wanted['line']}"
    text, at = case.files[name], wanted["at"]
    offset = -1
    for _ in range(wanted.get("nth", 1)):
        offset = text.find(at, offset + 1)
        assert offset >= 0, f"{case}: {at!r} is not in {name}"
    line_start = text.rfind("\n", 0, offset) + 1
    return f"{folder / name}:{text.count(chr(10), 0, offset) + 1}:{offset - line_start + 1}"
