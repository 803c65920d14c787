"""Policies judge a plan: each rule at its place, for the fleets it names, as errors that refuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from manifests.diagnostics import Diagnostic, Span
from manifests.manifest import Key, Manifests, Path
from manifests.schema.policy import Policy
from planner.freeze import Moment
from planner.plan import Plan, encode
from planner.policy import Question, judge
from planner.policy_answer import ANSWER_MAX_B, answered
from planner.reading import read_plan
from tests.planner.fleets import World, compatibility, fleet, group, host, manifests

NOON = Moment(datetime(2030, 11, 27, 12, tzinfo=UTC), {"UTC": UTC})
TABLE = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"), ("1.1.0", "1.2.0", "full"))
ALWAYS = {"periods": ({"from": "2000-01-01", "until": "2090-01-01", "reason": "a long winter"},)}


def policy(name: str = "production", fleets: tuple[str, ...] = ("*",), **rules: Any) -> Policy:
    return Policy.model_validate(
        {
            "api_version": "fleetctl/v1",
            "kind": "Policy",
            "name": name,
            "fleets": fleets,
            "reason": "the house",
            "rules": rules,
        }
    )


def wanted(
    version: str = "1.0.0",
    *policies: Policy,
    count: int = 3,
    reserve: int = 0,
    retain: bool = True,
    name: str = "hello",
) -> Manifests:
    def where(key: Key, path: Path) -> Span | None:
        return Span("a:b/policy.yaml", 7, 1 + len(path)) if key[0] == "Policy" else None

    made = fleet(
        version,
        group(count=count, data={"path": "data", "retain": retain}),
        name=name,
        rollout={"max_unavailable": 1, "reserve": reserve},
    )
    return manifests(made, compat=[TABLE], policies={p.name: p for p in policies}, where=where)


def running(**values: Any) -> World:
    return World().reach(wanted(**values))


def findings(plan: Plan, command: str = "apply", approved: bool | None = None) -> list[Diagnostic]:
    found = judge(plan, plan.policies, Question(NOON, command, approved))
    for each in found:
        assert each.span == Span("a:b/policy.yaml", 7, 3)
        assert "policy production: the house" in each.detail
        assert each.path == "rules." + each.code.removeprefix("policy.")
    return list(found)


def codes(plan: Plan, command: str = "apply", approved: bool | None = None) -> list[str]:
    return [f"{d.severity}:{d.code.removeprefix('policy.')}" for d in findings(plan, command, approved)]


def test_destroying_is_counted_by_fleet() -> None:
    world = running()
    assert codes(world.plan(wanted("1.0.0", policy(destroy_max=1), count=2))) == []
    plan = world.plan(wanted("1.0.0", policy(destroy_max=1), count=1))
    assert codes(plan) == ["error:destroy_max"]
    assert "fleet/hello: 2 would be destroyed (web-1, web-2), and at most 1" in findings(plan)[0].detail


def test_what_is_replaced_is_not_destroyed_and_what_ends_for_good_is() -> None:
    world = running()
    assert codes(world.plan(wanted("1.1.0", policy(destroy_max=0)))) == []
    assert codes(world.plan(wanted("1.0.0", policy(destroy_max=2)), destroy=True), "destroy") == [
        "error:destroy_max"
    ]


def test_lost_data_is_counted() -> None:
    world = running(retain=False)
    plan = world.plan(wanted("1.0.0", policy(data_lost_max=0), count=2, retain=False))
    assert codes(plan) == ["error:data_lost_max"]
    assert codes(running().plan(wanted("1.0.0", policy(data_lost_max=0), count=2))) == []


@pytest.mark.parametrize(
    ("least", "refused"), [(1, False), (2, True), ("34%", False), ("67%", True), (5, True)]
)
def test_a_reserve_is_demanded(least: int | str, refused: bool) -> None:
    plan = World().plan(wanted("1.0.0", policy(reserve_min=least), reserve=1))
    assert codes(plan) == (["error:reserve_min"] if refused else [])
    world = running(reserve=1)
    assert (
        codes(world.plan(wanted("1.0.0", policy(reserve_min=least), reserve=1), destroy=True), "destroy")
        == []
    )


def test_accepted_downtime_does_not_go_below_a_demanded_reserve() -> None:
    world = running(version="1.1.0", reserve=1)
    plan = world.plan(wanted("1.2.0", policy(reserve_min=1), reserve=1), accept_downtime=True)
    assert not plan.refused
    assert codes(plan) == ["error:reserve_min"]
    assert "0 of 3 nodes would stay available, and 1 must" in findings(plan)[0].detail


def test_hosts_are_allowed_by_pattern_and_leaving_one_is_always_allowed() -> None:
    world = running()
    elsewhere = policy(hosts=("machine-*",))
    plan = world.plan(wanted("1.0.0", elsewhere, count=2))
    assert codes(plan) == ["error:hosts"]
    assert "web-0, web-1 would be on localhost; allowed are machine-*" in findings(plan)[0].detail
    assert codes(world.plan(wanted("1.0.0", elsewhere), destroy=True), "destroy") == []
    assert codes(world.plan(wanted("1.1.0", policy(hosts=("machine-*", "l*t"))))) == []


def test_products_are_allowed_by_name() -> None:
    assert codes(World().plan(wanted("1.0.0", policy(products=("hell",))))) == ["error:products"]
    assert codes(World().plan(wanted("1.0.0", policy(products=("hell", "hello"))))) == []


@pytest.mark.parametrize(
    ("scope", "holds"), [(("hello",), True), (("h*",), True), (("hello-*", "other"), False)]
)
def test_a_policy_holds_for_the_fleets_that_it_names(scope: tuple[str, ...], holds: bool) -> None:
    plan = World().plan(wanted("1.0.0", policy(fleets=scope, products=("x",))))
    assert bool(plan.policies) is holds
    assert bool(codes(plan)) is holds


def test_a_freeze_forbids_effects_and_leaves_the_ways_out_of_trouble() -> None:
    world = running()
    frozen = policy(freeze=ALWAYS)
    plan = world.plan(wanted("1.1.0", frozen))
    assert codes(plan) == ["error:freeze"]
    assert (
        "until 2090-01-01 00:00 in UTC (a long winter); it is 2030-11-27 12:00 there"
        in findings(plan)[0].detail
    )
    assert codes(plan, "rollback") == codes(plan, "drain") == []
    assert codes(plan, "destroy") == ["error:freeze"]
    assert codes(world.plan(wanted("1.0.0", frozen))) == [], "nothing to do is no change"


def test_an_approval_is_a_warning_until_something_is_done() -> None:
    world = running()
    for demanded, plan in (
        ("changes", world.plan(wanted("1.1.0", policy(require_approval="changes")))),
        ("destroys", world.plan(wanted("1.0.0", policy(require_approval="destroys"), count=2))),
    ):
        assert codes(plan) == ["warning:require_approval"], demanded
        assert codes(plan, approved=False) == ["error:require_approval"]
        assert codes(plan, approved=True) == []
        assert codes(plan, "rollback", approved=False) == []
    assert codes(world.plan(wanted("1.1.0", policy(require_approval="destroys"))), approved=False) == []


def test_policies_add_up_and_are_kept_in_the_plan() -> None:
    """A plan that is read again is judged the same."""
    plan = World().plan(
        wanted(
            "1.0.0", policy(products=("x",)), replace_name(policy(hosts=("y",), freeze=ALWAYS), "a-second")
        )
    )
    again = read_plan(encode(plan))
    question = Question(NOON)
    assert judge(again, again.policies, question) == judge(plan, plan.policies, question)
    assert [d.code for d in judge(again, again.policies, question)] == [
        "policy.hosts", "policy.freeze", "policy.products",
    ]  # fmt: skip


def replace_name(made: Policy, name: str) -> Policy:
    return made.model_copy(update={"name": name})


def test_a_fleet_that_was_not_asked_for_brings_no_policy() -> None:
    both = wanted("1.0.0", policy(fleets=("other",), products=("x",)))
    other = fleet("1.0.0", group(name="b", port=19000), name="other")
    both = replace(both, fleets={**both.fleets, "other": other})
    assert World().plan(both, fleets=("hello",)).policies == ()
    assert len(World().plan(both).policies) == 1


def answer(status: int = 0, stdout: bytes = b'{"findings":[]}', stderr: bytes = b"") -> list[Diagnostic]:
    (planned,) = World().plan(wanted("1.0.0", policy(program={"command": ("judge",)}))).policies
    return list(answered(planned, status, stdout, stderr))


def test_the_answer_of_a_program_becomes_findings() -> None:
    assert answer() == []
    said = b'{"findings":[{"summary":"No","detail":"because","hint":"ask"},{"summary":"Hm","severity":"warning"}]}'
    first, second = answer(stdout=said)
    assert (first.is_error, first.code, first.summary, first.hint) == (True, "policy.program", "No", "ask")
    assert first.detail.startswith("because\n")
    assert first.span == Span("a:b/policy.yaml", 7, 3)
    assert (second.is_error, second.summary) == (False, "Hm")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"status": 3, "stderr": b"out of \xff cheese"}, "ended with status 3"),
        ({"status": -9}, "ended with status -9"),
        ({"stdout": b""}, "no answer that can be read"),
        ({"stdout": b"fine"}, "no answer that can be read"),
        ({"stdout": b"[]"}, "no answer that can be read"),
        ({"stdout": b"{}"}, "findings: Field required"),
        ({"stdout": b'{"findings":[{"text":1}]}'}, "findings.0.summary"),
        ({"stdout": b'{"findings":[{"summary":""}]}'}, "findings.0.summary"),
        ({"stdout": b'{"findings":[],"ok":true}'}, "ok: Extra inputs"),
        ({"stdout": b'{"findings":[]}' + b" " * ANSWER_MAX_B}, "more than 1048576 bytes"),
        ({"stdout": b"[" * 100_000}, "no answer that can be read"),
    ],
)
def test_what_is_no_answer_refuses(given: dict[str, Any], why: str) -> None:
    (found,) = answer(**given)
    assert found.is_error
    assert found.summary == "A policy's program gave no judgement"
    assert why in found.detail
    assert ("cheese" in found.detail) == ("stderr" in given)


def test_a_host_of_another_name_is_where_the_policy_looks() -> None:
    made = replace(
        wanted("1.0.0", policy(hosts=("m1",))),
        fleets={"hello": fleet("1.0.0", group(hosts=("m1",), count=1))},
        hosts={"localhost": host("localhost"), "m1": host("m1")},
    )
    assert codes(World("m1").plan(made)) == []
