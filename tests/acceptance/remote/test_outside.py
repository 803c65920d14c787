"""The outside client counts what is certain: outages that overlap, and nothing that only its own slowness suggests."""

from __future__ import annotations

from tests.acceptance.remote.outside import Asked, Outside


def seen(**asked: str) -> Outside:
    """A client that asked each node once a second; `.` served, `x` did not, each answer taking half a second."""
    outside = Outside(dict.fromkeys(asked, ("127.0.0.1", 1)))
    for name, answers in asked.items():
        outside.asked[name] = [Asked(n, n + 0.5, a == ".") for n, a in enumerate(answers)]
    return outside


def test_outages_one_after_another_are_one_at_a_time() -> None:
    assert seen(a=".xxx....", b="....xxx.").fewest_available == 1


def test_outages_that_overlap_add_up() -> None:
    assert seen(a=".xxxx...", b="...xxx..", c="........").fewest_available == 1


def test_a_single_missed_answer_proves_that_one_node_was_down_and_no_more() -> None:
    client = seen(a=".x..", b=".x..", c="....")
    assert client.fewest_available == 2
    assert client.went_down == {"a", "b"}


def test_an_outage_that_lasts_to_the_end_counts() -> None:
    assert seen(a="..xx", b="..xx").fewest_available == 0
