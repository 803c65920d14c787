"""Unquoted scalars: what any YAML version reads as something else than text is never taken for text."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from manifests.scalars import Ambiguous, plain

# YAML 1.2.2 section 10.3.2, the core schema, written down independently of the module.
CORE = re.compile(
    r"(?:null|Null|NULL|~|true|True|TRUE|false|False|FALSE|[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
    r"|[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN)"
)
RESOLVER = yaml.resolver.Resolver()


def read_as_text_everywhere(text: str) -> bool:
    """Whether a YAML 1.1 parser and the YAML 1.2 core schema both read it as text."""
    return (
        RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str"
        and CORE.fullmatch(text) is None
    )


@given(st.text(alphabet="0123456789abefxoNnYyTt+-._:~= eE", min_size=1, max_size=12).map(str.strip))
def test_never_text_where_a_yaml_version_disagrees(text: str) -> None:
    if isinstance(plain(text), str):
        assert read_as_text_everywhere(text)


@given(st.integers(min_value=-(10**15) + 1, max_value=10**15 - 1))
def test_a_decimal_number_is_itself(number: int) -> None:
    assert plain(str(number)) == number


@pytest.mark.parametrize("text", ["true", "false"])
def test_only_lower_case_words_are_truth_values(text: str) -> None:
    assert plain(text) is (text == "true")
    assert isinstance(plain(text.title()), Ambiguous)
    assert isinstance(plain(text.upper()), Ambiguous)


@pytest.mark.parametrize(
    "text",
    ["1.10.0", "v1.2.0", "1.0.0+a", "127.0.0.1", "10.0.0.1:80", "host:22", "-p", "--port", "+x", "a1", "e5", "-e5", "...",
     "-", "+", "._.", "2022-01-16-build", "22:60x", "0x", "0b", "1e", "sha256:12", "12ab", "::1", "1:2:x", "..", "inf"],
)  # fmt: skip
def test_these_are_text(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    "text",
    ["1.10", "5.", ".5", "1e3", "12e03", "1.5e+3", "9509425349e4", "1_000", "0644", "00", "-0", "+5", "0o644", "0x10",
     "0b1", "22:22", "22:60", "9022:22", "1:2:3", "1:2.5", "2022-01-16", "2022-1-1 10:00:00", "2022-01-16T10:00:00Z",
     ".inf", "-.INF", ".NaN", "=", "<<", "y", "N", "Yes", "off", "1" * 16, "0" * 64],
)  # fmt: skip
def test_these_are_disputed(text: str) -> None:
    value = plain(text)
    assert isinstance(value, Ambiguous)
    assert value.text == text


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_these_are_nothing(text: str) -> None:
    assert plain(text) is None
