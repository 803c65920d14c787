"""What is said about a value that the schema refuses: constant summaries, details, and what to write instead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from manifests.address import NAME_PATTERN, is_name
from manifests.digest import DIGEST_PATTERN
from manifests.manifest import Path
from manifests.placeholder import is_template
from manifests.scalars import Ambiguous
from manifests.schema.base import LABEL_PATTERN, REFERENCE_PATTERN
from manifests.schema.kinds import key_paths, keys
from manifests.schema.policy import DATE_TIME, END_OF_DAY, PATTERN, TIME_OF_DAY
from manifests.suggest import did_you_mean, squeezed

SHOWN_MAX = 60
_SURGE = frozenset({"maxsurge", "surge"})


@dataclass(frozen=True, slots=True)
class Words:
    """The text of one finding."""

    code: str
    summary: str
    detail: str
    hint: str | None = None


def quoted(value: Any) -> str:
    """A value as it can stand in a message: short, in quotes where it is text."""
    text = f'"{value}"' if isinstance(value, str) else _literal(value)
    return text if len(text) <= SHOWN_MAX else text[: SHOWN_MAX - 1] + "…"


def type_name(value: Any) -> str:
    """What a value is, in the words of a manifest."""
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, int):
        return "a whole number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, tuple):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    return "nothing" if value is None else "something else"


def strange_characters(text: str) -> str:
    """The characters outside printable ASCII, by code point; look-alikes cannot be told by eye."""
    strange = dict.fromkeys(c for c in text if not "!" <= c <= "~")
    return ", ".join(f"U+{ord(c):04X}" for c in strange)


def words(
    detail: ErrorDetails,
    path: Path,
    is_key: bool,
    parents: tuple[type[BaseModel], ...],
    root: type[BaseModel],
) -> Words:
    """What to say about one refusal of the schema.

    Arguments: pydantic's error, the key path, whether the key itself is refused, the models that the
    key could belong to, and the kind.
    """
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    name = next((str(step) for step in reversed(path) if isinstance(step, str)), "the document")
    if kind == "missing":
        return Words("manifest.missing-key", "A required key is missing", f"`{name}` must be given here.")
    if kind == "extra_forbidden":
        return _unknown_key(name, parents, root)
    if isinstance(value, Ambiguous):
        return Words(
            "manifest.ambiguous-value",
            "A value must be put in quotes",
            f"`{name}: {value.text}` is {value.meaning} to some YAML programs and text to others, so it is not read at all.",
            _ambiguous_hint(kind, value),
        )
    if value is None and kind != "value_error_none":
        return Words(
            "manifest.no-value",
            "A key has no value",
            f"`{name}` is empty or null, and must have a value.",
            'write the value, or leave the key out; empty text is ""',
        )
    if kind == "string_pattern_mismatch":
        return _pattern(name, value, context["pattern"], is_key)
    if kind == "literal_error":
        return _literal_error(name, value, context["expected"])
    if kind == "value_error":
        return Words(
            "manifest.value", "A value cannot be used", f"`{name}` is {quoted(value)}: {context['error']}."
        )
    simple = _TYPES.get(kind)
    if simple is not None:
        return Words(
            "manifest.type",
            "A value has the wrong type",
            f"`{name}` takes {simple}, and this is {type_name(value)}.",
            _type_hint(kind, value),
        )
    if kind in _LIMITS:
        limit = context[_LIMITS[kind][1]]
        return Words(
            "manifest.range",
            "A value is out of range",
            f"`{name}` is {quoted(value)}; {_LIMITS[kind][0].format(limit)}.",
        )
    if context.get("hint") is not None or "detail" in context:
        return Words(
            f"manifest.{kind}", "A value cannot be used", f"`{name}` is {quoted(value)}: {context['detail']}.",
            context.get("hint"),
        )  # fmt: skip
    return Words("manifest.value", "A value cannot be used", f"`{name}` cannot be {quoted(value)} ({kind}).")


_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_LIMITS = {
    "greater_than_equal": ("it must be at least {}", "ge"),
    "less_than_equal": ("it must be at most {}", "le"),
    "greater_than": ("it must be more than {}", "gt"),
    "less_than": ("it must be less than {}", "lt"),
    "too_short": ("there must be at least {}", "min_length"),
    "too_long": ("there may be at most {}", "max_length"),
    "string_too_short": ("it must have at least {} character", "min_length"),
    "string_too_long": ("it may have at most {} characters", "max_length"),
}


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else type_name(value)


def _ambiguous_hint(kind: str, value: Ambiguous) -> str:
    if kind == "bool_type":
        return "write true or false"
    if kind == "int_type":
        if value.text.isdigit() and not value.text.startswith("0"):
            return "write a smaller number"
        return "write a decimal number without leading zeros, such as 8"
    return f'write "{value.text}" in quotes'


def _type_hint(kind: str, value: Any) -> str | None:
    if kind == "string_type" and isinstance(value, (bool, int)):
        return f'put it in quotes: "{_literal(value)}"'
    if kind == "int_type" and isinstance(value, str) and value.strip().isdigit():
        return f"write {value.strip()} without quotes"
    if kind == "bool_type" and isinstance(value, str):
        return "write true or false, without quotes"
    if kind == "tuple_type" and not isinstance(value, dict):
        return "put it in a list: [ … ]"
    return None


def _unknown_key(name: str, parents: tuple[type[BaseModel], ...], root: type[BaseModel]) -> Words:
    if squeezed(name) in _SURGE:
        return Words(
            "manifest.surge",
            "Surge does not exist",
            f"`{name}` asks for nodes beyond the count; ports and names are fixed, so a replacement stops first.",
            "remove the key; `max_unavailable` says how many nodes may be down at once",
        )
    known = {key for model in parents for key in keys(model)}
    hint = did_you_mean(name, known)
    if hint is None:
        places = sorted({".".join(path[:-1]) for path in key_paths(root) if path[-1] == name})
        if places:
            hint = f"`{name}` belongs under {' or '.join(p or 'the document' for p in places[:3])}"
        elif known:
            hint = f"there are: {', '.join(sorted(known))}"
    return Words(
        "manifest.unknown-key",
        "A key is not known",
        f"`{name}` means nothing here, and what is not understood is not ignored.",
        hint,
    )


def _literal_error(name: str, value: Any, expected: str) -> Words:
    options = [option.strip("'") for option in expected.replace(" or ", ", ").split(", ")]
    hint = did_you_mean(value, options) if isinstance(value, str) else None
    if hint is None and not isinstance(value, str):
        hint = f"write {options[0]}" if len(options) == 1 else f"write one of {', '.join(options)}"
    return Words(
        "manifest.choice",
        "A value is not one of those possible",
        f"`{name}` is {quoted(value)}; possible {'is' if len(options) == 1 else 'are'} {', '.join(options)}.",
        hint,
    )


def _pattern(name: str, value: Any, pattern: str, is_key: bool) -> Words:
    text = str(value)
    if is_template(text):
        return Words(
            "manifest.template",
            "A value cannot be used",
            f"`{name}` is {quoted(text)}: only `vars` can stand here; nothing else is known when this key is read.",
        )
    if pattern == REFERENCE_PATTERN:
        # Perhaps the secret itself: it is not repeated.
        return Words(
            "manifest.secret",
            "A secret is named, not written",
            f"`{name}` says where the secret is found, and this is no such place.",
            "write env:NAME, file:PATH, command:ARGV, aws-sm:ID or aws-ssm:NAME",
        )
    what = f"the key {quoted(name)}" if is_key else f"`{name}` is {quoted(text)}"
    strange = strange_characters(text)
    seen = f" It holds {strange}." if strange else ""
    if NAME_PATTERN in pattern:
        lower = text.lower().replace("_", "-").replace(" ", "-").strip("-")
        return Words(
            "manifest.name",
            "A name has characters that names do not have",
            f"{what}; a name is 1 to 63 characters of a-z, 0-9 and inner hyphens, so that no two names only look alike.{seen}",
            f'write "{lower}"' if is_name(lower) else None,
        )
    if DIGEST_PATTERN in pattern:
        return Words(
            "manifest.digest",
            "A digest is not a sha256 pin",
            f"{what}; a pin is `sha256:` and 64 lower-case hex digits.{seen}",
            _digest_hint(text),
        )
    return Words(
        "manifest.pattern",
        "A value does not have the form it needs",
        f"{what}; {FORMS.get(pattern, f'it must match {pattern}')}.{seen}",
    )


# By pattern; a test holds this against the schema, so that no reader meets a regular expression.
FORMS: dict[str, str] = {
    PATTERN: "a name is 1 to 63 characters of a-z, 0-9 and inner hyphens; `*` stands for any",
    DATE_TIME: "write a date, or a date and a time, as in 2030-12-20 or 2030-12-20T18:00",
    TIME_OF_DAY: "a time of day is 00:00 to 23:59",
    END_OF_DAY: "a time of day is 00:00 to 23:59, or 24:00 for its end",
    rf"^{LABEL_PATTERN}$": "a label is 1 to 63 letters, digits, `.`, `_`, `/` and hyphens",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "a variable's name is letters, digits and underscores",
    r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$": "it is a relative path of letters, digits, `.`, `_` and hyphens",
    r"^/[^\x00]*$": "it is an absolute path",
    r"^[A-Z_]+$": "a capability is written in capitals, such as NET_BIND_SERVICE",
    r"^(unix:///.+|tcp://.+:[0-9]+)$": "an engine is at unix:///PATH or tcp://HOST:PORT",
    r"^(qemu(\+unix)?:///(system|session)|test:///default)(\?socket=/.+)?$": (
        "a libvirt is at qemu:///system, or at qemu+unix:///system?socket=PATH; for another machine write `ssh`"
    ),
    r"^[a-z0-9][a-z0-9._-]*$": "a machine type is lower-case letters, digits, `.`, `_` and hyphens, such as q35",
}


def _digest_hint(text: str) -> str | None:
    digits = text.removeprefix("sha256:")
    if set(digits.lower()) - set("0123456789abcdef"):
        return "print it with: sha256sum FILE"
    if len(digits) != 64:
        return f"it has {len(digits)} hex digits, and 64 are needed"
    if digits != digits.lower():
        return f'write "sha256:{digits.lower()}"'
    return f'write "sha256:{digits}"'
