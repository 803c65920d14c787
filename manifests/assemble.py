"""Composed documents -> `Manifests`: values, models, rules across documents. Opens nothing.

A document is known by kind and name. Several that agree in both are one document written in layers
(`manifests.overlay`); `Compatibility` documents of a product add up, and a `Policy` is never laid over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from manifests import overlay
from manifests.bind import bind, kind_of
from manifests.diagnostics import Diagnostic, Span, error
from manifests.expansion import span_of
from manifests.manifest import Key, Path
from manifests.schema.compatibility import Compatibility
from manifests.schema.fleet import Fleet
from manifests.schema.host import Host
from manifests.schema.kinds import Kind
from manifests.schema.policy import Policy
from manifests.schema.release import Release
from manifests.source import Document
from manifests.template import Renderer
from manifests.tree import Reader, locate

POLICY = "Policy"
# What other documents refer to: a document that does not say what it is might have been any of them.
_REFERRED = frozenset({"Fleet", "Host", "Release"})


@dataclass(frozen=True, slots=True)
class Layer:
    """The documents of one path argument, in the order of files and documents."""

    documents: tuple[Document, ...]


@dataclass
class Assembled:
    """The documents of a run as far as they could be bound; `incomplete` are kinds with a broken document."""

    fleets: dict[str, Fleet] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    releases: dict[tuple[str, str], Release] = field(default_factory=dict)
    compatibility: list[Compatibility] = field(default_factory=list)
    policies: dict[str, Policy] = field(default_factory=dict)
    incomplete: set[str] = field(default_factory=set)
    roots: dict[Key, Document] = field(default_factory=dict)

    def where(self, key: Key, path: Path) -> Span | None:
        """The place of a value, or of the nearest one around it; None for a document that nobody wrote."""
        document = self.roots.get(key)
        if document is None:
            return None
        node, _, _ = locate(document.root, path)
        return span_of(node)


def assemble(
    layers: Sequence[Layer], variables: Mapping[str, Any], renderer: Renderer, findings: list[Diagnostic]
) -> Assembled:
    """Reads, merges and binds every document; each problem is a finding."""
    reader = Reader(renderer, variables, findings)
    out = Assembled()
    for document, kind, value in _merged(layers, reader, out, findings):
        model = bind(document, kind, value, findings)
        if model is None:
            out.incomplete.add(kind)
        else:
            _add(out, document, model)
    return out


def identity(kind: str, value: Mapping[str, Any]) -> Key | None:
    """What a document is known by; None when it does not say, or documents of the kind add up."""
    if kind == "Compatibility":
        return None
    if kind == "Release":
        product, version = value.get("product"), value.get("version")
        if isinstance(product, str) and isinstance(version, str):
            return kind, f"{product}@{version}"
        return None
    name = value.get("name")
    return (kind, str(name)) if isinstance(name, str) else None


def _merged(
    layers: Sequence[Layer], reader: Reader, out: Assembled, findings: list[Diagnostic]
) -> list[tuple[Document, str, dict[str, Any]]]:
    """Every document once: those of later layers laid over those of earlier ones."""
    merged: list[tuple[Document, str, dict[str, Any]]] = []
    places: dict[Key, int] = {}
    for layer in layers:
        own: dict[Key, Document] = {}
        for document in layer.documents:
            before = len(findings)
            value = reader.value(document.root)
            if not isinstance(value, dict):
                out.incomplete |= _REFERRED
                continue
            kind = kind_of(document, value, findings)
            if kind is None:
                out.incomplete |= _REFERRED
                continue
            if len(findings) > before:
                out.incomplete.add(kind)
            key = identity(kind, value)
            if key is None:
                merged.append((document, kind, value))
                continue
            if key in own:
                findings.append(_duplicate(key, own[key], document))
                continue
            own[key] = document
            if key not in places:
                places[key] = len(merged)
                merged.append((document, kind, value))
                continue
            base, _, base_value = merged[places[key]]
            if kind == POLICY:
                findings.append(_laid_over(key, base, document))
                continue
            root, laid = overlay.lay(kind, base.root, base_value, document.root, value)
            merged[places[key]] = (Document(document.file, root), kind, laid)
    return merged


def _duplicate(key: Key, first: Document, second: Document) -> Diagnostic:
    kind, name = key
    return error(
        "manifest.duplicate-document",
        "A document is written twice",
        f"{kind} {name} also stands at {span_of(first.root)}; only one of the two could count.",
        span=span_of(second.root),
        hint="remove one; to change some keys of the other, give this file as a path argument of its own",
    )


def _laid_over(key: Key, first: Document, second: Document) -> Diagnostic:
    return error(
        "policy.laid-over",
        "A policy is not laid over",
        f"{POLICY} {key[1]} stands at {span_of(first.root)}; a later layer could take away what it demands.",
        span=span_of(second.root),
        hint="give this one another name: policies add up; or change the first where it stands",
    )


def _add(out: Assembled, document: Document, model: Kind) -> None:
    if isinstance(model, Fleet):
        out.fleets[model.name] = model
        out.roots["Fleet", model.name] = document
    elif isinstance(model, Host):
        out.hosts[model.name] = model
        out.roots["Host", model.name] = document
    elif isinstance(model, Policy):
        out.policies[model.name] = model
        out.roots["Policy", model.name] = document
    elif isinstance(model, Release):
        out.releases[model.product, model.version] = model
        out.roots["Release", f"{model.product}@{model.version}"] = document
    else:
        number = sum(other.product == model.product for other in out.compatibility)
        out.roots["Compatibility", f"{model.product}#{number}"] = document
        out.compatibility.append(model)
