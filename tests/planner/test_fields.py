"""Every managed field is compared: what was changed by hand is seen, and what was applied is not seen again."""

from __future__ import annotations

from typing import Any

import pytest

from planner.change import Action
from tests.planner.fleets import Real, World, fleet, group, manifests

BODY = group(
    count=1,
    process={
        "command": ("serve", "{{ artifact.path }}"),
        "env": {"MODE": "a", "TOKEN": {"secret": "env:TOKEN"}},
        "files": ({"path": "conf", "content": "x"}, {"path": "key", "secret": "file:/key"}),
        "user": "web",
        "limits": {"memory": "1GiB", "open_files": 10, "processes": 5},
    },
    data={"path": "data"},
)
KEYED = {"env:TOKEN": "aa", "file:/key": "bb"}
WANTED = manifests(fleet("1.0.0", BODY, rollout={"max_unavailable": 1}))
FIELDS = [
    "artifact.digest", "command", "data.path", "env.MODE", "env.TOKEN", "files.conf", "files.key", "limits.memory",
    "limits.open_files", "limits.processes", "port", "release.version", "user",
]  # fmt: skip


def placed(secrets: dict[str, str] | None = None) -> tuple[World, Real]:
    world = World(secrets=KEYED if secrets is None else secrets).reach(WANTED)
    return world, next(iter(world.nodes.values()))


def first(world: World, wanted: Any = WANTED) -> Any:
    plan = world.plan(wanted)
    assert not plan.refused
    return plan.fleets[0].changes[0]


def test_the_list_is_complete() -> None:
    assert sorted(placed()[1].values) == FIELDS


@pytest.mark.parametrize("field", [f for f in FIELDS if f not in ("artifact.digest", "release.version")])
@pytest.mark.parametrize("value", ["other", None], ids=["changed", "gone"])
def test_a_change_by_hand_is_seen_and_put_right(field: str, value: str | None) -> None:
    world, node = placed()
    node.values = {k: v for k, v in {**node.values, field: value}.items() if v is not None}
    change = first(world)
    assert [r.field for r in change.reasons] == [field]
    assert change.drift
    world.reach(WANTED)
    assert first(world).action is Action.NOOP


def test_a_secret_that_changed_is_seen_and_never_shown() -> None:
    world, _ = placed()
    world.secrets = {**KEYED, "env:TOKEN": "cc"}
    change = first(world)
    assert change.action is Action.RESTART
    assert [(r.field, r.before, r.after) for r in change.reasons] == [("env.TOKEN", "(secret)", "(secret)")]


def test_a_secret_that_was_not_resolved_is_taken_for_equal_and_said() -> None:
    world, _ = placed()
    world.secrets = {}
    plan = world.plan(WANTED).fleets[0]
    assert plan.steps == ()
    assert any("not checked: env.TOKEN, files.key" in w for w in plan.warnings)


def test_another_reference_is_a_change_though_neither_was_resolved() -> None:
    world, _ = placed(secrets={})
    process = {**BODY["process"], "env": {"MODE": "a", "TOKEN": {"secret": "env:OTHER"}}}
    change = first(world, manifests(fleet("1.0.0", {**BODY, "process": process})))
    assert [r.field for r in change.reasons] == ["env.TOKEN"]


def test_another_reference_is_a_change_when_only_the_old_one_was_resolved() -> None:
    world, _ = placed()
    world.secrets = {}
    process = {**BODY["process"], "env": {"MODE": "a", "TOKEN": {"secret": "env:OTHER"}}}
    plan = world.plan(manifests(fleet("1.0.0", {**BODY, "process": process}))).fleets[0]
    assert [r.field for r in plan.changes[0].reasons] == ["env.TOKEN"]


def test_fields_that_were_not_read_back_are_said_and_are_no_change() -> None:
    world, node = placed()
    node.values = {}
    plan = world.plan(WANTED).fleets[0]
    assert plan.steps == ()
    assert any("not checked: every field but the release" in w for w in plan.warnings)


def test_a_plan_made_before_the_key_exists_pins_no_configuration_that_cannot_be_met() -> None:
    plan = World(secrets={}).plan(WANTED).fleets[0]
    start = next(s for s in plan.steps if s.kind == "start")
    assert start.precondition is not None
    assert start.precondition.config_digest is None
