"""SARIF: valid whatever is said, with places that a viewer finds."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from hypothesis import given, settings

from fleetctl.cli.views import sarif
from manifests.diagnostics import Diagnostic, Severity, Span
from tests.cli.hostile import texts

SCHEMA = json.loads((Path(__file__).parents[1] / "cases" / "review" / "sarif.schema.json").read_text())
TOP = str(Path.cwd())


@given(texts)
@settings(max_examples=50, deadline=None)
def test_any_text_gives_a_valid_log(text: str) -> None:
    found = Diagnostic(Severity.WARNING, "x.y", text, text, Span(f"envs/{text!r}.yaml", 1, 2, 3, 4), text)
    log = json.loads(sarif.render([found], TOP))
    jsonschema.Draft202012Validator(SCHEMA).validate(log)


def test_places_are_relative_to_the_root_and_escaped() -> None:
    spans = [Span("./envs/prod ü.yaml", 7, 3, 7, 9), Span("/elsewhere/x.yaml", 1, 1), None]
    found = [Diagnostic(Severity.ERROR, "a.b", "A", f"{n}", span) for n, span in enumerate(spans)]
    results = json.loads(sarif.render(found, TOP))["runs"][0]["results"]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "envs/prod%20%C3%BC.yaml", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 7, "startColumn": 3, "endLine": 7, "endColumn": 9}
    assert ["locations" in r for r in results] == [True, False, False]


def test_rules_are_listed_once_and_fingerprints_survive_a_moved_line() -> None:
    found = [
        Diagnostic(Severity.NOTE, "a.b", "A", "the same", Span("fleet.yaml", line, 1)) for line in (1, 9)
    ]
    run = json.loads(sarif.render(found, TOP))["runs"][0]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["a.b"]
    first, second = (r["partialFingerprints"] for r in run["results"])
    assert first == second
