"""Entries of the journal: their envelope, their kinds, and the chain that binds each to the one before.

    {v, fleet, lineage, sequence, prev_sha256, at, run, epoch, kind, ...}

`prev_sha256` is the SHA-256 (hex) of the previous entry's RFC 8785 bytes, empty for the first.
A reader must accept keys and kinds that it does not know (a later release may add them), must keep them
in the chain, and must refuse an entry whose `v` is newer than its own: that says that old readers would
misunderstand it. `v` grows only when the meaning of a key changes or a key goes away.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleetctl.ledger.operations import Record
from fleetctl.ledger.ports import Head, StateError
from manifests.digest import canonical_json
from planner.spec import NodeSpec

VERSION = 1
Entry = Mapping[str, Any]
Body = dict[str, Any]
"""An entry before it is sealed: its kind and what is particular to it."""

ENVELOPE = ("v", "fleet", "lineage", "sequence", "prev_sha256", "at", "run", "epoch", "kind")


class Kind(StrEnum):
    """What an entry tells. Unknown kinds are carried along."""

    RUN_STARTED = "run_started"
    OPERATION = "operation"
    NODE_PLACED = "node_placed"
    NODE_HEALTHY = "node_healthy"
    NODE_GONE = "node_gone"
    NODE_RENAMED = "node_renamed"
    RUN_FINISHED = "run_finished"
    CONTROL = "control"


@dataclass(frozen=True, slots=True)
class Context:
    """What all entries of one run have in common."""

    fleet: str
    lineage: str
    run: str
    epoch: int


def encode(entry: Entry) -> bytes:
    """The bytes of an entry, the ones that are hashed and stored."""
    return canonical_json(dict(entry))


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def seal(bodies: Sequence[Body], context: Context, head: Head, at: str) -> list[Body]:
    """Gives bodies their envelope and their place after `head`. `at` is RFC 3339, UTC."""
    sealed: list[Body] = []
    previous, sequence = head.sha256, head.sequence
    for body in bodies:
        sequence += 1
        entry = {
            "v": VERSION,
            "fleet": context.fleet,
            "lineage": context.lineage,
            "sequence": sequence,
            "prev_sha256": previous,
            "at": at,
            "run": context.run,
            "epoch": context.epoch,
            **body,
        }
        sealed.append(entry)
        previous = sha256_hex(encode(entry))
    return sealed


def decode(data: bytes | str, place: str) -> Body:
    """Reads one entry; raises StateError naming the place."""
    try:
        entry = json.loads(data)
    except ValueError as e:
        raise StateError(
            f"{place} is damaged: it is not JSON",
            hint="restore the state from a backup",
            code="state.damaged",
        ) from e
    if not isinstance(entry, dict):
        raise StateError(f"{place} is damaged: it is not an object", code="state.damaged")
    return entry


def verified(rows: Iterable[tuple[bytes, str]], fleet: str, after: Head) -> Iterator[Body]:
    """Decodes stored entries (bytes, stored hash) that follow `after`, proving the chain as it goes.

    Raises StateError with the exact place of the first damage, and for entries of a newer version.
    """
    sequence, previous, lineage = after.sequence, after.sha256, after.lineage
    for data, stored in rows:
        sequence += 1
        place = f"entry {sequence} of fleet {fleet}"
        if not isinstance(data, bytes):
            raise _damaged(place, "it is stored as something else than bytes")
        actual = sha256_hex(data)
        if actual != stored:
            raise _damaged(place, "its bytes do not have the hash that was recorded for them")
        entry = decode(data, place)
        check_version(entry, place)
        if entry.get("sequence") != sequence:
            raise _damaged(place, f"it says that it is entry {entry.get('sequence')}")
        if entry.get("fleet") != fleet:
            raise _damaged(place, f"it belongs to fleet {entry.get('fleet')}")
        if entry.get("prev_sha256") != previous:
            raise _damaged(place, f"it does not follow entry {sequence - 1}")
        if lineage is not None and entry.get("lineage") != lineage:
            raise _damaged(place, "it is of another lineage")
        previous, lineage = actual, entry.get("lineage")
        yield entry


def check_version(entry: Entry, place: str) -> None:
    """Raises StateError for an entry that a newer release wrote."""
    v = entry.get("v")
    if type(v) is int and v > VERSION:
        raise StateError(
            f"{place} was written by a newer fleetctl (entry version {v}, this one knows {VERSION})",
            hint="use the newer fleetctl for this state",
            code="state.newer",
        )
    if type(v) is not int or v < 1:
        raise _damaged(place, "it has no version")


def _damaged(place: str, why: str) -> StateError:
    return StateError(
        f"{place} is damaged: {why}",
        hint="nothing was changed; restore the state from a backup made before the damage",
        code="state.damaged",
    )


def run_started(
    *,
    plan_id: str,
    document: str,
    command: str,
    who: str,
    resumed: bool = False,
    approval: str | None = None,
) -> Body:
    """A run begins, or is taken up again after it was cut off. `document` is the pin of the stored plan, and
    `approval` the id of the approved plan that has the same effects; the key is there only with an approval.
    """
    return {
        "kind": Kind.RUN_STARTED.value,
        "plan_id": plan_id,
        "document": document,
        "command": command,
        "who": who,
        "resumed": resumed,
        **({} if approval is None else {"approval": approval}),
    }


def operation(record: Record) -> Body:
    """An operation enters a state."""
    return {
        "kind": Kind.OPERATION.value,
        "operation_id": record.operation_id,
        "attempt": record.attempt,
        "uid": record.uid,
        "node": record.node,
        "generation": record.generation,
        "effect": record.effect,
        "request_sha256": record.request_sha256,
        "state": record.state.value,
        "by": record.by.value,
        "evidence": dict(record.evidence),
        "step": record.step,
    }


def spec_document(spec: NodeSpec) -> Body:
    """A specification as it stands in the journal: what is at its default is left out."""
    return spec.model_dump(mode="json", exclude_defaults=True)


def node_placed(uid: str, name: str, group: str, generation: int, spec: NodeSpec) -> Body:
    """A generation of a node has its place on its host."""
    return {
        "kind": Kind.NODE_PLACED.value,
        "uid": uid,
        "name": name,
        "group": group,
        "host": spec.host,
        "port": spec.port,
        "generation": generation,
        "spec": spec_document(spec),
    }


def node_healthy(uid: str, generation: int, step: str) -> Body:
    """A node was verified with what was placed as this generation: what a revert restores."""
    return {
        "kind": Kind.NODE_HEALTHY.value,
        "uid": uid,
        "generation": generation,
        "step": step,
    }


def node_gone(uid: str) -> Body:
    """A node was destroyed; its uid is never used again."""
    return {"kind": Kind.NODE_GONE.value, "uid": uid}


def node_renamed(uid: str, name: str, group: str, who: str) -> Body:
    """A node has another name, and perhaps another group; it is the same node."""
    return {"kind": Kind.NODE_RENAMED.value, "uid": uid, "name": name, "group": group, "who": who}


def run_finished(result: str, exit_code: int, summary: str) -> Body:
    """A run ended with every outcome known."""
    return {
        "kind": Kind.RUN_FINISHED.value,
        "result": result,
        "exit_code": exit_code,
        "summary": summary,
    }


def control(verb: str, who: str, **facts: Any) -> Body:
    """A word to the run that is under way (pause, promote, abort, …), or its own turning point (revert)."""
    return {"kind": Kind.CONTROL.value, "verb": verb, "who": who, **facts}
