"""What a GitHub runner makes of the output: only what is meant as a command is one, within the limits.

`commands` reads as a runner does: a line that begins with `::` after blanks, or holds `##[`, is a command while
none stopped them, and a stop ends at a line with its own token.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from fleetctl.cli.terminal import clean
from fleetctl.cli.views import github
from fleetctl.cli.views.markdown import SUMMARY_MAX_B, Fold, Page
from manifests.diagnostics import Diagnostic, Severity, Span, error, warning
from tests.cli.hostile import TEXTS, texts

TOP = str(Path.cwd())
_LINE_ENDS = re.compile("\r\n|[\n\r]")
# A comparison that ignores what has no width would see a command behind these.
_BLANK = "\u200b\u00ad\ufeff"
_V2 = re.compile(r"::([a-z-]+)(?: ([^\n]*?))?::(.*)", re.DOTALL)


def commands(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Every command that a runner would carry out: its name, properties and message."""
    found = []
    token = None
    for line in _LINE_ENDS.split(text):
        bare = line.lstrip().lstrip(_BLANK).lstrip()
        if token is not None:
            token = None if bare.rstrip() == f"::{token}::" else token
            continue
        if "##[" in line and not bare.startswith("::"):
            found.append(("old", {}, line))
        match = _V2.match(bare)
        if match is None:
            assert not bare.startswith("::"), line
            continue
        name, properties, message = match.groups()
        if name == "stop-commands":
            token = message
            continue
        pairs = dict(p.partition("=")[::2] for p in (properties or "").split(","))
        found.append((name, {k: unescaped(v) for k, v in pairs.items()}, unescaped(message)))
    assert token is None, "commands are stopped for good"
    return found


def unescaped(text: str) -> str:
    for mark, plain in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(mark, plain)
    return text


def remark(text: str, severity: Severity = Severity.NOTE, span: Span | None = None) -> Diagnostic:
    return Diagnostic(severity, "x.y", text, text, span, text)


@given(texts)
@example("\n".join(TEXTS))
@settings(deadline=None)
def test_nothing_in_a_report_is_a_command(text: str) -> None:
    assert commands(github.log(text, [], TOP)) == []


@given(texts)
@settings(deadline=None)
def test_an_annotation_is_one_command_with_its_whole_text(text: str) -> None:
    shown = github.annotation(remark(text, span=Span("fleet.yaml", 3, 5, 3, 9)), TOP)
    assert "\n" not in shown
    assert "\r" not in shown
    ((name, properties, message),) = commands(shown)
    assert name == "notice"
    assert properties == {
        "file": "fleet.yaml", "line": "3", "col": "5", "endColumn": "9", "title": clean(text)
    }  # fmt: skip
    assert message == (f"{clean(text)}\nHint: {clean(text)}" if text else "")


@given(texts)
@example("\n".join(TEXTS))
@settings(deadline=None)
def test_talk_is_no_command(text: str) -> None:
    assert commands(github.harmless(text)) == []


def test_the_hostile_texts_are_commands_when_nothing_is_done() -> None:
    """Otherwise these tests had no teeth."""
    assert [name for name, _, _ in commands("::error file=x::pwned")] == ["error"]
    assert [name for name, _, _ in commands("##[error]pwned")] == ["old"]


def test_a_report_that_knows_an_earlier_token_cannot_end_its_stop() -> None:
    first = github.log("report", [], TOP).splitlines()
    again = github.log("\n".join(["report", first[-1], "::error::pwned"]), [], TOP)
    assert commands(again) == []


def test_ten_of_each_type_and_the_last_says_how_many_more() -> None:
    remarks = [
        *(error("a", "A", f"{n}") for n in range(10)),
        *(warning("b", "B", f"{n}") for n in range(11)),
        *(remark(f"{n}") for n in range(500)),
    ]
    given_commands = commands("\n".join(github.commands(remarks, TOP)))
    counts = Counter(name for name, _, _ in given_commands)
    assert counts == {"error": 10, "warning": 10, "notice": 10}
    assert given_commands[9][2] == "9"
    assert given_commands[19][2].startswith("2 more")
    assert given_commands[29][2].startswith("491 more")


def test_places_are_told_from_the_top_of_the_repository() -> None:
    inside = Span(f"{TOP}/envs/../envs/fleet.yaml", 2, 3, 4, 5)
    (_, properties, _) = commands(github.annotation(remark("x", span=inside), TOP))[0]
    assert properties == {"file": "envs/fleet.yaml", "line": "2", "title": "x"}
    outside = Span("/elsewhere/fleet.yaml", 2, 3)
    (_, properties, message) = commands(github.annotation(remark("x", span=outside), TOP))[0]
    assert properties == {"title": "x"}
    assert "(at /elsewhere/fleet.yaml:2:3)" in message


def test_a_path_with_commas_and_colons_stays_one_property() -> None:
    (_, properties, _) = commands(github.annotation(remark("x", span=Span("a,b:c.yaml", 1, 1)), TOP))[0]
    assert properties["file"] == "a,b:c.yaml"


@pytest.mark.parametrize("there_b", [0, 500, SUMMARY_MAX_B - 600, SUMMARY_MAX_B + 5])
def test_a_step_s_summary_stays_within_what_github_takes(tmp_path: Path, there_b: int) -> None:
    """Together with what the step has already written."""
    path = tmp_path / "summary.md"
    path.write_bytes(b"x" * there_b)
    page = Page("<!-- m -->", ["head"], [Fold.of("long", ("\U0001f680" * 20 + "\n") * 30_000)])
    github.write_summary(path, [page, page])
    assert path.stat().st_size < max(SUMMARY_MAX_B, there_b + 1)
    assert path.read_bytes().startswith(b"x" * there_b)
    if there_b <= 500:
        assert path.stat().st_size > SUMMARY_MAX_B - 500
