"""A finding shows what, where with the line itself, why, and what to write instead."""

from __future__ import annotations

from pathlib import Path

from fleetctl.cli.views.diagnostics import render_diagnostics, render_error
from fleetctl.cli.views.json_text import diagnostics_document
from manifests.diagnostics import Span, error, warning
from manifests.errors import ManifestError, RefusedError


def test_a_finding_names_the_place_and_points_at_it(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("kind: Fleet\nname: web\ncuont: 3\n")
    finding = error(
        "schema.unknown-key",
        "Unknown key",
        "`cuont` is not a key of a group.",
        span=Span(str(path), 3, 1, 3, 6),
        hint="write `count`",
        path="groups[0].cuont",
    )
    assert render_error(ManifestError([finding])) == (
        "Error: Unknown key\n"
        f"  at {path}:3:1 (groups[0].cuont)\n"
        "  3 | cuont: 3\n"
        "    | ^^^^^\n"
        "  `cuont` is not a key of a group.\n"
        "  Hint: write `count`"
    )


def test_errors_come_first_and_are_counted() -> None:
    text = render_diagnostics([warning("w", "Odd"), error("a", "One"), error("b", "Two")])
    assert text == "Error: One\n\nError: Two\n\nWarning: Odd\n\n2 errors."


def test_a_file_that_is_gone_costs_only_the_snippet() -> None:
    text = render_diagnostics([error("a", "One", span=Span("/nowhere/f.yaml", 3, 1))])
    assert text == "Error: One\n  at /nowhere/f.yaml:3:1"


def test_a_long_line_is_cut_around_the_place(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text("x" * 1000 + "HERE" + "y" * 1000)
    text = render_diagnostics([error("a", "One", span=Span(str(path), 1, 1001, 1, 1005))])
    snippet, caret = text.splitlines()[2:4]
    assert snippet[caret.index("^") : caret.rindex("^") + 1] == "HERE"
    assert len(snippet) < 160


def test_a_manifest_cannot_command_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "evil.yaml"
    path.write_text("name: \x1b[2Jgone\n")
    finding = error("a", "Bad \x1b[31mname", span=Span(str(path), 1, 7), hint="\x07")
    assert "\x1b" not in render_diagnostics([finding])
    assert "\x07" not in render_diagnostics([finding])


def test_an_error_shows_its_hint() -> None:
    assert render_error(RefusedError("no", hint="do that")) == "Error: no\nHint: do that"


def test_the_document_for_machines_has_each_finding_with_its_range() -> None:
    document = diagnostics_document(
        [error("a.b", "One", "why", span=Span("f", 3, 1, 3, 6)), warning("w", "Odd")]
    )
    assert (document["valid"], document["error_count"], document["warning_count"]) == (False, 1, 1)
    assert document["diagnostics"][0]["range"] == {
        "filename": "f",
        "start": {"line": 3, "column": 1},
        "end": {"line": 3, "column": 6},
    }
