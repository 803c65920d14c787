"""Guests in a plan: rendered per node, staged with all they boot from, compared field by field."""

from __future__ import annotations

from typing import Any

from manifests.digest import sha256
from planner.plan import FleetPlan, StepKind
from planner.spec import fields
from tests.planner.fleets import World, compatibility, fleet, group, manifests

KERNEL = {"source": "/images/vmlinuz", "digest": sha256(b"kernel")}
NEWER = {"source": "/images/vmlinuz", "digest": sha256(b"newer")}


def guests(**domain: Any) -> Any:
    values: dict[str, Any] = {
        "accelerator": "qemu",
        "boot": {
            "artifact": "initrd",
            "kernel": KERNEL,
            "kernel_args": "a={{ node.address }}\n  n={{ node.name }}",
        },
        "address": {"by": "static", "value": "192.0.2.{{ node.index + 10 }}"},
    }
    process = {"command": ("serve",)}
    return group(
        substrate="qemu",
        port=None,
        process=process,
        health={"tcp": {"port": 80}},
        domain={**values, **domain},
    )


def plan_of(world: World, *groups: Any) -> FleetPlan:
    table = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    (made,) = world.plan(manifests(fleet("1.0.0", *groups), compat=[table])).fleets
    return made


def test_each_guest_has_its_own_address_and_command_line() -> None:
    made = plan_of(World(), guests())
    found = made.specs
    assert [spec.address for spec in found.values()] == ["192.0.2.10", "192.0.2.11", "192.0.2.12"]
    domain = found["web-1"].domain
    assert domain is not None
    assert domain.boot.kernel_args == "a=192.0.2.11 n=web-1"
    assert domain.address.value == "192.0.2.11"


def test_all_that_a_guest_boots_from_is_staged_before_it_is_touched() -> None:
    made = plan_of(World(), guests())
    stages = [s for s in made.steps if s.kind is StepKind.STAGE]
    assert len(stages) == 1
    assert [pin.name for pin in made.specs[stages[0].spec or ""].pins][1:] == ["kernel"]
    assert not made.refusals


def test_another_kernel_replaces_guests_and_is_staged() -> None:
    world = World()
    table = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    world.apply(world.plan(manifests(fleet("1.0.0", guests()), compat=[table])))
    boot = {"artifact": "initrd", "kernel": NEWER, "kernel_args": "a={{ node.address }} n={{ node.name }}"}
    made = plan_of(world, guests(boot=boot))
    change = made.changes[0]
    assert change.action == "replace"
    assert [r.field for r in change.reasons] == ["domain.boot.kernel"]
    assert [s.kind for s in made.steps if s.node == change.node] == [
        "stop",
        "destroy",
        "create",
        "start",
        "verify",
    ]
    assert any(s.kind is StepKind.STAGE for s in made.steps)


def test_how_fleetctl_treats_a_guest_is_no_part_of_it() -> None:
    """How it is stopped, found, and what becomes of its disk at the next replacement: no guest is replaced for it."""
    world = World()
    table = compatibility(("1.0.0", "1.1.0", "rolling", "rolling"))
    world.apply(world.plan(manifests(fleet("1.0.0", guests()), compat=[table])))
    same = guests(shutdown="agent")
    assert all(c.action == "no-op" for c in plan_of(world, same).changes)


def test_fields_say_each_network_and_volume_by_itself() -> None:
    made = plan_of(
        World(),
        guests(
            networks=({"network": "a"}, {"bridge": "b", "model": "e1000"}),
            volumes=({"name": "v", "size": "1MiB"},),
        ),
    )
    found = fields(made.specs["web-0"], {})
    assert found["domain.networks.0"] == "network a, virtio"
    assert found["domain.networks.1"] == "bridge b, e1000"
    assert found["domain.volumes.v"] == str(2**20)
