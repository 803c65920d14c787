"""The kinds by name, and the keys below each: what finds unknown keys, documentation and examples share."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from manifests.schema.compatibility import Compatibility
from manifests.schema.fleet import Fleet
from manifests.schema.host import Host
from manifests.schema.policy import Policy
from manifests.schema.release import Release

KINDS: dict[str, type[Fleet] | type[Host] | type[Release] | type[Compatibility] | type[Policy]] = {
    "Fleet": Fleet,
    "Host": Host,
    "Release": Release,
    "Compatibility": Compatibility,
    "Policy": Policy,
}
Kind = Fleet | Host | Release | Compatibility | Policy
ITEM = "[]"
"""Stands for any place of a list in a key path."""
ANY_KEY = "*"
"""Stands for any name in a key path: env variables, labels."""


def keys(model: type[BaseModel]) -> dict[str, Any]:
    """The keys of a model as they are written, with the type of each."""
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def models(annotation: Any) -> tuple[type[BaseModel], ...]:
    """The models that a value of this type may be."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return (annotation,)
    origin = get_origin(annotation)
    if origin is Annotated:
        return models(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return tuple(found for part in get_args(annotation) for found in models(part))
    return ()


def inner(annotation: Any) -> tuple[str, Any] | None:
    """The step into a list (`[]`) or a mapping of names (`*`), and the type behind it; None for other types."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return inner(get_args(annotation)[0])
    if origin in (Union, UnionType):
        return next((found for part in get_args(annotation) if (found := inner(part)) is not None), None)
    if origin is tuple:
        return ITEM, get_args(annotation)[0]
    if origin is dict:
        return ANY_KEY, get_args(annotation)[1]
    return None


def key_paths(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key path of a kind, depth first, `[]` for list places and `*` for free names."""
    for key, annotation in keys(model).items():
        path = (*prefix, key)
        yield path
        step = annotation
        while (into := inner(step)) is not None:
            path, step = (*path, into[0]), into[1]
        for below in models(step):
            yield from key_paths(below, path)


def models_at(model: type[BaseModel], path: tuple[str | int, ...]) -> tuple[type[BaseModel], ...]:
    """The models that may stand at a key path; empty where the path leads to no mapping of known keys."""
    types: list[Any] = [model]
    for step in path:
        following: list[Any] = []
        for annotation in types:
            into = inner(annotation)
            if into is not None:
                following.append(into[1])
            elif isinstance(step, str):
                following += [k[step] for m in models(annotation) if step in (k := keys(m))]
        types = following
    return tuple(found for annotation in types for found in models(annotation))
