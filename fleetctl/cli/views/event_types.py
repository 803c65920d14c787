"""What `--events` writes: every type of event with its fields. docs/reference/events.md and the JSON Schema follow it.

A reader of version 1 passes over types and fields that it does not know; what is here is only ever added to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VERSION = 1

_KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "yes": {"type": "boolean"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "objects": {"type": "array", "items": {"type": "object"}},
    "object": {"type": "object"},
    "whole?": {"type": ["integer", "null"]},
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `kind` is a key of the table above; `remote` text was said by a node or a host."""

    name: str
    kind: str
    words: str
    optional: bool = False
    remote: bool = False


@dataclass(frozen=True, slots=True)
class EventType:
    """One type of event, beside the envelope that all have."""

    name: str
    words: str
    fields: tuple[Field, ...]


ENVELOPE = (
    Field("v", "whole", "the version of this schema: 1"),
    Field("n", "whole", "counts the events of one command from 1, without a gap"),
    Field("at", "text", "when it was written: RFC 3339, UTC"),
    Field("type", "text", "what happened"),
    Field("fleet", "text", "whose event it is; absent for those of the command itself", optional=True),
)

_NODE = Field("node", "text", "the node's name")
_STEP = (
    Field(
        "node",
        "text",
        "the node's name; absent where the step is of a host, or of the rollout",
        optional=True,
    ),
    Field(
        "step",
        "text",
        "stage, drain, stop, create, start, reload, destroy, adopt, verify, or the moment of a hook",
    ),
    Field("host", "text", "where"),
    Field("generation", "whole", "the incarnation of the node", optional=True),
    Field("attempt", "whole", "counts from 1", optional=True),
)
_PROBE = Field("probe", "text", "which probe judges the node", optional=True)
_ANSWER = Field("answer", "text", "the last answer of the probe", optional=True, remote=True)

EVENTS = (
    EventType(
        "command.started",
        "A command begins to carry a plan out.",
        (
            Field("plan_id", "text", "the plan's id"),
            Field(
                "fleets",
                "objects",
                "the fleets in their order: `fleet`, `nodes`, `steps`, `strategy`, `waves` (each a `wave` and the names of its `nodes`) and `budgets` (`scope`, `count`, `floor`, `reserve`)",
            ),
        ),
    ),
    EventType(
        "run.started",
        "The run of one fleet begins, or is taken up again.",
        (
            Field("run", "text", "the run's id"),
            Field("command", "text", "apply, recover, rollback, drain, destroy, promote or resume"),
            Field("resumed", "yes", "whether it was cut off or paused before"),
            Field("done", "texts", "the nodes that were done before"),
        ),
    ),
    EventType(
        "step.started",
        "A step begins. Its intent is in the journal.",
        (
            *_STEP,
            _PROBE,
            Field("deadline_s", "number", "how long a verification may take", optional=True),
        ),
    ),
    EventType("step.finished", "A step is done.", _STEP),
    EventType("step.lost", "The answer to a step was lost; its outcome is looked up.", _STEP),
    EventType(
        "step.failed",
        "A step has failed, and its node is given up.",
        (
            *_STEP[:3],
            Field("reason", "text", "why", remote=True),
            _PROBE,
            _ANSWER,
            Field("waited_s", "number", "how long it was verified", optional=True),
        ),
    ),
    EventType(
        "artifact.progress",
        "How far an artifact has come that is being brought.",
        (Field("host", "text", "where"), Field("text", "text", "in words", remote=True)),
    ),
    EventType(
        "probe.answered",
        "A probe of a node that is waited for says something new.",
        (
            _NODE,
            Field("answer", "text", "what it says", remote=True),
            Field("state", "text", "passing, failing, unknown, or none where no probe is declared"),
            Field("passed", "whole", "how many in a row have passed"),
            Field("wanted", "whole", "how many have to"),
        ),
    ),
    EventType(
        "node.healthy",
        "A node counts as available again.",
        (
            _NODE,
            Field("took_s", "number", "how long it was waited for"),
            Field("answer", "text", "the last answer of the probe", remote=True),
        ),
    ),
    EventType(
        "node.evidence",
        "What a failed node has left, looked at before anything else is done to it.",
        (
            _NODE,
            Field(
                "state",
                "text",
                "running, stopped, exited, restarting, paused, damaged, or empty: it was not to be seen",
            ),
            Field("exit_code", "whole?", "how it ended, where that is known"),
            Field("detail", "text", "what its place says of it", remote=True),
            Field("log", "texts", "the last lines of its own output", remote=True),
        ),
    ),
    EventType(
        "availability",
        "How many nodes serve has changed, or the wave has.",
        (
            Field("available", "whole", "nodes of the fleet that serve now"),
            Field("count", "whole", "nodes that the budget is about"),
            Field("floor", "whole", "a rolling step starts only if so many stay available"),
            Field("reserve", "whole", "any disruption starts only if so many stay available"),
            Field("under_way", "whole", "nodes that were begun and are not done"),
            Field("wave", "whole", "the wave that is under way"),
            Field("reverting", "yes", "whether the rollout goes back"),
            Field("scopes", "object", "the same first four by group, where groups have budgets of their own"),
        ),
    ),
    EventType(
        "run.waiting",
        "Nothing moves until something outside of the run changes.",
        (Field("reason", "text", "what is waited for"),),
    ),
    EventType(
        "run.halting",
        "Nothing new is begun any more, or the rollout turns back.",
        (
            Field("reason", "text", "why", remote=True),
            Field("result", "text", "failed, stale, unknown or aborted", optional=True),
        ),
    ),
    EventType(
        "note",
        "Something that people may want to know.",
        (
            Field("node", "text", "the node's name", optional=True),
            Field("text", "text", "in words", remote=True),
        ),
    ),
    EventType(
        "run.finished",
        "The run of one fleet has ended. A run that waits for a person has the result `paused`.",
        (
            Field("run", "text", "the run's id"),
            Field(
                "result",
                "text",
                "succeeded, failed, reverted, interrupted, aborted, stale, paused, unknown, fenced",
            ),
            Field("exit_code", "whole", "see the exit codes"),
            Field("summary", "text", "in words", remote=True),
        ),
    ),
    EventType(
        "command.finished",
        "A plan was carried out, or was not; the last event of a command. `recover` has one for each plan that it takes up.",
        (
            Field("exit_code", "whole", "what the command exits with"),
            Field("summary", "text", "in words", remote=True),
        ),
    ),
)


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line. Types and fields of later releases pass it."""
    known = [e.name for e in EVENTS]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One event of fleetctl --events",
        "type": "object",
        "properties": {f.name: _property(f) for f in ENVELOPE} | {"v": {"const": VERSION}},
        "required": [f.name for f in ENVELOPE if not f.optional],
        "allOf": [
            {
                "if": {"properties": {"type": {"const": event.name}}},
                "then": {
                    "description": event.words,
                    "properties": {f.name: _property(f) for f in event.fields},
                    "required": [f.name for f in event.fields if not f.optional],
                },
            }
            for event in EVENTS
        ],
        "$comment": f"types of version {VERSION}: {', '.join(known)}",
    }


def _property(field: Field) -> dict[str, Any]:
    words = field.words + (" (text from elsewhere)" if field.remote else "")
    return {**_KINDS[field.kind], "description": words}
