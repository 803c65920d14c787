"""Log, projection, kv, restore, compaction and fork against a model that is obviously right."""

from __future__ import annotations

import copy
import itertools
import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from fleetctl.cellz import ops
from fleetctl.cellz.apply import Applied, transact
from fleetctl.cellz.cells import _turn_back
from fleetctl.cellz.database import CellDb
from fleetctl.cellz.errors import CellzError
from fleetctl.cellz.export import export_json, import_document, verify
from fleetctl.cellz.words import NewEvent

AT = "2026-01-01T00:00:00.000000+00:00"
TYPES = ["user_message", "agent_message", "system_message", "note", "tool_call"]


@dataclass
class Model:
    """A cell as plain Python: one whole copy of everything at every place."""

    log: list[tuple[int, str, str]] = field(default_factory=list)
    kv: dict[str, Any] = field(default_factory=dict)
    compacted: int = 0
    branch: int = 0
    changes: int = 0
    checkpoints: dict[str, tuple[int, dict[str, Any], int]] = field(default_factory=dict)
    kv_at: dict[int, dict[str, Any]] = field(default_factory=lambda: {0: {}})
    abandoned: dict[int, list[tuple[int, str, str]]] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    @property
    def sequence(self) -> int:
        return self.log[-1][0] if self.log else self.compacted

    def append(self, event_id: str, event_type: str) -> None:
        self.log.append((self.sequence + 1, event_id, event_type))
        if event_type.endswith("_message"):
            self.messages.append(event_id)
        self.note_kv()

    def note_kv(self) -> None:
        self.kv_at[self.sequence] = copy.deepcopy(self.kv)

    def cut(self, target: int, kv: dict[str, Any], changes: int | None = None) -> None:
        gone = {event_id for sequence, event_id, _ in self.log if sequence > target}
        self.log = [each for each in self.log if each[0] <= target]
        self.messages = [each for each in self.messages if each not in gone]
        self.kv = copy.deepcopy(kv)
        self.checkpoints = {
            key: each
            for key, each in self.checkpoints.items()
            if each[0] <= target and (changes is None or each[2] <= changes)
        }
        self.kv_at = {key: each for key, each in self.kv_at.items() if key <= target}
        self.kv_at[target] = copy.deepcopy(kv)


class CellMachine(RuleBasedStateMachine):
    """Random ops on the database and on the model; after each, they must agree."""

    checkpoints: Bundle[str] = Bundle("checkpoints")

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "c.db"
        self.db = CellDb("c", self.path)
        self.model = Model()
        self.numbers = itertools.count()
        # Everything that was done, to be done again elsewhere: what the shared log is for.
        self.done: list[ops.Op] = []
        self.apply(ops.Create("c", "{}", AT))

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
            self.folder.cleanup()

    def apply(self, op: ops.Op) -> Applied | CellzError:
        result = transact(self.db, [op])[0]
        if isinstance(result, Applied):
            self.done.append(op)
        return result

    def fresh(self) -> str:
        return f"id-{next(self.numbers)}"

    @rule(types=st.lists(st.sampled_from(TYPES), min_size=1, max_size=6))
    def append(self, types: list[str]) -> None:
        events = tuple(NewEvent(self.fresh(), None, kind, f'{{"content":"{kind}"}}', AT) for kind in types)
        result = self.apply(ops.Append(events))
        assert isinstance(result, Applied)
        for event in events:
            self.model.append(event.id, event.event_type)
        assert [record.sequence for record in result.records] == [
            each[0] for each in self.model.log[-len(events) :]
        ]

    @rule(key=st.sampled_from("abc"), value=st.integers(0, 9))
    def put(self, key: str, value: int) -> None:
        self.apply(ops.PutKv(key, str(value), AT))
        self.model.kv[key] = value
        self.model.changes += 1
        self.model.note_kv()

    @rule(key=st.sampled_from("abc"))
    def delete(self, key: str) -> None:
        result = self.apply(ops.DeleteKv(key, AT))
        assert isinstance(result, Applied) == (key in self.model.kv)
        self.model.changes += key in self.model.kv
        self.model.kv.pop(key, None)
        self.model.note_kv()

    @rule(target=checkpoints)
    def checkpoint(self) -> str:
        name = self.fresh()
        self.apply(ops.MakeCheckpoint(name, "l", AT))
        self.model.checkpoints[name] = (self.model.sequence, copy.deepcopy(self.model.kv), self.model.changes)
        return name

    @rule(name=checkpoints)
    def restore(self, name: str) -> None:
        model = self.model
        known = model.checkpoints.get(name)
        event_id = self.fresh()
        result = self.apply(ops.Rewind(name, None, event_id, AT))
        if known is None or known[0] < model.compacted:
            assert isinstance(result, CellzError)
            return
        assert isinstance(result, Applied)
        assert result.cut == known[0]
        model.abandoned[model.branch] = list(model.log)
        model.cut(*known)
        model.branch += 1
        model.append(event_id, "rewound")

    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        model = self.model
        through = model.compacted + int((model.sequence - model.compacted) * share)
        event_id = self.fresh()
        assert isinstance(self.apply(ops.Compact(through, event_id, AT)), Applied)
        model.log = [each for each in model.log if each[0] > through]
        model.compacted = through
        model.checkpoints = {key: each for key, each in model.checkpoints.items() if each[0] >= through}
        model.abandoned = {
            branch: [each for each in log if each[0] > through] for branch, log in model.abandoned.items()
        }
        model.append(event_id, "compaction")

    @rule(share=st.floats(0, 1))
    def fork(self, share: float) -> None:
        """A fork at any place is the model cut there, and leaves its source alone."""
        model = copy.deepcopy(self.model)
        place = model.compacted + int((model.sequence - model.compacted) * share)
        staged = Path(self.folder.name) / "fork.db"
        copied = CellDb("c", staged)
        self.db.conn.backup(copied.conn)
        copied.close()
        _turn_back(staged, "c", "f", None, None, place, AT)
        model.cut(place, model.kv_at[place])
        with closing(CellDb("f", staged)) as fork:
            assert [(record.sequence, orjson.loads(record.json)["id"]) for record in fork.events(0, -1)] == [
                each[:2] for each in model.log
            ]
            assert {key: orjson.loads(value) for key, value in fork.kv().items()} == model.kv
            assert [message.id for message in fork.messages()] == model.messages
            assert verify(fork) == []
        staged.unlink()

    @rule()
    def reopen(self) -> None:
        self.db.close()
        self.db = CellDb("c", self.path)

    @rule()
    def export_and_import(self) -> None:
        """An export, imported, exports the same."""
        first = export_json(self.db)
        target = Path(self.folder.name) / "again.db"
        with closing(import_document("c", target, orjson.loads(first))) as again:
            assert verify(again) == []
            same, other = orjson.loads(export_json(again)), orjson.loads(first)
            same["meta"].pop("status"), other["meta"].pop("status")
            assert same == other
        target.unlink()

    @rule()
    def replay(self) -> None:
        """The ops, written down and read back, give the same cell again: what takeover rests on."""
        target = Path(self.folder.name) / "replayed.db"
        with closing(CellDb("c", target)) as again:
            transact(again, [ops.load(each) for each in orjson.loads(ops.encode(self.done))])
            assert export_json(again) == export_json(self.db)
            assert (again.branch, again.compacted) == (self.db.branch, self.db.compacted)
        target.unlink()

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "db"):
            return
        db, model = self.db, self.model
        assert [(record.sequence, orjson.loads(record.json)["id"]) for record in db.events(0, -1)] == [
            each[:2] for each in model.log
        ]
        assert {key: orjson.loads(value) for key, value in db.kv().items()} == model.kv
        assert [message.id for message in db.messages()] == model.messages
        assert {row[0]: row[1] for row in db.checkpoints()} == {
            key: each[0] for key, each in model.checkpoints.items()
        }
        assert (db.sequence, db.branch, db.compacted) == (model.sequence, model.branch, model.compacted)
        for branch, log in model.abandoned.items():
            found = [record.sequence for record in db.branch_events(branch, 0, -1)]
            assert found == [each[0] for each in log]
        assert verify(db) == []


TestCell = CellMachine.TestCase
TestCell.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


@pytest.mark.soak
def test_the_model_and_the_cell_agree_for_long() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        CellMachine, settings=settings(max_examples=2000, stateful_step_count=60, deadline=None)
    )


def test_a_refused_op_leaves_those_grouped_with_it(tmp_path: Path) -> None:
    with closing(CellDb("c", tmp_path / "c.db")) as db:
        event = NewEvent("a", None, "note", "1", AT)
        results = transact(
            db,
            [
                ops.Create("c", "{}", AT),
                ops.DeleteKv("none", AT),
                ops.Append((event,)),
                ops.Compact(99, "x", AT),
            ],
        )
        assert [isinstance(each, CellzError) for each in results] == [False, True, False, True]
        assert db.sequence == 1


def test_a_ship_that_fails_rolls_the_whole_group_back(tmp_path: Path) -> None:
    def ship(_: list[ops.Op]) -> int:
        raise OSError("no")

    with closing(CellDb("c", tmp_path / "c.db")) as db:
        transact(db, [ops.Create("c", "{}", AT)])
        with pytest.raises(OSError, match="no"):
            transact(db, [ops.Append((NewEvent("a", None, "note", "1", AT),)), ops.PutKv("k", "1", AT)], ship)
        assert (db.sequence, db.events(), db.kv(), db.conn.in_transaction) == (0, [], {}, False)


def test_verify_finds_gaps_and_a_projection_that_lies(tmp_path: Path) -> None:
    with closing(CellDb("c", tmp_path / "c.db")) as db:
        events = tuple(NewEvent(f"e{n}", None, "user_message", '{"content":"x"}', AT) for n in range(5))
        transact(db, [ops.Create("c", "{}", AT), ops.Append(events)])
        assert verify(db) == []
        db.conn.execute("DELETE FROM events WHERE sequence = 3")
        db.conn.execute("UPDATE messages SET content = 'y' WHERE id = 'e4'")
        found = " ".join(verify(db))
        assert "1 gaps" in found
        assert "event 5 is not what the messages say" in found
