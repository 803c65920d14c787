"""What every driver keeps, whatever its substrate. A driver's tests subclass this and give the fixture `place`.

class TestThisDriver(Conformance):
    @pytest.fixture
    def place(self) -> Iterator[Place]: ...
"""

from __future__ import annotations

import threading

import pytest

from executors.command import deaf
from executors.driver import DriverError, ProbeTarget
from executors.outcome import Outcome
from planner.observed import HealthState, NodeState
from planner.plan import Precondition, StepKind
from planner.spec import FileSpec, ReleaseIdentity, config_digest, fields
from tests.executors.places import KEYED, SECRETS, Node, Place, seen, wait_for

UID = "aaaaaaaaaaaaaaaa"
REFUSED = ("rejected", "failed")
CREATE, START, STOP = StepKind.CREATE, StepKind.START, StepKind.STOP
RELOAD, DESTROY, ADOPT = StepKind.RELOAD, StepKind.DESTROY, StepKind.ADOPT


def word(outcome: Outcome) -> str:
    """An outcome's code without its substrate."""
    return outcome.code.rpartition(".")[2]


class Conformance:
    """Facts about every driver; `place` is where it acts, `node` a node of it that is not there yet."""

    repeats = 200
    # Whether the next generation is placed over the last one; otherwise that is destroyed before.
    replaces_in_place = True
    # Whether a lookup can tell that a reload has happened.
    reload_leaves_a_trace = True
    # What a node that was stopped is seen as: not every place keeps why it ended.
    stopped = (NodeState.STOPPED,)

    @pytest.fixture
    def node(self, place: Place) -> Node:
        return Node(place, UID)

    # --- life ---------------------------------------------------------------------------------------------

    def test_create_places_and_starts_nothing(self, node: Node, place: Place) -> None:
        assert node.do(CREATE).state == "succeeded"
        found = node.seen()
        assert found.state is NodeState.STOPPED
        assert (found.generation, found.version, found.epoch, found.lineage) == (1, "1.0.0", 1, "lineage-1")
        assert (found.fleet, found.name, found.phase) == ("f", f"n-{UID}", "done")
        assert place.starts(UID) == 0

    def test_every_managed_field_is_read_back_as_it_was_placed(self, node: Node) -> None:
        node.run()
        assert node.seen().fields == fields(node.spec, KEYED)

    def test_a_started_node_runs_serves_and_says_which_start_it_is(self, node: Node, place: Place) -> None:
        node.run()
        found = node.seen()
        assert found.state is NodeState.RUNNING
        assert found.instance
        assert found.started_at
        assert found.port == node.spec.port
        assert place.starts(UID) == 1

    def test_a_probe_of_another_start_does_not_pass(self, node: Node) -> None:
        """A stranger on the port, or a later start, must not be taken for the node that was meant."""
        node.run()
        answer = node.driver.probe(ProbeTarget(UID, node.spec, "1.1.other"))
        assert answer.state is HealthState.FAILING

    def test_stop_ends_it_and_says_so(self, node: Node) -> None:
        node.run()
        outcome = node.do(STOP)
        assert outcome.state == "succeeded", outcome
        assert word(outcome) in ("drained", "stopped")
        assert node.seen().state in self.stopped

    def test_stopping_what_does_not_run_succeeds(self, node: Node) -> None:
        node.do(CREATE)
        assert node.do(STOP).state == "succeeded"
        assert node.do(STOP).state == "succeeded"

    def test_a_killed_node_is_seen_as_exited(self, node: Node, place: Place) -> None:
        node.run()
        place.kill(UID)
        node.ended()
        found = node.seen()
        assert (found.state, found.exit_code) == (NodeState.EXITED, 137)

    def test_a_node_that_ended_starts_again_as_the_same_generation(self, node: Node, place: Place) -> None:
        node.run()
        before = node.seen().instance
        place.kill(UID)
        node.ended()
        assert node.do(START).state == "succeeded"
        node.serves()
        assert node.seen().instance != before
        assert node.seen().generation == 1
        assert place.starts(UID) == 2

    def test_an_exit_at_once_is_told_with_its_status_and_last_words(self, node: Node, place: Place) -> None:
        """Whether start itself says so or a moment later the observation does: never a success that stays one."""
        spec = place.spec(UID, env={"EXIT": "3"})
        assert node.do(CREATE, spec).state == "succeeded"
        outcome = node.do(START, spec)
        node.ended()
        assert node.seen().state is NodeState.EXITED
        if outcome.state == "failed":
            assert outcome.code == "process.exited"
        wait_for(lambda: node.driver.logs(UID, 5) != "", "the log is there")
        answer = node.driver.probe(ProbeTarget(UID, spec, node.seen().instance))
        assert answer.state is HealthState.FAILING
        assert "exit" in answer.detail

    # --- output and commands --------------------------------------------------------------------------------

    def test_the_log_is_followed_as_it_grows(self, node: Node, place: Place) -> None:
        """What was there comes first, then what comes; whoever has heard enough ends it by raising."""
        node.run()
        wait_for(lambda: node.driver.logs(UID, 5) != "", "the log is there")
        heard = bytearray()
        spoken = threading.Event()

        class Enough(Exception):
            pass

        def hear(data: bytes, error: bool) -> None:
            heard.extend(data)
            if b"word" in heard:
                raise Enough
            if not spoken.is_set():
                spoken.set()
                place.speak(UID, "a word")

        with pytest.raises(Enough):
            node.driver.follow(UID, 5, hear)
        before, _, _ = bytes(heard).partition(b"word")
        assert before.strip(), "what was there before came first"

    def test_a_command_gives_its_output_errors_and_exit_status(self, node: Node, place: Place) -> None:
        node.run()
        argv = place.command(7, "said aloud", "said aside")
        heard: list[tuple[bytes, bool]] = []
        status = node.driver.execute(UID, argv, lambda data, error: heard.append((data, error)), 30.0)
        out = b"".join(data for data, error in heard if not error)
        err = b"".join(data for data, error in heard if error)
        assert (status, out.strip(), err.strip()) == (7, b"said aloud", b"said aside")

    def test_nothing_is_run_or_followed_where_there_is_no_node(self, node: Node, place: Place) -> None:
        argv = place.command(0, "x", "y")
        with pytest.raises(DriverError):
            node.driver.execute(UID, argv, deaf, 30.0)
        with pytest.raises(DriverError):
            node.driver.follow(UID, 5, deaf)

    def test_replacement_runs_the_next_generation(self, node: Node, place: Place) -> None:
        node.run()
        node.do(STOP)
        if not self.replaces_in_place:
            assert node.do(DESTROY).state == "succeeded"
        spec = place.spec(UID, version="1.1.0")
        assert node.do(CREATE, spec, generation=2).state == "succeeded"
        assert node.do(START, spec, generation=2).state == "succeeded"
        node.serves()
        assert (node.seen().generation, node.seen().version) == (2, "1.1.0")

    def test_reload_places_files_and_keeps_the_process(self, node: Node, place: Place) -> None:
        node.run()
        instance = node.seen().instance
        spec = place.spec(UID, files=(FileSpec(path="conf/app.txt", content="two\n"),))
        assert node.do(RELOAD, spec, generation=2).state == "succeeded"
        assert node.seen().instance == instance
        assert node.seen().generation == 2
        assert node.seen().fields == fields(spec, KEYED)

    def test_reloading_what_does_not_run_is_refused(self, node: Node) -> None:
        node.do(CREATE)
        assert node.do(RELOAD, generation=2).state in REFUSED

    def test_destroy_leaves_no_node_and_keeps_declared_data(self, node: Node, place: Place) -> None:
        node.run()
        node.do(STOP)
        assert node.do(DESTROY).state == "succeeded"
        assert seen(node.driver, UID) is None
        assert place.data_kept(UID)

    def test_destroy_removes_data_that_is_not_retained(self, node: Node, place: Place) -> None:
        node.run()
        node.do(STOP)
        assert node.do(DESTROY, retain_data=False).state == "succeeded"
        assert not place.data_kept(UID)

    def test_destroying_twice_is_harmless(self, node: Node) -> None:
        node.do(CREATE)
        node.do(DESTROY)
        assert node.do(DESTROY).state == "succeeded"

    # --- drift --------------------------------------------------------------------------------------------

    def test_a_hand_edit_shows_in_its_field_and_nowhere_else(self, node: Node, place: Place) -> None:
        node.run()
        name = place.edit(UID)
        wanted, found = fields(node.spec, KEYED), node.seen().fields
        assert {k for k in wanted | found if wanted.get(k) != found.get(k)} == {name}

    # --- refusals -----------------------------------------------------------------------------------------

    def test_destroying_a_running_node_is_refused(self, node: Node) -> None:
        node.run()
        assert node.do(DESTROY).state in REFUSED
        assert node.seen().state is NodeState.RUNNING

    def test_creating_over_a_running_node_is_refused(self, node: Node) -> None:
        node.run()
        assert node.do(CREATE, generation=2).state in REFUSED
        assert node.seen().generation == 1

    def test_starting_a_running_node_starts_nothing(self, node: Node, place: Place) -> None:
        """Whether it is refused or found to be so already: there is one start."""
        node.run()
        assert node.do(START).final
        assert place.starts(UID) == 1

    def test_acting_on_an_unknown_node_is_refused(self, node: Node) -> None:
        for effect in (START, RELOAD, ADOPT):
            assert node.do(effect).state in REFUSED

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, RELOAD, DESTROY, ADOPT])
    def test_an_older_epoch_is_refused(self, node: Node, effect: StepKind) -> None:
        node.do(CREATE, epoch=5)
        outcome = node.do(effect, generation=2, epoch=4)
        assert (outcome.state, word(outcome)) == ("rejected", "stale_epoch")

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, RELOAD, DESTROY])
    def test_an_older_generation_is_refused(self, node: Node, effect: StepKind) -> None:
        node.do(CREATE, generation=3)
        outcome = node.do(effect, generation=2)
        assert (outcome.state, word(outcome)) == ("rejected", "stale_generation")

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, RELOAD, DESTROY])
    def test_another_lineage_is_refused_until_adopted(self, node: Node, effect: StepKind) -> None:
        node.do(CREATE)
        outcome = node.do(effect, generation=2, lineage="lineage-2", epoch=9)
        assert (outcome.state, word(outcome)) == ("rejected", "other_lineage")

    def test_adoption_fences_the_former_owner(self, node: Node) -> None:
        """Its epoch may start low in the new lineage; the old one is refused whatever its epoch."""
        node.do(CREATE, epoch=7)
        adopted = node.do(ADOPT, lineage="lineage-2", epoch=1)
        assert adopted.state == "succeeded", adopted
        assert word(node.do(START, epoch=8)) == "other_lineage"
        assert node.do(START, lineage="lineage-2", epoch=1).state == "succeeded"
        assert node.do(STOP, lineage="lineage-2", epoch=1).state == "succeeded"

    # --- at most once -------------------------------------------------------------------------------------

    def test_a_repeat_gives_the_recorded_answer(self, node: Node, place: Place) -> None:
        """200 repeats of one start, each by a driver of its own: the node itself counts one start."""
        node.do(CREATE)
        start = node.operation(START)
        answers = {place.driver().perform(start, SECRETS).state for _ in range(self.repeats)}
        node.serves()
        assert place.starts(UID) == 1
        assert answers == {"succeeded"}

    def test_two_threads_with_one_operation_have_one_effect(self, node: Node, place: Place) -> None:
        node.do(CREATE)
        start = node.operation(START)
        answers: list[Outcome] = []
        threads = [
            threading.Thread(target=lambda: answers.append(place.driver().perform(start, SECRETS)))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        node.serves()
        assert [a.state for a in answers] == ["succeeded"] * 2, answers
        assert place.starts(UID) == 1

    # --- lookup -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, DESTROY, ADOPT, RELOAD])
    def test_lookup_finds_an_effect_whose_answer_was_lost(self, node: Node, effect: StepKind) -> None:
        if effect is not CREATE:
            node.do(CREATE)
        if effect in (STOP, RELOAD):
            node.do(START)
            node.serves()
        lost = node.operation(effect)
        answer = node.driver.perform(lost, SECRETS)
        assert answer.state == "succeeded"
        found = node.driver.lookup(lost)
        if effect is RELOAD and not self.reload_leaves_a_trace:
            assert found.state == "unknown"
        else:
            assert (found.state, found.code) == (answer.state, answer.code)

    def test_lookup_changes_nothing_about_the_node(self, node: Node) -> None:
        node.run()
        before = node.seen()
        node.driver.lookup(node.operation(STOP))
        assert node.seen() == before


class RecordConformance(Conformance):
    """Facts that need a record beside the node, which remembers operations and refuses late ones."""

    def test_starting_a_generation_that_is_not_placed_is_refused(self, node: Node) -> None:
        node.do(CREATE)
        assert node.do(START, generation=2).code == "host.other_generation"

    def test_preconditions_are_judged_on_the_host(self, node: Node) -> None:
        missing = node.do(CREATE, precondition=Precondition(generation=1))
        assert missing.code == "host.precondition"
        assert node.do(CREATE, precondition=Precondition()).state == "succeeded"
        assert node.do(CREATE, generation=2, precondition=Precondition()).code == "host.precondition"
        good = ReleaseIdentity(version="1.0.0", digest=node.spec.artifact.digest)
        other = ReleaseIdentity(version="1.0.1", digest=node.spec.artifact.digest)
        config = config_digest(fields(node.spec, KEYED))
        for wrong in (
            Precondition(generation=2),
            Precondition(generation=1, release=other),
            Precondition(generation=1, release=good, config_digest="sha256:0"),
        ):
            assert node.do(START, precondition=wrong).code == "host.precondition"
        right = Precondition(generation=1, release=good, config_digest=config)
        assert node.do(START, precondition=right).state == "succeeded"
        node.do(STOP)

    def test_a_destroyed_uid_is_never_used_again(self, node: Node) -> None:
        node.do(CREATE)
        node.do(DESTROY)
        assert node.do(CREATE, generation=2).code == "host.destroyed"

    def test_a_late_repeat_of_an_earlier_operation_acts_no_more(self, node: Node, place: Place) -> None:
        """The start arrives again after the stop that followed it: the node stays stopped."""
        node.do(CREATE)
        start = node.operation(START)
        node.driver.perform(start, SECRETS)
        node.serves()
        node.do(STOP)
        assert node.driver.perform(start, SECRETS).state == "succeeded"
        assert node.seen().state is NodeState.STOPPED
        assert place.starts(UID) == 1

    def test_an_operation_id_with_another_request_is_refused(self, node: Node, place: Place) -> None:
        node.do(CREATE, operation_id="same")
        other = place.spec(UID, version="1.1.0")
        assert node.do(CREATE, other, operation_id="same").code == "host.other_request"

    def test_adopting_back_needs_an_epoch_above_the_one_that_was_left(self, node: Node) -> None:
        node.do(CREATE, epoch=7)
        node.do(ADOPT, lineage="lineage-2", epoch=1)
        assert node.do(ADOPT, lineage="lineage-1", epoch=7).code == "host.stale_epoch"
        assert node.do(ADOPT, lineage="lineage-1", epoch=8).state == "succeeded"

    def test_every_effect_says_in_one_word_why_it_was_refused(self, node: Node) -> None:
        assert node.do(STOP).code == "host.absent"
        node.do(CREATE)
        assert node.do(RELOAD).code == "host.not_running"
        node.do(START)
        node.serves()
        for effect in (CREATE, START, DESTROY):
            assert node.do(effect, generation=1 + (effect is CREATE)).code == "host.running"
        assert node.do(STOP).code == "host.drained"
        assert node.do(DESTROY).code == ""
        assert node.do(DESTROY).code == "host.already_absent"

    def test_an_older_attempt_is_refused(self, node: Node) -> None:
        node.do(CREATE)
        start = node.operation(START, operation_id="s", attempt=2)
        assert node.driver.perform(start, SECRETS).state == "succeeded"
        assert node.do(START, operation_id="s", attempt=1).code == "host.stale_attempt"
        node.do(STOP)

    @pytest.mark.parametrize("effect", [CREATE, START, STOP, DESTROY])
    def test_lookup_bars_what_never_arrived(self, node: Node, place: Place, effect: StepKind) -> None:
        """Not performed is a fact only if a late arrival is refused; the next attempt is not."""
        if effect is not CREATE:
            node.do(CREATE)
        late = node.operation(effect, operation_id="late")
        assert (found := node.driver.lookup(late)).state == "failed"
        assert found.code == "host.not_performed"
        assert node.driver.perform(late, SECRETS).code == "host.barred"
        again = node.operation(effect, operation_id="late", attempt=2)
        assert node.driver.perform(again, SECRETS).state == "succeeded"
        assert place.starts(UID) <= 1

    @pytest.mark.parametrize(
        ("effect", "state", "code"),
        [
            (CREATE, "failed", "host.incomplete"),
            (START, "failed", "host.not_started"),
            (STOP, "failed", "host.still_running"),
            (RELOAD, "unknown", "host.interrupted"),
            (DESTROY, "failed", "host.incomplete"),
        ],
    )
    def test_lookup_decides_by_facts_what_was_begun_and_cut_off(
        self, node: Node, place: Place, effect: StepKind, state: str, code: str
    ) -> None:
        if effect is not CREATE:
            node.do(CREATE)
        if effect in (STOP, RELOAD):
            node.do(START)
            node.serves()
        cut = node.operation(effect, operation_id="cut")
        place.cut_off(cut)
        assert node.seen().phase == "begun"
        found = node.driver.lookup(cut)
        assert (found.state, found.code) == (state, code), found
        assert node.driver.perform(cut, SECRETS).code == "host.interrupted"

    def test_the_attempt_after_a_cut_off_one_is_performed(self, node: Node, place: Place) -> None:
        node.do(CREATE)
        place.cut_off(node.operation(START, operation_id="cut"))
        assert node.do(START, operation_id="cut", attempt=2).state == "succeeded"
        node.serves()
        assert place.starts(UID) == 1
