"""audit: the journal is proven whole, and told as flat records with their sources."""

from __future__ import annotations

from random import Random

import pytest

from fleetctl.ledger import audit
from fleetctl.ledger.ports import StateError
from tests.engine import plans
from tests.simulator.harness import Sim

THREE = ("web-0", "web-1", "web-2")


def test_a_whole_journal_is_proven() -> None:
    sim = Sim(Random(1))
    sim.found(THREE, "1.0.0")
    verified = audit.verify(sim.store, plans.FLEET)
    assert (verified.runs, verified.operations, verified.unsettled) == (1, 6, 0)
    assert verified.head == sim.store.head(plans.FLEET)


def test_damage_is_named_by_its_place() -> None:
    sim = Sim(Random(1))
    sim.found(THREE, "1.0.0")
    rows = sim.store._journals[plans.FLEET]
    data, digest = rows[4]
    rows[4] = (data.replace(b"dispatched", b"succeeded_"), digest)
    with pytest.raises(StateError, match="entry 5 of fleet edge is damaged"):
        audit.verify(sim.store, plans.FLEET)


def test_every_entry_becomes_one_record_that_says_who_when_what_and_from_which_plan() -> None:
    sim = Sim(Random(1))
    sim.found(THREE, "1.0.0")
    entries = list(sim.store.read(plans.FLEET))
    lines = list(audit.export(entries))
    assert [line["sequence"] for line in lines] == [e["sequence"] for e in entries]
    assert {line["who"] for line in lines} == {"sim"}
    assert len({line["plan_id"] for line in lines}) == 1
    starts = [line for line in lines if line["what"] == "start"]
    assert [line["outcome"] for line in starts if line["node"] == "web-0"] == [
        "intended",
        "dispatched",
        "succeeded",
    ]
    assert {(line["outcome"], line["source"]) for line in starts} == {
        ("intended", "engine"),
        ("dispatched", "engine"),
        ("succeeded", "node"),
    }
