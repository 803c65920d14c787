"""Two states of one node, field by field: what differs, why it matters, and what it leads to."""

from __future__ import annotations

from collections.abc import Mapping

from manifests.schema.fleet import OnChange
from manifests.version import Direction, direction, is_version
from planner.change import Reason
from planner.frame import artifact_path
from planner.observed import ObservedNode
from planner.ordered import built
from planner.spec import RELEASE_FIELDS, UNKEYED, NodeSpec, ReleaseIdentity, SecretUse

_WEIGHT: dict[OnChange, int] = {"reload": 0, "restart": 1, "replace": 2}
# A running process cannot take these over, whatever its manifest says of changes.
_NEEDS_RESTART = frozenset({"command", "port", "user"})
_KEYED = "keyed:"


def consequence(field: str, spec: NodeSpec) -> OnChange:
    """What a change of this field leads to: its own rule, then its group's, never less than it needs."""
    if field in _NEEDS_RESTART or field == "artifact.digest" or field.startswith("limits."):
        return heavier("restart", spec.default_on_change)
    if field == "data.path" or field.startswith(("container.", "domain.")):
        return "replace"
    return spec.on_change.get(field, spec.default_on_change)


def heavier(one: OnChange, other: OnChange) -> OnChange:
    """The one of the two that does more to the node."""
    return one if _WEIGHT[one] >= _WEIGHT[other] else other


def differing(
    wanted: Mapping[str, str],
    seen: ObservedNode,
    spec: NodeSpec,
    recorded: NodeSpec | None,
    root: str,
) -> tuple[list[Reason], list[str]]:
    """The fields that differ, the release apart, each as a reason; and those that cannot be compared.

    `root` is the host's: a command that differs in nothing but the artifact's path below it differs by the
    release, and is not shown beside it.
    """
    have = seen.fields
    reasons: list[Reason] = []
    unchecked: list[str] = []
    if not have:
        return reasons, ["every field but the release"]
    # The same release, and other bytes where it should lie: what runs is not what a start would run.
    bytes_count = seen.version == spec.version and seen.digest == spec.artifact.digest
    for field, want in wanted.items():
        if field in RELEASE_FIELDS and not (bytes_count and field == "artifact.digest"):
            continue
        value = have.get(field)
        if value == want:
            continue
        if value is not None:
            if field == "command" and recorded is not None:
                moved = value.replace(
                    artifact_path(root, recorded.artifact), artifact_path(root, spec.artifact)
                )
                if moved == want:
                    continue
            same = _same_secret(field, want, value, spec, recorded)
            if same is not None:
                if same:
                    unchecked.append(field)
                    continue
                want, value = _REFERENCE, _REFERENCE
        reasons.append(_reason(field, value, want))
    reasons += [
        _reason(field, value, None)
        for field, value in have.items()
        if field not in wanted and field not in RELEASE_FIELDS
    ]
    return reasons, unchecked


_REFERENCE = "(secret)"


def _reason(field: str, before: str | None, after: str | None) -> Reason:
    return built(
        Reason,
        {"after": _shown(after), "before": _shown(before), "code": field.partition(".")[0], "field": field},
    )


def _shown(value: str | None) -> str | None:
    if value is None:
        return None
    if value.startswith((_KEYED, UNKEYED)):
        return _REFERENCE
    # Arguments are joined by NUL, which no argument can hold; people read spaces.
    return value.replace("\x00", " ")


def _same_secret(field: str, want: str, have: str, spec: NodeSpec, recorded: NodeSpec | None) -> bool | None:
    """Whether two secret fields are taken for equal; None when they are not a keyed and an unkeyed one.

    A value that was not resolved cannot be compared with one that was. It is taken for equal as long as
    the reference is the recorded one, and listed as not checked; another reference is a change.
    """
    want_body, have_body = want.rpartition(" ")[2], have.rpartition(" ")[2]
    if not (_is_secret(want_body) and _is_secret(have_body)):
        return None
    if want_body.startswith(_KEYED) == have_body.startswith(_KEYED):
        return None
    reference = _reference(spec, field)
    if have_body.startswith(UNKEYED):
        return have_body == f"{UNKEYED}{reference}"
    return recorded is None or _reference(recorded, field) == reference


def _is_secret(text: str) -> bool:
    return text.startswith((_KEYED, UNKEYED))


def _reference(spec: NodeSpec, field: str) -> str | None:
    kind, _, name = field.partition(".")
    if kind == "env":
        value = spec.env.get(name)
        return value.secret if isinstance(value, SecretUse) else None
    return next((f.secret for f in spec.files if f.path == name), None)


def release_reasons(before: ReleaseIdentity, after: ReleaseIdentity) -> tuple[Reason, ...]:
    """Why the release differs: the text and which way it goes, or the digest under the same text."""
    if before.version == after.version:
        return (Reason(code="rebuild", field="artifact.digest", before=before.digest, after=after.digest),)
    reasons = [Reason(code="release", field="release.version", before=before.version, after=after.version)]
    if is_version(before.version):
        way = direction(before.version, after.version)
        if way is Direction.DOWNGRADE:
            reasons.append(Reason(code="downgrade"))
        elif way is Direction.SAME:
            reasons.append(Reason(code="same-precedence"))
    return tuple(reasons)
