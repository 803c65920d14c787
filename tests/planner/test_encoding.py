"""The plan's bytes are canonical, what is built without validation equals what is validated, and a file is read whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from manifests.digest import canonical_json, digest_of
from manifests.errors import ExitCode, FleetctlError, StaleError
from manifests.schema.policy import Policy
from planner.change import Change, Reason
from planner.plan import (
    Availability,
    Budget,
    FleetPlan,
    Plan,
    PlannedPolicy,
    Precondition,
    Refusal,
    RolloutSettings,
    Step,
    Verdict,
    document,
    encode,
    sealed,
)
from planner.reading import PlanEdited, PlanUnreadable, read_plan
from planner.spec import RELEASE_FIELDS, ArtifactPin, FileSpec, NodeSpec, ReleaseIdentity, config_digest
from tests.planner.fleets import World, compatibility, fleet, group, host, manifests

ORDERED = (
    ArtifactPin, Availability, Budget, Change, FileSpec, FleetPlan, NodeSpec, Plan, PlannedPolicy, Precondition,
    Reason, Refusal, ReleaseIdentity, RolloutSettings, Step, Verdict,
)  # fmt: skip


POLICY = Policy.model_validate(
    {
        "api_version": "fleetctl/v1",
        "kind": "Policy",
        "name": "p",
        "reason": "Grüße",
        "rules": {
            "reserve_min": "10%",
            "freeze": {
                "periods": ({"from": "2030-01-01", "until": "2030-01-02"},),
                "weekly": ({"days": ("sat",)},),
            },
            "program": {"command": ("judge",), "timeout": "10s"},
        },
    }
)


def plans() -> list[Plan]:
    """A first plan, an upgrade with all that a specification can hold, and a refusal."""
    table = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    body = group(
        process={
            "command": ("serve", "{{ node.name }}", "Grüße \u2028 \U0001f600"),
            "env": {"B": "2", "A": {"secret": "env:TOKEN"}, "Z": {"value": "x", "on_change": "reload"}},
            # Past ASCII, the RFC sorts keys by UTF-16 units and Python by code points.
            "files": tuple(
                {"path": p, "content": "x\n\x7f\ty", "on_change": "reload"}
                for p in ("conf/\uff5e", "conf/\U0001f600", "conf/a")
            ),
            "limits": {"memory": "512MiB", "open_files": 100},
        },
        labels={"z": "1", "a": "2"},
        health={"http": {"path": "/{{ node.name }}"}, "interval": "1s"},
        data={"path": "data", "retain": False},
    )
    hosts = [host("localhost", labels={"b": "1", "a": "2"}, ssh={"address": "h.example"})]
    world = World(secrets={"env:TOKEN": "ab" * 32})
    first = manifests(fleet("1.0.0", body), compat=[table], hosts=hosts, policies={"p": POLICY})
    made = world.plan(first)
    world.apply(made)
    return [
        made,
        world.plan(manifests(fleet("1.1.0", body), compat=[table], hosts=hosts)),
        world.plan(manifests(fleet("2.0.0", body), compat=[table], hosts=hosts)),
        world.plan(first, destroy=True),
    ]


@pytest.mark.parametrize("kind", ORDERED, ids=lambda k: k.__name__)
def test_keys_are_declared_in_order(kind: Any) -> None:
    """Pydantic writes a model's keys as they are declared; canonical JSON wants them sorted."""
    names = [f.alias or name for name, f in kind.model_fields.items()]
    assert names == sorted(names)


@pytest.mark.parametrize("plan", plans(), ids=["first", "upgrade", "refused", "destroy"])
def test_bytes_are_canonical_and_named_by_their_digest(plan: Plan) -> None:
    body = document(plan)
    assert encode(plan) == canonical_json(body) + b"\n"
    assert body.pop("plan_id") == digest_of(body)


@pytest.mark.parametrize("plan", plans(), ids=["first", "upgrade", "refused", "destroy"])
def test_what_was_built_is_what_validation_gives(plan: Plan) -> None:
    read = read_plan(encode(plan))
    assert read == plan
    assert encode(read) == encode(plan)
    again = Plan.model_validate({**document_of(plan)}, strict=False)
    assert sealed(again).plan_id == plan.plan_id


def document_of(plan: Plan) -> dict[str, Any]:
    return json.loads(encode(plan))  # type: ignore[no-any-return]


def test_a_copy_is_not_what_was_sealed() -> None:
    plan = plans()[0]
    other = plan.model_copy(update={"created_at": "later"})
    assert b'"created_at":"later"' in encode(other)


def test_config_digest_is_that_of_canonical_json() -> None:
    fields = {"env.B": 'a"\\\n\x01é', "env.A": "x", "files.\U0001f600": "1", "files.\uff5e": "2"}
    assert config_digest(fields) == digest_of({k: v for k, v in fields.items() if k not in RELEASE_FIELDS})
    assert config_digest({"b": 'x"\n', "a": "\x7f/"}) == digest_of({"b": 'x"\n', "a": "\x7f/"})


def test_no_secret_value_is_in_a_plan() -> None:
    assert all(b"ab" * 32 not in encode(plan) for plan in plans())


def edited(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


GOOD = encode(plans()[1])
UNREADABLE = {
    "empty": b"",
    "cut off": GOOD[: len(GOOD) // 2],
    "NULs": b"\0" * 100,
    "not JSON": b"kind: Fleet\n",
    "a list": b"[]",
    "another document": b'{"format_version":"1.2"}',
    "too deep": b"[" * 100_000,
    "an unknown key": edited(GOOD, b'"created_at"', b'"surprise":1,"created_at"'),
    "a newer format": edited(GOOD, b'"format_version":"1.2"', b'"format_version":"2.0"'),
    "an older format": edited(GOOD, b'"format_version":"1.2"', b'"format_version":"1.1"'),
    "another type": edited(GOOD, b'"id":0', b'"id":"0"'),
    "not UTF-8": edited(GOOD, b"localhost", b"local\xffost"),
}
EDITED = {
    "a step's deadline": re.sub(rb'"deadline_ms":\d+', b'"deadline_ms":1', GOOD, count=1),
    "another id": re.sub(rb'"plan_id":"sha256:.', b'"plan_id":"sha256:0', GOOD, count=1)
    if b'"plan_id":"sha256:0' not in GOOD
    else re.sub(rb'"plan_id":"sha256:.', b'"plan_id":"sha256:1', GOOD, count=1),
    "another node": GOOD.replace(b"web-0", b"web-9"),
    "only its spaces": edited(GOOD, b'"created_at":', b'"created_at": '),
    "a key twice": edited(GOOD, b'"created_at":', b'"created_at":"x","created_at":'),
}


def test_a_saved_plan_is_read_back() -> None:
    assert encode(read_plan(GOOD)) == GOOD
    assert encode(read_plan(GOOD.rstrip(b"\n"))) == GOOD


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_plan_is_an_error_with_a_hint(name: str) -> None:
    with pytest.raises(PlanUnreadable) as caught:
        read_plan(UNREADABLE[name], "the-file")
    assert caught.value.exit_code == ExitCode.ERROR
    assert caught.value.hint
    assert "the-file" in caught.value.message


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_plan_is_stale(name: str) -> None:
    with pytest.raises(PlanEdited) as caught:
        read_plan(EDITED[name])
    assert isinstance(caught.value, StaleError)
    assert caught.value.exit_code == ExitCode.STALE
    assert isinstance(caught.value, FleetctlError)


def test_the_json_schema_in_the_docs_is_the_model_s() -> None:
    """Written by `python -m tests.planner.write_schema`."""
    path = Path(__file__).parents[2] / "docs" / "reference" / "plan.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == schema()


def schema() -> dict[str, Any]:
    """The JSON Schema of a saved plan: keys as they are written, and every one of them there."""
    made = Plan.model_json_schema(by_alias=True, mode="serialization")
    made["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    made["title"] = "fleetctl plan"
    return made


def test_a_plan_obeys_the_schema() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    checker = jsonschema.Draft202012Validator(schema())
    for plan in plans():
        checker.validate(document_of(plan))
