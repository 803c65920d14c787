"""Every case file: what loads, what is refused, with which code, at which line and column, with which advice."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

from manifests.diagnostics import Diagnostic
from manifests.manifest import Manifests
from tests.manifests.cases import Case, all_cases, place, run


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_case(case: Case, tmp_path: Path) -> None:
    """The findings are exactly those that are expected, each at its place; without any, the documents load."""
    result = run(case, tmp_path)
    findings = result.warnings if isinstance(result, Manifests) else result
    assert sorted(_seen(d) for d in findings) == sorted(_wanted(case, w, tmp_path) for w in case.expect), (
        findings
    )
    for wanted in case.expect:
        _check_texts(wanted, [d for d in findings if _seen(d) == _wanted(case, wanted, tmp_path)])
    if isinstance(result, Manifests):
        assert any(d.is_error for d in findings) is False
        for path, value in case.loads.items():
            assert _shown(attrgetter(path)(_Root(result))) == value, path
    else:
        assert any(d.is_error for d in findings)


def _seen(d: Diagnostic) -> str:
    return f"{d.code} {d.span}"


def _wanted(case: Case, wanted: dict[str, Any], folder: Path) -> str:
    where = "None" if wanted.get("at") is None and "line" not in wanted else place(case, wanted, folder)
    return f"{wanted['code']} {where}"


def _check_texts(wanted: dict[str, Any], findings: list[Diagnostic]) -> None:
    for part in ("detail", "hint"):
        texts = wanted.get(part, [])
        for text in [texts] if isinstance(texts, str) else texts:
            assert any(text in (getattr(d, part) or "") for d in findings), (part, text, findings)


class _Root:
    """`fleet`, `group`, `node0`, `release` of what was loaded, for short paths in case files."""

    def __init__(self, manifests: Manifests) -> None:
        self.manifests = manifests
        self.fleets = sorted(manifests.fleets)
        self.hosts = sorted(manifests.hosts)
        self.releases = sorted(f"{p} {v}" for p, v in manifests.releases)
        self.vars = dict(manifests.vars)
        if manifests.fleets:
            self.fleet = next(iter(manifests.fleets.values()))
            self.group = self.fleet.groups[0]
            self.process = self.group.process
            self.forms = [type(v).__name__ for v in self.process.env.values()]
            self.file = next(iter(self.process.files), None)
            self.env = {k: str(v) for k, v in self.process.env.items()}
        if manifests.releases:
            self.release = next(iter(manifests.releases.values()))
            self.artifacts = [f"{a.substrate} {a.arch} {a.source}" for a in self.release.artifacts]
        self.pairs = [f"{p.from_} {p.to} {p.mode}" for c in manifests.compatibility for p in c.pairs]

    @property
    def nodes(self) -> list[str]:
        return [f"{n.name} {n.port}" for n in self.group.nodes or ()]

    @property
    def groups(self) -> list[str]:
        return [g.name for g in self.fleet.groups]


def _shown(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_every_reported_kind_has_a_case_file() -> None:
    """Each manifest and version entry of the collected reports has a file of cases here."""
    sources = {case.source.partition("-")[0] for case in all_cases()}
    assert {"Y1", "Y2", "Y3", "Y4", "Y5", "Y8", "Y9", "Y11", "V1", "V2"} <= sources
