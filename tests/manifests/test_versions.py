"""One scheme for versions, used for order and identity alike: SemVer 2.0.0."""

from __future__ import annotations

import pytest

from manifests.version import Direction, direction, is_version

UP, DOWN, SAME = Direction.UPGRADE, Direction.DOWNGRADE, Direction.SAME


@pytest.mark.parametrize(
    ("old", "new", "way"),
    [
        ("1.0.0-rc.2", "1.0.0-rc.10", UP),  # numbers count as numbers
        ("1.0.0-rc9", "1.0.0-rc10", DOWN),  # one identifier: text order
        ("2.0.0-rc.18", "2.0.0-rc.8-1", UP),  # `8-1` is text, and text is above numbers
        ("1.0.0-RC.1", "1.0.0-rc.1", UP),  # ASCII order: upper case first
        ("1.2.0-1", "1.2.0", UP),  # a pre-release comes before its release
        ("v1.2.0", "1.2.0", SAME),
        ("1.0.0+a", "1.0.0+b", SAME),  # metadata has no order
        ("1.0.0", "1.0.0+a", SAME),
        ("1.9.0", "1.10.0", UP),
        ("1.0.0", "0.9.9", DOWN),
        ("1.0.0-alpha", "1.0.0-alpha.1", UP),
    ],
)
def test_order(old: str, new: str, way: Direction) -> None:
    back = {UP: DOWN, DOWN: UP, SAME: SAME}[way]
    assert (direction(old, new), direction(new, old)) == (way, back)


@pytest.mark.parametrize(
    "text",
    [
        "latest",
        "1.0",
        "1",
        "1.x",
        "",
        "v",
        "1.0.0.0",
        "01.0.0",
        "1.0.0-",
        "1.0.0+",
        "1.0.0 ",
        "vv1.0.0",
        "1.0.0-01",
    ],
)
def test_not_a_version(text: str) -> None:
    """What is not a version is an error to whoever asks for its order, never older or newer."""
    assert not is_version(text)
    with pytest.raises(ValueError):
        direction(text, "1.0.0")
