"""What `explain` says of each key agrees with the schema, and the examples' words with both."""

from __future__ import annotations

import re

import pytest

from manifests.explain import documented, explain
from manifests.key_facts import facts
from manifests.schema.kinds import KINDS

ALL = [(kind, steps) for kind in KINDS for steps in sorted(documented(kind))]


def test_every_key_takes_something_that_has_words() -> None:
    strange = [(kind, steps) for kind, steps in ALL if re.search(r"[\\^$]|None", facts(kind, steps).takes)]
    assert strange == []


def in_seconds(text: str) -> str:
    """60s and 1m are one."""
    return f"{int(text[:-1]) * 60}s" if re.fullmatch(r"[0-9]+m", text) else text


def test_the_defaults_that_comments_name_are_the_schemas_own() -> None:
    """`(default 1s)` in an annotated example, where it names a value and not a rule."""
    wrong, seen = [], 0
    for kind, steps in ALL:
        comment = "".join(
            line for line in explain(".".join((kind, *steps))).splitlines(True) if line[0] == "#"
        )
        named = re.search(r"\(default:? (\w+)\)", comment)
        if named is None or named[1] == "none":
            continue
        seen += 1
        if in_seconds(named[1]) != in_seconds((facts(kind, steps).default or "").strip("[]")):
            wrong.append((kind, steps, named[0], facts(kind, steps).default))
    assert wrong == []
    assert seen > 10


@pytest.mark.parametrize(
    ("key", "takes", "required", "default"),
    [
        ("Fleet.groups.health.interval", "a duration, such as 500ms, 10s, 5m, 2h or 1d", False, "1s"),
        ("Fleet.groups.health.min_ready", "a duration, such as 500ms, 10s, 5m, 2h or 1d", False, "0s"),
        ("Fleet.rollout.progress_deadline", "a duration, such as 500ms, 10s, 5m, 2h or 1d", False, "10m"),
        (
            "Fleet.rollout.max_unavailable",
            "a whole number from 0, or a percentage, from 0% to 100%",
            False,
            "1",
        ),
        (
            "Fleet.groups.hosts",
            "a list, each text: 1-63 characters: a-z, 0-9, inner hyphens",
            False,
            "[localhost]",
        ),
        ("Fleet.groups.nodes.port", "a whole number from 1 to 65535", False, None),
        ("Fleet.rollout.auto_revert", "true or false", False, "false"),
        ("Release.artifacts", "a list of mappings", True, None),
        ("Host.ssh.become.method", "always sudo", False, "sudo"),
    ],
)
def test_facts(key: str, takes: str, required: bool, default: str | None) -> None:
    kind, *steps = key.split(".")
    found = facts(kind, tuple(steps))
    assert (found.takes, found.required, found.default) == (takes, required, default)


def test_the_keys_below_are_those_of_the_schema() -> None:
    assert facts("Fleet", ("groups", "process", "limits")).below == ("memory", "open_files", "processes")
    assert facts("Fleet", ()).below[:3] == ("api_version", "kind", "name")
    assert facts("Fleet", ("name",)).below == ()
