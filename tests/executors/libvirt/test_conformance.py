"""The conformance suite over libvirt's own test hypervisor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
pytest.importorskip("pycdlib", reason="pip install 'fleetctl[libvirt]'")

from executors.command import deaf
from executors.driver import DriverError, ProbeTarget
from planner.observed import HealthState, NodeState
from planner.plan import StepKind
from tests.executors.conformance import ADOPT, CREATE, DESTROY, RELOAD, START, STOP, UID, Conformance
from tests.executors.libvirt.place import LibvirtPlace
from tests.executors.places import SECRETS, Node, Place


class TestLibvirt(Conformance):
    replaces_in_place = False
    # Each has a driver, and with it a connection, of its own.
    repeats = 20

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
        import libvirtmod  # type: ignore[import-not-found,unused-ignore]  # the binding's own half in C

        place = LibvirtPlace(tmp_path)
        create = libvirtmod.virDomainCreateWithFlags

        def counted(*args: Any) -> Any:
            answer = create(*args)
            place.created[answer == 0] += 1
            return answer

        monkeypatch.setattr(libvirtmod, "virDomainCreateWithFlags", counted)
        yield place
        place.close()

    def test_a_started_node_runs_serves_and_says_which_start_it_is(self, node: Node, place: Place) -> None:
        """libvirt does not keep when a domain was started."""
        node.run()
        found = node.seen()
        assert found.state is NodeState.RUNNING
        assert found.instance
        assert place.starts(UID) == 1

    def test_a_killed_node_is_seen_as_exited(self, node: Node, place: Place) -> None:
        """A domain has no exit code."""
        node.run()
        place.kill(UID)
        node.ended()
        assert (node.seen().state, node.seen().detail) == (NodeState.EXITED, "shut off (destroyed)")

    def test_an_exit_at_once_is_told_with_its_status_and_last_words(self, node: Node, place: Place) -> None:
        """A guest that is off again is no success that stays one: what counts is that no probe of it passes."""
        node.run()
        place.kill(UID)
        answer = node.driver.probe(ProbeTarget(UID, node.spec))
        assert (answer.state, answer.detail) == (HealthState.FAILING, "the domain is shut off (destroyed)")

    def test_reload_places_files_and_keeps_the_process(self, node: Node, place: Place) -> None:
        """A guest reads its seed when it boots: a reload is refused, and nothing happens to it."""
        node.run()
        before = node.seen()
        assert node.do(RELOAD, generation=2).code == "libvirt.needs_restart"
        assert node.seen() == before

    @pytest.mark.skip(reason="the test hypervisor has no console; test_real.py follows a real one")
    def test_the_log_is_followed_as_it_grows(self, node: Node, place: Place) -> None: ...

    def test_a_command_gives_its_output_errors_and_exit_status(self, node: Node, place: Place) -> None:
        """There is no guest, so no agent answers, and that is said; test_real.py runs commands in a real one."""
        node.run()
        with pytest.raises(DriverError) as refused:
            node.driver.execute(UID, place.command(7, "x", "y"), deaf, 5.0)
        assert refused.value.code == "libvirt.no_agent"

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, DESTROY, ADOPT])
    def test_lookup_finds_an_effect_whose_answer_was_lost(self, node: Node, effect: StepKind) -> None:
        if effect is not CREATE:
            node.do(CREATE)
        if effect is STOP:
            node.do(START)
        lost = node.operation(effect)
        answer = node.driver.perform(lost, SECRETS)
        found = node.driver.lookup(lost)
        assert (answer.state, found.state) == ("succeeded", "succeeded")
        # How it ended is the driver's own doing; that it did is what libvirt keeps.
        assert found.code == ("libvirt.stopped" if effect is STOP else answer.code)
