"""The driver on libvirt's own test hypervisor: everything but bytes, guests and time.

`test:///default` lives in this process, so nothing has to be installed but the binding. It stores no bytes:
the pool here is one whose uploads are believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
pytest.importorskip("pycdlib", reason="pip install 'fleetctl[libvirt]'")

from executors import registry
from executors.command import deaf
from executors.driver import Driver, DriverError, ProbeTarget
from executors.libvirt import definition, kept, names
from executors.libvirt.connection import Connection
from executors.libvirt.driver import LibvirtDriver
from executors.libvirt.kept import Kept
from executors.outcome import Outcome
from manifests.schema.fleet import Drain
from manifests.schema.host import Host, Libvirt
from planner.observed import HealthState, Loss, NodeState, ObservedNode
from planner.plan import StepKind
from planner.spec import ArtifactPin, NodeSpec, fields
from tests.executors.libvirt.dry import believed
from tests.executors.libvirt.nodes import UID, domain, operation, spec

CREATE, START, STOP, RELOAD, DESTROY, ADOPT = (
    StepKind.CREATE,
    StepKind.START,
    StepKind.STOP,
    StepKind.RELOAD,
    StepKind.DESTROY,
    StepKind.ADOPT,
)
HOST = Host(api_version="fleetctl/v1", kind="Host", name="vm", libvirt=Libvirt(uri="test:///default"))


def pinned(**change: Any) -> NodeSpec:
    """A specification for any architecture; the test hypervisor is an i686."""
    of = spec(drain=Drain(timeout="100ms"), **change)
    return of.model_copy(update={"artifact": of.artifact.model_copy(update={"arch": "any"})})


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[LibvirtDriver]:
    made = believed(cast("LibvirtDriver", registry.driver(HOST, "qemu")), tmp_path, pinned().pins)
    yield made
    connection = made._connection.get()
    for found in connection.listAllDomains(0):
        if found.name().startswith("fleetctl-"):
            if found.isActive():
                found.destroy()
            found.undefineFlags(kept.flags(kept.asked(found, Kept()), made._libvirt, retain=True))
    made._pool.remove(connection, [v.name() for v in made._pool.ready(connection).listAllVolumes()])
    made.close()


def do(driver: Driver, effect: StepKind, of: NodeSpec | None = None, **change: Any) -> Outcome:
    return driver.perform(operation(effect, of or pinned(), **change), {})


def run(driver: Driver) -> None:
    for effect in (CREATE, START):
        outcome = do(driver, effect)
        assert outcome.state == "succeeded", outcome


def seen(driver: Driver, uid: str = UID) -> ObservedNode | None:
    host = driver.observe(frozenset())
    assert host.reachable, host.error
    return next((n for n in host.nodes if n.uid == uid), None)


def here(driver: Driver) -> ObservedNode:
    found = seen(driver)
    assert found is not None
    return found


def raw(driver: LibvirtDriver) -> Any:
    """The domain itself, for changes by hand."""
    return driver._connection.get().lookupByUUIDString(names.domain_uuid(UID))


def test_a_created_node_is_seen_as_it_was_declared_and_not_running(driver: LibvirtDriver) -> None:
    assert do(driver, CREATE).code == "libvirt.created"
    found = here(driver)
    assert (found.state, found.generation, found.version) == (NodeState.STOPPED, 1, "1.0.0")
    assert found.fields == fields(pinned(), {})
    assert found.instance is None


def test_it_runs_stops_and_goes(driver: LibvirtDriver) -> None:
    run(driver)
    assert here(driver).state is NodeState.RUNNING
    assert here(driver).fields == fields(pinned(), {})
    assert do(driver, STOP).state == "succeeded"
    assert here(driver).state is NodeState.STOPPED
    assert do(driver, DESTROY).code == "libvirt.gone"
    assert seen(driver) is None


def test_what_ends_by_itself_is_exited_and_starts_again(driver: LibvirtDriver) -> None:
    run(driver)
    first = here(driver).instance
    raw(driver).destroy()
    assert here(driver).state is NodeState.EXITED
    assert do(driver, START, operation_id="again").state == "succeeded"
    assert here(driver).instance != first


def test_paused_is_told_from_ended(driver: LibvirtDriver) -> None:
    run(driver)
    raw(driver).suspend()
    assert here(driver).state is NodeState.PAUSED
    assert do(driver, STOP).code == "libvirt.killed", "a guest that stands still hears no power button"


RUN_STATES = {
    "crashed": (6, NodeState.EXITED, "crashed"),
    "paused": (3, NodeState.PAUSED, "paused"),
    "suspended by itself": (7, NodeState.PAUSED, "suspended by the guest"),
}


@pytest.fixture(params=RUN_STATES)
def standing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[LibvirtDriver, str]]:
    """A hypervisor whose one domain, ours, begins in a state that no call leads to."""
    number = RUN_STATES[request.param][0]
    of = pinned()
    xml = definition.define(operation(CREATE, of), definition.Place("/pool", "i686", "test"))
    state = "<test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>"
    (tmp_path / "node.xml").write_text(
        f"<node>{xml.replace('</domain>', f'{state}{number}</test:runstate></domain>')}</node>"
    )
    made = cast("LibvirtDriver", registry.driver(HOST, "qemu"))
    made._connection = Connection("host/vm", lambda: f"test://{tmp_path}/node.xml", made._clock, 1.0)
    yield believed(made, tmp_path, pinned().pins), request.param
    made.close()


def test_crashed_paused_and_suspended_are_told_apart_and_none_is_a_dead_end(
    standing: tuple[LibvirtDriver, str],
) -> None:
    """A guest that crashed where its QEMU is preserved is started anew; one that sleeps or stands is stopped."""
    driver, name = standing
    _, state, words = RUN_STATES[name]
    found = here(driver)
    assert (found.state, found.detail.partition(" (")[0]) == (state, words)
    assert (found.instance is None) == (name == "crashed")
    if name == "crashed":
        assert do(driver, START).code == "libvirt.started"
        assert here(driver).state is NodeState.RUNNING
    assert do(driver, STOP).state == "succeeded"
    assert here(driver).state is NodeState.STOPPED
    assert do(driver, DESTROY).code == "libvirt.gone"


def test_memory_changed_by_hand_shows_in_its_field(driver: LibvirtDriver) -> None:
    run(driver)
    raw(driver).setMemory(128 * 1024)
    found = here(driver).fields
    assert found.pop("domain.memory") == "256MiB, 128MiB of it in use"
    wanted = fields(pinned(), {})
    del wanted["domain.memory"]
    assert found == wanted


def test_one_operation_has_one_effect(driver: LibvirtDriver) -> None:
    do(driver, CREATE)
    assert do(driver, CREATE).code == "libvirt.created"
    do(driver, START)
    number = raw(driver).ID()
    assert do(driver, START).code == "libvirt.started"
    assert raw(driver).ID() == number, "it was not started a second time"
    assert do(driver, CREATE, operation_id="other").code == "libvirt.exists"
    assert do(driver, START, operation_id="other").code == "libvirt.running"


@pytest.mark.parametrize("effect", [CREATE, START, STOP, DESTROY, ADOPT])
def test_lookup_finds_an_effect_whose_answer_was_lost(driver: LibvirtDriver, effect: StepKind) -> None:
    if effect is not CREATE:
        do(driver, CREATE)
    if effect is STOP:
        do(driver, START)
    lost = operation(effect, pinned())
    assert driver.perform(lost, {}).state == "succeeded"
    assert driver.lookup(lost).state == "succeeded"


@pytest.mark.parametrize("effect", [CREATE, START, DESTROY])
def test_lookup_of_what_never_arrived_says_so(driver: LibvirtDriver, effect: StepKind) -> None:
    if effect is not CREATE:
        do(driver, CREATE)
    assert driver.lookup(operation(effect, pinned(), operation_id="never")).state == "failed"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"epoch": 4, "generation": 3}, "libvirt.stale_epoch"),
    ({"epoch": 5, "generation": 2}, "libvirt.stale_generation"),
    ({"epoch": 9, "generation": 3, "lineage": "other"}, "libvirt.other_lineage"),
]


@pytest.mark.parametrize("effect", [CREATE, START, STOP, DESTROY])
@pytest.mark.parametrize(("late", "code"), REFUSED)
def test_what_is_stale_is_refused_before_anything_happens(
    driver: LibvirtDriver, effect: StepKind, late: dict[str, Any], code: str
) -> None:
    do(driver, CREATE, epoch=5, generation=3)
    before = here(driver)
    outcome = do(driver, effect, operation_id="late", **late)
    assert (outcome.state, outcome.code) == ("rejected", code)
    assert here(driver) == before


def test_adoption_takes_it_over_as_it_runs(driver: LibvirtDriver) -> None:
    run(driver)
    before = here(driver)
    assert do(driver, ADOPT, lineage="lineage-2", epoch=7).code == "libvirt.adopted"
    after = here(driver)
    assert (after.lineage, after.epoch, after.instance) == ("lineage-2", 7, before.instance)
    assert after.fields == before.fields
    assert do(driver, STOP).code == "libvirt.other_lineage"


def test_a_running_domain_is_not_removed_and_none_is_reloaded(driver: LibvirtDriver) -> None:
    run(driver)
    assert do(driver, DESTROY).code == "libvirt.still_running"
    assert do(driver, RELOAD).code == "libvirt.needs_restart"


def test_acting_on_what_is_not_there_is_an_answer(driver: LibvirtDriver) -> None:
    assert do(driver, START).code == "libvirt.gone"
    assert do(driver, STOP).code == "libvirt.gone"
    assert do(driver, DESTROY).code == "libvirt.gone"
    assert driver.probe(ProbeTarget(UID, pinned())).state is HealthState.FAILING


def test_a_guest_without_an_agent_takes_no_command_and_says_what_is_missing(driver: LibvirtDriver) -> None:
    with pytest.raises(DriverError) as gone:
        driver.execute(UID, ("true",), deaf, 5.0)
    assert gone.value.code == "libvirt.absent"
    do(driver, CREATE)
    with pytest.raises(DriverError) as off:
        driver.execute(UID, ("true",), deaf, 5.0)
    assert off.value.code == "libvirt.not_running"
    do(driver, START)
    with pytest.raises(DriverError) as deaf_guest:
        driver.execute(UID, ("true",), deaf, 5.0)
    assert deaf_guest.value.code == "libvirt.no_agent"
    assert "qemu-guest-agent" in (deaf_guest.value.hint or "")


def test_a_strangers_domain_is_left_alone(driver: LibvirtDriver) -> None:
    """L1: the name is there under another UUID. It is named, and nothing of it is touched."""
    connection = driver._connection.get()
    xml = f"<domain type='test'><name>{names.domain(UID)}</name><memory>8192</memory><os><type>hvm</type></os></domain>"
    other = connection.defineXML(xml)
    outcome = do(driver, CREATE)
    assert (outcome.state, outcome.code) == ("failed", "libvirt.name_taken")
    assert other.UUIDString() in outcome.detail
    assert connection.lookupByName(names.domain(UID)).UUIDString() == other.UUIDString()


def test_data_survives_a_replacement_and_goes_with_its_node_when_that_is_declared(
    driver: LibvirtDriver,
) -> None:
    store = names.data(UID, "store")
    do(driver, CREATE)
    do(driver, DESTROY, retain_data=True)
    connection = driver._connection.get()
    assert driver._pool.volume(connection, store) is not None
    assert driver._pool.volume(connection, names.seed(UID)) is None
    do(driver, CREATE, generation=2)
    do(driver, DESTROY, generation=2, retain_data=False)
    assert driver._pool.volume(connection, store) is None


def test_a_volume_that_would_shrink_is_refused(driver: LibvirtDriver) -> None:
    do(driver, CREATE)
    do(driver, DESTROY)
    smaller = pinned(domain=domain(volumes=(domain().volumes[0].model_copy(update={"size": 2**20}),)))
    assert do(driver, CREATE, smaller, generation=2).code == "libvirt.volume_shrinks"


def test_without_its_image_nothing_is_made(driver: LibvirtDriver) -> None:
    of = pinned()
    other = of.model_copy(
        update={"artifact": ArtifactPin(digest="sha256:" + "0" * 64, name="i", source="/i")}
    )
    assert do(driver, CREATE, other).code == "libvirt.image_missing"
    assert seen(driver) is None


def test_a_snapshot_goes_with_the_domain(driver: LibvirtDriver) -> None:
    """L2: libvirt refuses to forget a domain that has any, unless it is told to."""
    do(driver, CREATE)
    raw(driver).snapshotCreateXML("<domainsnapshot><name>one</name></domainsnapshot>", 0)
    outcome = do(driver, DESTROY)
    assert (outcome.code, outcome.detail) == ("libvirt.gone", "with it went: 1 snapshot (one)")


def test_what_goes_with_a_domain_is_seen_before(driver: LibvirtDriver) -> None:
    """L2: it is in the plan, and not only in the outcome."""
    do(driver, CREATE)
    assert here(driver).losses == ()
    for name in ("one", "two"):
        raw(driver).snapshotCreateXML(f"<domainsnapshot><name>{name}</name></domainsnapshot>", 0)
    assert here(driver).losses == (Loss(by="removal", what="2 snapshots (one, two)"),)
    raw(driver).create()
    raw(driver).managedSave(0)
    assert here(driver).losses[0] == Loss(by="start", what="its saved state")


def test_two_hundred_domains_are_observed_in_one_pass(driver: LibvirtDriver) -> None:
    connection = driver._connection.get()
    for n in range(200):
        each = operation(CREATE, pinned(), uid=f"guest{n:011d}", node=f"guest-{n}")
        connection.defineXML(definition.define(each, definition.Place("/pool", "i686", "test")))
    assert len(driver.observe(frozenset({"guests"})).nodes) == 200
    assert driver.observe(frozenset({"others"})).nodes == ()


def test_a_definition_that_was_cut_off_is_finished_when_it_starts(driver: LibvirtDriver) -> None:
    """Whether a domain starts with its host is a call of its own, behind its definition."""
    assert do(driver, CREATE).state == "succeeded"
    wanted = here(driver).fields["domain.autostart"]
    raw(driver).setAutostart(0)
    assert do(driver, START).state == "succeeded"
    assert here(driver).fields["domain.autostart"] == wanted == "true"
