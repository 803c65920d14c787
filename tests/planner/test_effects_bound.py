"""Every key of a plan is decided: bound by an approval, or on the list of those that are not.

Each leaf of a plan's document is changed by itself. Whatever can be changed without changing the effects is in
`UNBOUND`, and nothing else is: a key that a later release adds fails here until somebody decides.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

from pydantic import ValidationError

from planner.effects import effects_digest
from planner.plan import Plan, encode
from tests.planner.fleets import World, compatibility, fleet, group, host, manifests
from tests.planner.test_encoding import POLICY

# Policies are asked anew, whatever those of the approved plan were. `[]` is any place of a list, `*` any name.
UNBOUND = {
    "created_at": "when it was made",
    "format_version": "how it is written",
    "plan_id": "the plan's own name",
    "manifests.*": "what it was made from",
    "targets.[]": "what was asked for; the targets themselves are in the steps",
    "fleets.[].observed_at": "when it was seen",
    "fleets.[].serial": "the state may go on elsewhere",
    "fleets.[].warnings": "said to people",
    "fleets.[].refusals": "a refused plan has no steps",
    "fleets.[].no_return": "follows from the verdicts and the steps",
    "fleets.[].budgets.[].available_now": "as it was seen",
    "fleets.[].budgets.[].minimum": "the proof; made anew by the check",
    "fleets.[].steps.[].available": "the proof",
    "fleets.[].steps.[].id": "the place in the list, which is bound",
    "fleets.[].steps.[].deadline_ms": "follows from the specification",
    "fleets.[].changes.[].reasons": "explains, and decides nothing",
    "fleets.[].changes.[].available": "as it was seen",
    "fleets.[].changes.[].live": "as it was seen",
    "fleets.[].changes.[].counted": "follows from the manifest; the budgets are bound",
    "fleets.[].changes.[].drift": "said to people",
    "fleets.[].verdicts.[].place": "where it is written",
    "fleets.[].verdicts.[].reason": "said to people",
    "fleets.[].specs.*.artifact.source": "its digest is bound",
    "fleets.[].specs.*.files.[].source": "its digest is bound",
    "fleets.[].hosts.*.ssh.connect_timeout": "this machine's own way",
    "fleets.[].hosts.*.ssh.config_file": "this machine's own way",
    "fleets.[].hosts.*.ssh.identity_file": "this machine's own way",
    "fleets.[].hosts.*.ssh.known_hosts": "this machine's own way",
    "fleets.[].hosts.*.ssh.pubkey_algorithms": "this machine's own way",
    "fleets.[].hosts.*.ssh.sessions_max": "this machine's own way",
}
NAMED = {"manifests", "specs", "hosts", "places", "env", "labels", "on_change"}
OTHERS: tuple[Any, ...] = (
    "x", 1, True, "rolling", "full", "never", "none", "hard", "manual", "automatic", "docker", "arm64", "reload", "replace",
    "INT", "stop", "start", "destroy", "create", "restart", "evidence", "refuse", "1s", "1MiB", "0600", "env:X",
    200, "systemd", "7s", {"digest": "x", "version": "x"}, [{"code": "x", "detail": "x", "summary": "x"}],
    [{"command": ["x"]}], {"path": "/x"}, ["x"], [200], ["NET_ADMIN"], {"command": ["x"]}, {"port": 1}, {"size": 1}, {"x": "reload"}, "aarch64", "any", {}, [], "sha256:" + "0" * 64, "http://x.example", None,
)  # fmt: skip


TRIED_MAX = 3


def plan() -> Plan:
    """An upgrade, a new node, and one that goes, with all that a specification on a host can hold."""
    table = compatibility(
        {"from": "1.0.0", "to": "1.1.0", "mode": "rolling", "reverse": "rolling", "reason": "fine"}
    )
    body = {
        "process": {
            "command": ("serve", "{{ node.port }}"),
            "env": {"A": "1", "T": {"secret": "env:TOKEN"}},
            "files": (
                {"path": "b", "source": "/m/b", "mode": "0600"},
                {"path": "a", "content": "x", "on_change": "reload"},
            ),
            "limits": {"memory": "512MiB"},
        },
        "labels": {"z": "1"},
        "health": {"http": {"path": "/h"}, "interval": "1s"},
        "data": {"path": "data", "retain": True},
    }
    place = host("localhost", labels={"b": "1"}, ssh={"address": "h.example", "user": "u", "port": 22})

    def wanted(version: str, count: int) -> Any:
        rollout = {"max_unavailable": 1, "canary": {"count": 1}}
        made = fleet(
            version, group(count=count, **body), group("keep", 1, port=19000, **body), rollout=rollout
        )
        return manifests(
            made, compat=[table], hosts=[place], policies={"p": POLICY}, digests={"/m/b": "sha256:" + "b" * 64, "f": "sha256:" + "a" * 64}
        )  # fmt: skip

    world = World().reach(wanted("1.0.0", 3))
    found = world.plan(wanted("1.1.0", 2), targets=())
    return found.model_copy(update={"targets": ("fleet/hello",)})


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and value:
        for i, inner in enumerate(value):
            yield from leaves(inner, (*path, i))
    else:
        yield path


def pattern(path: tuple[str | int, ...]) -> str:
    steps = []
    for before, step in zip(("", *path), path, strict=False):
        steps.append("[]" if isinstance(step, int) else "*" if before in NAMED else step)
    return ".".join(steps)


def changed(document: Any, path: tuple[str | int, ...], value: Any) -> Plan | None:
    copied = copy.deepcopy(document)
    inside = copied
    for step in path[:-1]:
        inside = inside[step]
    if type(inside[path[-1]]) is type(value) and inside[path[-1]] == value:
        return None
    inside[path[-1]] = value
    try:
        return Plan.model_validate_json(json.dumps(copied))
    except ValidationError:
        return None


def unbound() -> set[str]:
    """The patterns of leaves of which some change goes unnoticed."""
    document = json.loads(encode(plan()))
    base = Plan.model_validate_json(json.dumps(document))
    digest = effects_digest(base)
    found: set[str] = set()
    tried: set[str] = set()
    untried: set[str] = set()
    for path in leaves(document):
        name = pattern(path)
        if name in tried or name.startswith("policies."):
            continue
        there: Any = document
        for step in path:
            there = there[step]
        candidates = [there + 1] if type(there) is int else [not there] if type(there) is bool else []
        candidates += [f"{there}x"] if isinstance(there, str) else []
        made = (changed(document, path, c) for c in (*candidates, *OTHERS))
        others = list(islice((p for p in made if p is not None and p != base), TRIED_MAX))
        if not others:
            untried.add(name)
            continue
        tried.add(name)
        if any(effects_digest(p) == digest for p in others):
            found.add(name)
    # What can be one thing only is neither.
    fixed = {name for name in untried - tried if not name.endswith((".api_version", ".kind"))}
    assert sorted(fixed) == [], "\n".join(sorted(fixed))
    return found


def test_what_can_be_changed_unnoticed_is_what_the_list_says() -> None:
    found = unbound()

    def covered(name: str, by: str) -> bool:
        return name == by or name.startswith(f"{by}.")

    strange = sorted(n for n in found if not any(covered(n, by) for by in UNBOUND))
    assert strange == [], "\n".join(strange)
    unused = [by for by in UNBOUND if not any(covered(name, by) for name in found)]
    assert unused == [], "these are bound, or not there any more"
