"""Markdown for pull requests: nothing breaks out of it, and it is never too long."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from fleetctl.cli.terminal import clean, one_line
from fleetctl.cli.views.markdown import COMMENT_MAX, Fold, Page, bullets, characters, code, octets
from tests.cli.hostile import TEXTS, texts

MARKER = "<!-- fleetctl review 0123456789abcdef -->"


def parsed(text: str) -> list[Token]:
    """As CommonMark has it, HTML allowed, and what stands inside of paragraphs laid out flat."""
    found: list[Token] = []
    for token in MarkdownIt("commonmark", {"html": True}).parse(text):
        found.append(token)
        found += token.children or []
    return found


@given(texts)
@settings(deadline=None)
def test_a_code_span_holds_the_whole_text_and_nothing_else(text: str) -> None:
    tokens = parsed(f"- **Refused:** {code(text)} at {code(text)}")
    kinds = {t.type for t in tokens} - {"text", "code_inline", "inline", "paragraph_open", "paragraph_close"}
    assert kinds == {
        "bullet_list_open", "list_item_open", "strong_open", "strong_close", "list_item_close",
        "bullet_list_close",
    }  # fmt: skip
    spans = [t.content for t in tokens if t.type == "code_inline"]
    assert [s.strip() for s in spans] == [one_line(text).strip()] * 2
    assert "".join(t.content for t in tokens if t.type == "text") == "Refused:  at "


@given(st.lists(texts, max_size=4), texts)
@settings(deadline=None)
def test_a_page_has_our_structure_whatever_it_is_given(lines: list[str], title: str) -> None:
    page = Page(MARKER, ["### title", "", code(title), "", *bullets([code(line) for line in lines])])
    page.folds = [Fold.of(title, "\n".join(lines)), Fold.of("second", title)]
    tokens = parsed(page.render())
    assert tokens[0].type == "html_block"
    assert tokens[0].content.strip() == MARKER
    blocks = [t.content for t in tokens if t.type == "html_block"][1:]
    assert len(blocks) == 4
    assert [b.startswith("<details>\n<summary>") for b in blocks] == [True, False, True, False]
    assert all("<" not in b.split("<summary>")[1].split("</summary>")[0] for b in (blocks[0], blocks[2]))
    assert [b.strip() for b in (blocks[1], blocks[3])] == ["</details>", "</details>"]
    fences = [t for t in tokens if t.type == "fence"]
    assert [t.info for t in fences] == ["text", "text"]
    assert fences[0].content == clean("\n".join(lines).rstrip("\n")) + "\n"
    assert not [t for t in tokens if t.type in ("html_inline", "link_open", "image", "code_block")]
    assert len([t for t in tokens if t.type == "heading_open"]) == 1


sizes = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 300)), max_size=12)


@given(sizes, st.integers(0, 300), st.sampled_from(["x", "\U0001f680", "é"]), st.integers(1_000, COMMENT_MAX))
@example([(3000, 300)] * 12, 300, "\U0001f680", COMMENT_MAX)
@example([(1, 1)] * 12, 300, "x", 1_000)
@settings(deadline=None, max_examples=40)
def test_a_page_is_never_longer_than_its_limit(
    folds: list[tuple[int, int]], head: int, letter: str, limit: int
) -> None:
    """In characters as in bytes; the marker stays, and every fold that is opened is closed."""
    page = Page(MARKER, [f"- {n} {letter * 20}" for n in range(head)])
    page.folds = [
        Fold.of(f"fold {n}", "\n".join([letter * length] * count)) for n, (count, length) in enumerate(folds)
    ]
    for size in (characters, octets):
        text = page.render(limit, size)
        assert size(text) <= limit
        assert text.startswith(MARKER)
        assert text.count("<details>") == text.count("</details>") <= len(folds)


def test_what_is_too_long_is_cut_in_the_middle() -> None:
    """The first and the last lines stay, and the reader is told how many are missing."""
    page = Page(MARKER, ["head"], [Fold.of("long", "\n".join(f"line {n}" for n in range(20_000)))])
    text = page.render()
    assert COMMENT_MAX - 100 < characters(text) <= COMMENT_MAX
    assert "\nline 0\nline 1\n" in text
    assert "\nline 19998\nline 19999\n" in text
    assert " lines left out …\n" in text
    kept = sum(line.startswith("line ") for line in text.splitlines())
    assert f"… {20_000 - kept:,} lines left out …" in text


def test_small_folds_stay_whole_beside_a_large_one() -> None:
    small = Fold.of("small", "all\nof\nit")
    page = Page(
        MARKER, ["head"], [small, Fold.of("large", "x" * 50 + "\n" + ("y" * 50 + "\n") * 5_000), small]
    )
    text = page.render()
    assert text.count("\nall\nof\nit\n") == 2
    assert characters(text) <= COMMENT_MAX


def test_more_folds_than_there_is_room_for_become_one() -> None:
    page = Page(MARKER, ["head"], [Fold.of(f"fleet {n}", f"what becomes of {n}") for n in range(2_000)])
    text = page.render()
    assert text.count("<details>") == 1
    assert "== fleet 0\nwhat becomes of 0\n" in text
    assert "what becomes of 1999\n" in text
    assert characters(text) <= COMMENT_MAX


def test_long_lists_in_the_head_say_how_many_more_there_are() -> None:
    shown = bullets([str(n) for n in range(30)])
    assert len(shown) == 12
    assert shown[-1] == "- … and 19 more, see below"
    assert bullets([str(n) for n in range(12)])[-1] == "- 11"


def test_long_texts_are_cut_in_the_middle_and_stay_code() -> None:
    shown = code("a" * 1_000 + "`" + "b" * 1_000)
    assert len(shown) < 300
    assert shown.startswith("`a")
    assert shown.endswith("b`")


def test_the_hostile_texts_are_hostile() -> None:
    """Bare, they would break out; otherwise these tests had no teeth."""
    assert any(t.type in ("html_inline", "html_block") for t in parsed(f"- {TEXTS[3]}"))
    assert any(t.type == "heading_open" for t in parsed(TEXTS[4]))
    assert any(t.type == "image" for t in parsed(TEXTS[5]))
