"""fmt: never changes what a file says, keeps every comment, and has nothing to do the second time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import ManifestError
from manifests.formatting import formatted, says_the_same
from manifests.source import compose

ROOT = Path(__file__).resolve().parents[2]
CASES = sorted((ROOT / "tests" / "cases" / "formatting").glob("*.in.yaml"))


def again(text: str) -> str:
    return formatted(text.encode(), "x.yaml")


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.name.removesuffix(".in.yaml"))
def test_cases(path: Path) -> None:
    wanted = path.with_name(path.name.replace(".in.", ".out.")).read_text(encoding="utf-8")
    assert formatted(path.read_bytes(), path.name) == wanted
    assert again(wanted) == wanted


@pytest.mark.parametrize(
    "path",
    sorted(
        [
            *ROOT.glob("manifests/reference/*.yaml"),
            *ROOT.glob("examples/*/*.yaml"),
            *ROOT.glob("manifests/tables/*.yaml"),
        ]
    ),
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_the_projects_own_manifests_are_laid_out(path: Path) -> None:
    assert formatted(path.read_bytes(), str(path)) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    ["", "a: 1\n  b: 2\n", "a: [1\n", "\ta: 1\n", "- 1\n", "a: \x07\n"],
    ids=["empty", "nesting", "bracket", "tab", "list", "bell"],
)
def test_what_is_no_manifest_is_a_finding_with_its_place(text: str) -> None:
    with pytest.raises(ManifestError) as e:
        again(text)
    assert e.value.diagnostics[0].span is not None


def test_quotes_and_comments_are_part_of_what_is_said() -> None:
    assert says_the_same("a: 'x'\n", 'a:   "x"\n')
    assert not says_the_same("a: 'x'\n", "a: x\n")
    assert not says_the_same("a: x # y\n", "a: x\n")
    assert not says_the_same("a: &b x\nc: *b\n", "a: &b x\nc: x\n")


# Documents laid out at random: what hypothesis shrinks is the layout as much as the values.

words = st.text("ab-#:,'\"{}[]&*!|>%@` .\\0ä", min_size=0, max_size=8)
plain = st.sampled_from(["a", "b c", "1.10", "yes", "~", "x#y", "a:b", "*", "http://x/y"]).filter(
    lambda w: w != "*"
)
comments = st.sampled_from(["# c", "#c", "## c", "#", "# - x: 'y'"])


@st.composite
def scalar(draw: st.DrawFn, indent: int, flow: bool) -> str:
    kind = draw(st.integers(0, 3 if flow else 6))
    if kind == 0:
        return draw(plain)
    if kind == 1:
        return "'" + draw(words).replace("'", "''") + "'"
    if kind == 2:
        text = draw(words).replace("\\", "\\\\").replace('"', '\\"')
        gap = "\n" + " " * (indent + draw(st.integers(1, 4)))
        return '"' + text + draw(st.sampled_from(["", f" {gap}x", f"\\{gap}x", f"\n{gap}x"])) + '"'
    if kind == 3:
        return draw(st.sampled_from(["&n a", "!!str a", "'1'"]))
    if kind == 4:
        return (
            "one\n"
            + " " * (indent + draw(st.integers(1, 5)))
            + draw(st.sampled_from(["two", "- two", "? x"]))
        )
    inner = " " * (indent + draw(st.integers(1, 5)))
    lines = draw(st.lists(st.sampled_from(["x", "  y", "", "# no comment", "- z ", "   "]), max_size=4))
    header = (
        draw(st.sampled_from("|>"))
        + draw(st.sampled_from(["", "-", "+"]))
        + draw(st.sampled_from(["", " # c"]))
    )
    body = ["first", *lines]
    return header + "\n" + "\n".join(inner + line if line.strip() else line and inner + line for line in body)


@st.composite
def flowing(draw: st.DrawFn, indent: int, depth: int) -> str:
    gap = st.sampled_from(["", " ", "  ", "\n" + " " * (indent + 1), " # c\n" + " " * (indent + 3)])
    if depth == 0 or draw(st.booleans()):
        return draw(scalar(indent, flow=True))
    items = draw(st.lists(flowing(indent, depth - 1), max_size=3))
    if draw(st.booleans()):
        return "[" + draw(gap) + (draw(gap) + "," + draw(gap)).join(items) + draw(gap) + "]"
    pairs = [f"k{n}:{draw(st.sampled_from([' ', '  ']))}{item}" for n, item in enumerate(items)]
    return "{" + draw(gap) + (draw(gap) + ", " + draw(gap)).join(pairs) + draw(gap) + "}"


@st.composite
def block(draw: st.DrawFn, indent: int, depth: int) -> str:
    """The lines of a mapping or list at a column, each item with what may stand around it."""
    lines = []
    sequence = draw(st.booleans()) if indent or depth < 3 else False
    for n in range(draw(st.integers(1, 3))):
        if draw(st.integers(0, 3)) == 0:
            lines.append(" " * draw(st.integers(0, indent + 3)) + draw(comments))
        lines += [""] * draw(st.sampled_from([0, 0, 0, 1, 3]))
        head = " " * indent + (
            "-" if sequence else draw(st.sampled_from([f"k{n}", f'"k {n}"', f"&a{n} k{n}"])) + ":"
        )
        kind = draw(st.integers(0, 3))
        if kind == 0 and depth:
            deeper = indent + draw(st.integers(0 if not sequence else 1, 4))
            below = draw(block(deeper, depth - 1))
            if deeper == indent and not below.lstrip(" \n").startswith("-"):
                below = "\n".join(" " + line if line.strip() else line for line in below.split("\n"))
            after = draw(st.sampled_from(["", "  # c", " &m"]))
            lines.append(f"{head}{after}\n{below}")
        elif kind == 1:
            lines.append(
                f"{head} {draw(flowing(indent, 2))}{draw(st.sampled_from(['', ' # c', '    # c', ' ']))}"
            )
        elif kind == 2:
            lines.append(head + draw(st.sampled_from(["", " # c"])))
        else:
            lines.append(f"{head}{' ' * draw(st.integers(1, 4))}{draw(scalar(indent, flow=False))}")
    return "\n".join(lines)


@st.composite
def files(draw: st.DrawFn) -> str:
    parts = draw(st.lists(block(0, 3), min_size=1, max_size=2))
    ends = draw(st.sampled_from(["", "\n", "\n\n\n", "\n  # end\n"]))
    return (
        draw(st.sampled_from(["", "---\n", "# first\n\n\n---  # c\n", "\n\n"])) + "\n---\n".join(parts) + ends
    )


@settings(max_examples=150, deadline=None)
@given(files(), st.booleans())
def test_fmt_never_changes_what_is_said_and_is_done_the_first_time(text: str, windows: bool) -> None:
    """A text that YAML takes is never refused, says the same afterwards, and is laid out once and for all."""
    data = (text.replace("\n", "\r\n") if windows else text).encode()
    if compose(data, "x")[1]:
        return
    result = formatted(data, "x")
    assert says_the_same(text, result)
    assert again(result) == result
    assert "\n\n\n" not in result or {"|", ">"} & set(text)
    assert result.endswith("\n") or not text.endswith("\n")
