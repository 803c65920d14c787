"""A policy's program is run without a shell, in time and within bounds; what does not judge refuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import tzinfo
from pathlib import Path
from typing import Any

import pytest

from executors.clock import SystemClock, rfc3339
from executors.command import Command, Completed
from executors.driver import Operation
from executors.outcome import Outcome
from executors.transports.local import LocalTransport
from fleetctl.engine.controls import Verb, say
from fleetctl.engine.judging import Judge
from fleetctl.engine.steer import steer
from fleetctl.ledger import entries
from manifests.diagnostics import Diagnostic
from manifests.errors import ExitCode, PolicyRefused
from manifests.schema.policy import Policy
from manifests.zones import UnknownZone, zone
from planner.plan import Plan, PlannedPolicy, sealed
from tests.engine import plans
from tests.engine.conftest import Room

CLOCK = SystemClock()


def run(command: Command, facts: Mapping[str, str]) -> Completed:
    return LocalTransport(CLOCK, {"PATH": "/usr/bin:/bin", **facts}).run(command)


JUDGE = Judge(CLOCK, run, zone)


def under(room: Room, *rules: dict[str, Any]) -> Plan:
    """A first plan of two nodes, under one policy for each set of rules."""
    made = tuple(
        PlannedPolicy(
            document=Policy.model_validate(
                {"api_version": "fleetctl/v1", "kind": "Policy", "name": f"p{i}", "rules": rule}
            ),
            places={"": f"policy.yaml:{i + 1}:1"},
        )
        for i, rule in enumerate(rules)
    )
    plan = plans.plan(("web-0", "web-1"), "1.0.0", room.recorded)
    return sealed(plan.model_copy(update={"policies": made}))


def program(*argv: str, timeout: str = "30s") -> dict[str, Any]:
    return {"program": {"command": argv, "timeout": timeout}}


def sh(script: str, timeout: str = "30s") -> dict[str, Any]:
    return program("sh", "-c", script, timeout=timeout)


def judged(room: Room, *rules: dict[str, Any]) -> tuple[Diagnostic, ...]:
    return JUDGE(under(room, *rules))


def test_it_is_given_the_plan_and_what_is_asked(room: Room) -> None:
    said = (
        'read -r plan; case $plan in \\{*\\"plan_id\\":\\"sha256:*\\}) ;; *) exit 9;; esac; '
        'echo "{\\"findings\\":[{\\"summary\\":\\"$FLEETCTL_POLICY $FLEETCTL_COMMAND $FLEETCTL_NOW\\"}]}"'
    )
    (found,) = JUDGE(under(room, sh(said)), "destroy")
    assert found.summary.startswith("p0 destroy 20")
    assert str(found.span) == "policy.yaml:1:1"
    assert judged(room, sh("""cat >&2; echo '{"findings":[]}'""")) == ()


def test_its_arguments_are_read_by_no_shell(room: Room, tmp_path: Path) -> None:
    stolen = tmp_path / "stolen"
    (found,) = judged(room, program("printf", "%s", f"$(touch {stolen}); touch {stolen}"))
    assert "no answer that can be read" in found.detail
    assert not stolen.exists()


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (sh("echo cheese is out >&2; exit 3"), "sh ended with status 3.\nIt said: cheese is out"),
        (sh("kill -9 $$"), "ended with status -9"),
        (sh("sleep 60", "300ms"), "did not end within 0.3 s"),
        (sh("head -c 3000000 /dev/zero"), "more than 1048576 bytes"),
        (sh("head -c 30000000 /dev/zero"), "more than 1048576 bytes"),
        (sh("exec <&-; echo '{}'"), "findings: Field required"),
        (program("no-such-program-anywhere"), "cannot run 'no-such-program-anywhere'"),
        (program("/etc/passwd"), "cannot run '/etc/passwd'"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_does_not_judge_refuses(room: Room, rule: dict[str, Any], why: str) -> None:
    (found,) = judged(room, rule)
    assert found.is_error
    assert found.summary == "A policy's program gave no judgement"
    assert why in found.detail


def test_each_policy_is_asked(room: Room) -> None:
    found = judged(room, sh("exit 1"), {"destroy_max": 0}, sh("exit 2"))
    assert [str(f.span) for f in found] == ["policy.yaml:1:1", "policy.yaml:3:1"]


def test_a_zone_that_this_machine_does_not_know_refuses(room: Room) -> None:
    """The plan may have been made elsewhere, and a freeze must not be passed over."""

    def lost(name: str) -> tzinfo:
        raise UnknownZone(f"no time zone is named {name!r}")

    weekly = {"freeze": {"time_zone": "Europe/Berlin", "weekly": ({"days": ("mon",)},)}}
    (found,) = Judge(CLOCK, run, lost)(under(room, weekly))
    assert (found.code, found.is_error) == ("policy.freeze", True)
    assert "Europe/Berlin" in found.detail


def test_policies_are_asked_before_the_first_effect(room: Room) -> None:
    with pytest.raises(PolicyRefused) as caught:
        room.apply(under(room, sh("exit 1")), judge=JUDGE)
    assert caught.value.exit_code is ExitCode.REFUSED
    assert [d.code for d in caught.value.diagnostics] == ["policy.program"]
    assert room.world.log == []
    assert room.store.head(plans.FLEET).sequence == 0
    # The lease is given back: another run may begin.
    assert room.apply(under(room), judge=JUDGE).exit_code is ExitCode.OK


@pytest.mark.parametrize("verb", [Verb.RESUME, Verb.PROMOTE])
def test_a_word_to_go_on_asks_again_and_a_word_to_end_does_not(
    room: Room, verb: Verb, tmp_path: Path
) -> None:
    """The freeze may have begun since; the run waits on, and nothing is written."""
    frozen = tmp_path / "frozen"
    asked = sh(f"""test ! -e {frozen} && echo '{{"findings":[]}}'""")

    def pause(operation: Operation, outcome: Outcome) -> Outcome:
        if not frozen.exists():
            say(room.store, plans.FLEET, Verb.PAUSE, room.engine.holder, rfc3339(CLOCK.now()))
            frozen.touch()
        return outcome

    room.world.answer = pause
    assert room.apply(under(room, asked), judge=JUDGE).exit_code is ExitCode.WAITING
    before = room.store.head(plans.FLEET)
    engine = replace(room.engine, judge=JUDGE)
    with pytest.raises(PolicyRefused):
        steer(engine, plans.FLEET, verb)
    assert room.store.head(plans.FLEET) == before
    assert steer(engine, plans.FLEET, Verb.ABORT).exit_code is ExitCode.FAILED


def test_a_warning_refuses_nothing(room: Room) -> None:
    warning = """echo '{"findings":[{"summary":"Hm","severity":"warning"}]}'"""
    assert room.apply(under(room, sh(warning)), judge=JUDGE).exit_code is ExitCode.OK


def test_the_journal_says_which_plan_was_approved() -> None:
    facts = {"plan_id": "sha256:a", "document": "sha256:b", "command": "apply", "who": "me"}
    assert entries.run_started(**facts, approval="sha256:c")["approval"] == "sha256:c"
    assert "approval" not in entries.run_started(**facts)
