"""Keyed digests of the secrets that manifests refer to: what tells a changed value from an unchanged one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from manifests.errors import FleetctlError

if TYPE_CHECKING:
    from manifests.manifest import Manifests
    from manifests.schema.fleet import Process, ProcessOverride
    from planner.spec import NodeSpec


def references(manifests: Manifests) -> list[str]:
    """Every reference in the fleets of these manifests, sorted."""
    found: set[str] = set()
    for fleet in manifests.fleets.values():
        for group in fleet.groups:
            found.update(_of_process(group.process))
            for node in group.nodes or ():
                if node.process is not None:
                    found.update(_of_process(node.process))
    return sorted(found)


def _of_process(process: Process | ProcessOverride) -> Iterator[str]:
    from manifests.schema.base import SecretValue
    from manifests.schema.fleet import EnvVar

    for given in process.env.values():
        value = given.value if isinstance(given, EnvVar) else given
        if isinstance(value, SecretValue):
            yield value.secret
    for file in process.files:
        if file.secret is not None:
            yield file.secret


def references_of(specs: Iterable[NodeSpec]) -> list[str]:
    """Every reference in these specifications, sorted."""
    from planner.spec import SecretUse

    found: set[str] = set()
    for spec in specs:
        found.update(v.secret for v in spec.env.values() if isinstance(v, SecretUse))
        found.update(f.secret for f in spec.files if f.secret is not None)
    return sorted(found)


def keyed_digests(refs: Iterable[str], key: bytes | None) -> tuple[dict[str, str], list[str]]:
    """The keyed digest of each value that can be resolved here, and why the others cannot.

    Without a key (nothing was ever applied) nothing is resolved: there is nothing to compare with.
    """
    if key is None:
        return {}, []
    from executors.secrets import resolve

    digests: dict[str, str] = {}
    problems: list[str] = []
    for ref in refs:
        try:
            digests[ref] = resolve(ref).keyed_digest(key)
        except FleetctlError as error:
            problems.append(error.message)
    return digests, problems


def ensure_resolvable(specs: Iterable[NodeSpec]) -> None:
    """Resolves every reference once, so that a missing one stops a run before it begins. Raises FleetctlError."""
    from executors.secrets import resolve

    for ref in references_of(specs):
        resolve(ref)
