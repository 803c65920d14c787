"""Canonical by construction: models whose keys already lie in the order that RFC 8785 asks for.

A plan of 10,000 nodes is 20 MB of JSON. Pydantic's own encoder writes it in one pass, in the order in
which a model holds its values; so the plan's models keep theirs sorted, and nothing is sorted later.
`tests/planner/test_encoding.py` holds the result against `manifests.digest.canonical_json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, BaseModel, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

M = TypeVar("M", bound=BaseModel)
V = TypeVar("V")

_new = object.__new__
# Different settings of one fleet are few; what falls out of this is only built again.
SHARED_MAX = 4096
_set = object.__setattr__


def built(kind: type[M], values: dict[str, Any]) -> M:
    """A model of values that are right already: complete, typed, and given in the order of the class.

    It skips validation, which takes most of the time of a large plan; tests hold what is built here
    against the validated construction.
    """
    model = _new(kind)
    _set(model, "__dict__", values)
    _set(model, "__pydantic_fields_set__", _fields(kind))
    _set(model, "__pydantic_extra__", None)
    _set(model, "__pydantic_private__", None)
    return model


@cache
def _fields(kind: type[BaseModel]) -> set[str]:
    return set(kind.model_fields)


@cache
def _order(kind: type[BaseModel]) -> tuple[str, ...]:
    return tuple(sorted(kind.model_fields, key=lambda name: kind.model_fields[name].alias or name))


def ordered(model: M) -> M:
    """An equal model that holds its keys, and those of what is inside it, in order.

    Nodes of a group share their health, drain and limits: the same value gives the same object.
    """
    try:
        return cast("M", _shared(model))
    except TypeError:  # it holds a mapping, so it has no hash
        return _rebuilt(model)


def _rebuilt(model: M) -> M:
    kind = type(model)
    return built(kind, {name: _ordered(model.__dict__[name]) for name in _order(kind)})


@lru_cache(maxsize=SHARED_MAX)
def _shared(model: BaseModel) -> BaseModel:
    return _rebuilt(model)


def in_order(mapping: Mapping[str, V]) -> dict[str, V]:
    """The same mapping with its keys in order of their UTF-16 units, as the RFC has it."""
    if all(key.isascii() for key in mapping):
        return {key: mapping[key] for key in sorted(mapping)}
    return {key: mapping[key] for key in sorted(mapping, key=lambda k: k.encode("utf-16-be"))}


def _ordered(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return ordered(value)
    if isinstance(value, tuple):
        return tuple(_ordered(v) for v in value)
    if isinstance(value, dict):
        return in_order({k: _ordered(v) for k, v in value.items()})
    return value


class AsText:
    """Marks a StrEnum's field: it is text already, and is written as such instead of asked for its value."""

    @staticmethod
    def __get_pydantic_core_schema__(source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return {**handler(source), "serialization": core_schema.simple_ser_schema("str")}


Sorted = Annotated[V, AfterValidator(_ordered)]
"""A field whose value comes from elsewhere (a manifest's model, a mapping), put in order when it is read."""
