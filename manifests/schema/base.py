"""The model that every kind builds on, and the scalar types that manifests are made of.

Values arrive typed by `manifests.source`: text as str, whole numbers as int, true and false as bool,
lists as tuples. Nothing is converted here: a number where text is expected is an error with a place.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from manifests.address import NAME_PATTERN
from manifests.digest import DIGEST_PATTERN
from manifests.version import is_version

API_VERSION = "fleetctl/v1"
PORT_MAX = 65535

# Nine digits of milliseconds are eleven days; more digits than these are no duration.
_DURATION = re.compile(r"([0-9]{1,12})(ms|s|m|h|d)")
_DURATION_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# A rollout that waits longer than this for one thing is a mistake in the manifest, not patience.
DURATION_MAX_MS = 30 * 86_400_000
_SIZE = re.compile(r"([0-9]{1,18})(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)")
_SIZE_B = {
    "B": 1,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
# JSON carries whole numbers up to 2**53 - 1 portably.
SIZE_MAX_B = 2**53 - 1
_OCTAL = re.compile(r"0?[0-7]{3}")
_MOVING = frozenset({"latest", "stable", "edge", "nightly", "main", "master", "current", "newest", "lts"})
_PERCENT = re.compile(r"(100|[1-9]?[0-9])%")


class Model(BaseModel):
    """Frozen, strict, and closed: an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


def refused(kind: str, detail: str, hint: str | None = None) -> PydanticCustomError:
    """An error of a validator: `kind` is part of the finding's code, `detail` and `hint` are its text."""
    return PydanticCustomError(kind, "{detail}", {"detail": detail, "hint": hint})


def duration_ms(value: Any) -> int:
    """Whole milliseconds of a text such as 10s; raises ValueError."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        hint = f"write {value}s or {value}ms" if type(value) is int else None
        raise refused(
            "duration", "a duration is a whole number with its unit, such as 500ms, 10s, 5m, 2h or 1d", hint
        )
    ms = int(match[1]) * _DURATION_MS[match[2]]
    if ms > DURATION_MAX_MS:
        raise refused("duration", "a duration is at most 30d")
    return ms


def _size(value: Any) -> Any:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise refused("size", "a size is a whole number with its unit, such as 512MiB, 2GiB or 10GB")
    size_b = int(match[1]) * _SIZE_B[match[2]]
    if size_b > SIZE_MAX_B:
        raise refused("size", "a size is at most 8192TiB")
    return size_b


def _bound(value: Any) -> Any:
    if type(value) is int and value >= 0:
        return value
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return str(value)
    raise refused("bound", "a number of nodes is a whole number from 0, or a percentage from 0% to 100%")


def _version(value: str) -> str:
    if not is_version(value):
        if value.lower() in _MOVING:
            raise refused(
                "version", "it names whatever is newest and pins nothing", "write the exact version"
            )
        raise refused(
            "version", "a version is three numbers, such as 1.4.0, 1.4.0-rc.1 or 1.4.0+build.7 (SemVer 2.0.0)",
            "write all three numbers" if re.fullmatch(r"v?\d+(\.\d+)?", value) else None,
        )  # fmt: skip
    return value


def _no_template(value: str) -> str:
    if "{" in value and ("{{" in value or "{%" in value or "{#" in value):
        raise refused("template", "only `vars` can stand here; nothing else is known when this key is read")
    return value


def _octal(value: str) -> str:
    if not _OCTAL.fullmatch(value):
        raise refused("mode", 'a file mode is three or four octal digits in quotes, such as "0644"')
    return value.rjust(4, "0")


NO_TEMPLATE = AfterValidator(_no_template)
# Constraints on text stand before validators, so that the exported schema has them.
Text = Annotated[str, NO_TEMPLATE]
"""Text in which only `{{ vars.x }}` was rendered, when the file was read."""
Template = Annotated[
    str, WithJsonSchema({"type": "string", "description": "may hold {{ … }}, rendered per node"})
]
"""Text that is rendered per node, with everything that is known about the node."""
NonEmpty = Annotated[str, Field(min_length=1), NO_TEMPLATE]
"""Text with at least one character."""
Name = Annotated[
    str,
    Field(pattern=rf"^{NAME_PATTERN}$", description="1-63 characters: a-z, 0-9, inner hyphens"),
]
LABEL_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?"
LabelName = Annotated[str, Field(pattern=rf"^{LABEL_PATTERN}$")]
Labels = dict[LabelName, Text]
"""Free names and texts; both end up in labels of substrates."""
REFERENCE_PATTERN = r"^(env|file|command|aws-sm|aws-ssm):\S.*$"
SecretRefText = Annotated[str, Field(pattern=REFERENCE_PATTERN), NO_TEMPLATE]
"""Where a secret is found: env:NAME, file:PATH, command:ARGV, aws-sm:ID or aws-ssm:NAME."""
Version = Annotated[
    Text, AfterValidator(_version), WithJsonSchema({"type": "string", "description": "SemVer 2.0.0"})
]
Sha256 = Annotated[
    str, Field(pattern=rf"^{DIGEST_PATTERN}$", description="sha256: and 64 lower-case hex digits")
]
DurationMs = Annotated[
    int,
    BeforeValidator(duration_ms),
    # Written as it is read, so that a plan or a journal that holds the model can be read back.
    PlainSerializer(lambda ms: f"{ms}ms", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(ms|s|m|h|d)$"}),
]
"""A duration: text with a unit in the manifest, whole milliseconds in the model."""
SizeB = Annotated[
    int,
    BeforeValidator(_size),
    PlainSerializer(lambda size_b: f"{size_b}B", return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(B|KiB|MiB|GiB|TiB|kB|MB|GB|TB)$"}),
]
"""A size: text with a unit in the manifest, bytes in the model."""
Bound = Annotated[
    int | str,
    BeforeValidator(_bound),
    WithJsonSchema(
        {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^(100|[1-9]?[0-9])%$"}]}
    ),
]
"""A number of nodes, or a percentage of them; percentages round down (`planner.budget.resolve`)."""
Port = Annotated[int, Field(ge=1, le=PORT_MAX)]
FileMode = Annotated[Text, AfterValidator(_octal)]


class SecretValue(Model):
    """A value by reference, resolved when it is used: {secret: "env:NAME"} or {secret: "file:PATH"}."""

    secret: SecretRefText
