"""What two sets of manifests differ in, document by document, and their references to secrets.

A plan says what becomes of nodes; this says what was written differently, also where no node is touched
(a budget, a pair, a host's address).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from manifests.diagnostics import Span
from manifests.manifest import SHIPPED, Key, Manifests, Path
from manifests.schema.base import SecretValue
from manifests.schema.compatibility import Compatibility
from manifests.schema.fleet import EnvVar, Process, ProcessOverride

# Deeper keys say less than the one above them.
DEPTH_MAX = 5


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document that was added, removed, or is written differently; `keys` are where, dotted."""

    kind: str
    name: str
    change: Literal["added", "removed", "changed"]
    keys: tuple[str, ...]
    place: Span | None


@dataclass(frozen=True, slots=True)
class PairRow:
    """A transition that is declared otherwise than before: whoever changes a version may have allowed it himself.

    `before` and `after` say how, both ways (`rolling, back: full`); None where it was or is not declared. `when` is
    the condition of the pair, empty for none.
    """

    product: str
    from_: str
    to: str
    when: str
    before: str | None
    after: str | None
    place: Span | None


@dataclass(frozen=True, slots=True)
class SecretRow:
    """A reference to a secret that was not there before; `used_by` is the fleet or host, `field` the key."""

    reference: str
    used_by: str
    field: str
    place: Span | None


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A program that a rollout would run and that was not there before, or runs elsewhere now: a hook, a drain's
    command. `where` is here (beside fleetctl, with its rights), host, or node (where the node lives).
    """

    fleet: str
    moment: str
    where: Literal["here", "host", "node"]
    command: tuple[str, ...]
    place: Span | None


def documents(base: Manifests, head: Manifests) -> tuple[DocumentRow, ...]:
    """Every document that differs, by kind and name; those that ship with the program are not compared."""
    before, after = dict(_documents(base)), dict(_documents(head))
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        kind, name = key
        if new is None:
            found.append(DocumentRow(kind, name, "removed", (), None))
        elif old is None:
            found.append(DocumentRow(kind, name, "added", (), head.where(key, ())))
        else:
            paths = [tuple(path) for path in _different(old, new, ())]
            keys = tuple(dict.fromkeys(_dotted(new, path) for path in paths))
            found.append(DocumentRow(kind, name, "changed", keys, head.where(key, paths[0] if paths else ())))
    return tuple(found)


def _documents(manifests: Manifests) -> Iterator[tuple[Key, BaseModel]]:
    for fleet in manifests.fleets.values():
        yield ("Fleet", fleet.name), fleet
    for host in manifests.hosts.values():
        # This machine is always there; only what somebody wrote of it is a document.
        if manifests.where(("Host", host.name), ()) is not None:
            yield ("Host", host.name), host
    for release in manifests.releases.values():
        yield ("Release", f"{release.product}@{release.version}"), release
    numbers: dict[str, int] = {}
    for table in manifests.compatibility:
        number = numbers[table.product] = numbers.get(table.product, -1) + 1
        key = ("Compatibility", f"{table.product}#{number}")
        span = manifests.where(key, ("pairs", 0))
        if span is None or not span.file.startswith(SHIPPED):
            yield key, table


def _different(old: Any, new: Any, path: Path) -> Iterator[Path]:
    """The key paths, in the new document, at which two values differ."""
    if old == new:
        return
    if len(path) < DEPTH_MAX:
        if isinstance(old, BaseModel) and type(old) is type(new):
            for name, info in type(new).model_fields.items():
                yield from _different(getattr(old, name), getattr(new, name), (*path, info.alias or name))
            return
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            for name in [*new, *(n for n in old if n not in new)]:
                yield from _different(old.get(name), new.get(name), (*path, name))
            return
        if _named(old) and _named(new):
            known = {item.name: item for item in old}
            for i, item in enumerate(new):
                yield from _different(known.pop(item.name, None), item, (*path, i))
            if known or not new:
                yield path
            return
    yield path


def _named(value: Any) -> bool:
    """Whether it is a list whose items are known by name, not by their place in it."""
    return isinstance(value, tuple) and all(isinstance(getattr(item, "name", None), str) for item in value)


def _dotted(document: Any, path: Path) -> str:
    """A key path as people write it, a named item by its name: `groups.web.count`."""
    words = []
    value = document
    for part in path:
        if isinstance(part, int):
            value = value[part]
            words.append(str(getattr(value, "name", part)))
            continue
        words.append(part)
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return ".".join(words)


def pairs(base: Manifests, head: Manifests) -> tuple[PairRow, ...]:
    """The transitions that are declared otherwise, those that went last; tables that ship are not compared."""
    before, after = _pairs(base), _pairs(head)
    found = []
    for key in [*after, *(key for key in before if key not in after)]:
        was, (said, place) = before.get(key, (None, None))[0], after.get(key, (None, None))
        if was != said:
            found.append(PairRow(*key, was, said, place))
    return tuple(found)


def _pairs(manifests: Manifests) -> dict[tuple[str, str, str, str], tuple[str | None, Span | None]]:
    """What is declared of each transition, and where. The first of several that are the same is the one."""
    found: dict[tuple[str, str, str, str], tuple[str | None, Span | None]] = {}
    for key, table in _documents(manifests):
        if not isinstance(table, Compatibility):
            continue
        for i, pair in enumerate(table.pairs):
            env = {} if pair.when is None else pair.when.env
            when = ", ".join(f"{name}={value}" for name, value in sorted(env.items()))
            evidence = "" if pair.evidence is None else f" ({pair.evidence.log})"
            said = f"{pair.mode}, back: {pair.reverse}{evidence}"
            name = (table.product, pair.from_, pair.to, when)
            found.setdefault(name, (said, manifests.where(key, ("pairs", i))))
    return found


def secrets(base: Manifests, head: Manifests) -> tuple[SecretRow, ...]:
    """The references to secrets that a fleet or host did not have before, each once."""
    known = {(owner, reference) for owner, reference, _, _ in _references(base)}
    found: dict[tuple[str, str], SecretRow] = {}
    for owner, reference, key, path in _references(head):
        if (owner, reference) not in known and (owner, reference) not in found:
            field = ".".join(str(p) for p in path if isinstance(p, str) and p not in ("secret", "value"))
            found[owner, reference] = SecretRow(reference, owner, field, head.where(key, path))
    return tuple(found.values())


def _references(manifests: Manifests) -> Iterator[tuple[str, str, Key, Path]]:
    for fleet in manifests.fleets.values():
        owner, key = f"fleet/{fleet.name}", ("Fleet", fleet.name)
        for i, group in enumerate(fleet.groups):
            for path, reference in _of_process(group.process, ("groups", i, "process")):
                yield owner, reference, key, path
            for j, node in enumerate(group.nodes or ()):
                if node.process is not None:
                    of = ("groups", i, "nodes", j, "process")
                    for path, reference in _of_process(node.process, of):
                        yield owner, reference, key, path
    for host in manifests.hosts.values():
        become = host.ssh.become if host.ssh is not None else None
        if become is not None and become.password is not None:
            path = ("ssh", "become", "password", "secret")
            yield f"host/{host.name}", become.password.secret, ("Host", host.name), path


def _of_process(process: Process | ProcessOverride, of: Path) -> Iterator[tuple[Path, str]]:
    for name, given in process.env.items():
        if isinstance(given, EnvVar):
            if isinstance(given.value, SecretValue):
                yield (*of, "env", name, "value", "secret"), given.value.secret
        elif isinstance(given, SecretValue):
            yield (*of, "env", name, "secret"), given.secret
    for i, file in enumerate(process.files):
        if file.secret is not None:
            yield (*of, "files", i, "secret"), file.secret


def programs(base: Manifests, head: Manifests) -> tuple[ProgramRow, ...]:
    """The programs of rollouts that a fleet did not have before, each once for its moment."""
    known = {(row.fleet, row.moment, row.where, row.command) for row in _programs(base)}
    new = (r for r in _programs(head) if (r.fleet, r.moment, r.where, r.command) not in known)
    return tuple(dict.fromkeys(new))


def _programs(manifests: Manifests) -> Iterator[ProgramRow]:
    for fleet in manifests.fleets.values():
        key, rollout = ("Fleet", fleet.name), fleet.rollout
        for moment in type(rollout.hooks).model_fields:
            for n, hook in enumerate(getattr(rollout.hooks, moment)):
                place = manifests.where(key, ("rollout", "hooks", moment, n))
                yield ProgramRow(fleet.name, moment, hook.where, hook.command, place)
        until = rollout.drain.until
        for path, command in (
            (("command",), rollout.drain.command),
            (("until", "command"), None if until is None else until.command),
        ):
            if command is not None:
                place = manifests.where(key, ("rollout", "drain", *path))
                yield ProgramRow(fleet.name, ".".join(("drain", *path)), "node", command.command, place)
