"""Nodes -> plain values, and back from a key path to the node that was written.

Text as str, whole numbers as int, true and false as bool, lists as tuples, mappings as dict. Duplicate
keys, bad merges, tags and templates that cannot render are findings; in their place stands `BROKEN`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from manifests.diagnostics import Diagnostic, error
from manifests.errors import TemplateError
from manifests.expansion import span_of
from manifests.manifest import Path
from manifests.placeholder import is_template, only_vars, unknown
from manifests.scalars import plain
from manifests.source import COLLECTION, HARMLESS_TAGS, PLAIN, TEXT
from manifests.template import Renderer

MERGE = "<<"


class Broken:
    """Stands for a value whose finding is already noted."""

    __slots__ = ()


BROKEN = Broken()


class Rendered(str):
    """Text that came out of a template: a key that takes a number may read it as one."""

    __slots__ = ()


class Reader:
    """Turns the nodes of documents into values, and keeps the findings."""

    def __init__(
        self,
        renderer: Renderer,
        variables: Mapping[str, Any],
        findings: list[Diagnostic],
        *,
        templates: bool = True,
    ) -> None:
        self._templates = templates
        self._renderer = renderer
        self._context = {"vars": variables}
        self._findings = findings
        self._plain: dict[str, Any] = {}

    def value(self, node: Node) -> Any:
        """The node's value: what the schema is then asked about."""
        if type(node) is ScalarNode:
            return self._scalar(node)
        if type(node) is MappingNode:
            if node.tag != COLLECTION and HARMLESS_TAGS.get(node.tag) != COLLECTION:
                return self._tag(node)
            return self._mapping(node)
        if node.tag != COLLECTION and HARMLESS_TAGS.get(node.tag) != COLLECTION:
            return self._tag(node)
        return tuple([self.value(child) for child in node.value])

    def _scalar(self, node: ScalarNode) -> Any:
        text: str = node.value
        tag = node.tag
        if tag == PLAIN:
            try:
                return self._plain[text]
            except KeyError:
                pass
            if "{" not in text:
                value = self._plain[text] = plain(text)
                return value
        elif tag != TEXT and HARMLESS_TAGS.get(tag) != TEXT:
            return self._tag(node)
        if "{" in text and self._templates and is_template(text):
            return self._template(node, text)
        return text

    def _mapping(self, node: MappingNode) -> Any:
        out: dict[str, Any] = {}
        broken = False
        merges: list[Node] = []
        for key, child in node.value:
            if type(key) is not ScalarNode:
                self._bad_key(key)
                broken = True
                continue
            name: str = key.value
            if name == MERGE and key.tag == PLAIN:
                merges.append(child)
                if len(merges) > 1:
                    self._duplicate(node, key, MERGE)
            elif name in out:
                self._duplicate(node, key, name)
            else:
                out[name] = self.value(child)
        for merged in merges[:1]:
            self._merge(out, merged)
        return BROKEN if broken else out

    def _merge(self, out: dict[str, Any], merged: Node) -> None:
        sources = merged.value if isinstance(merged, SequenceNode) else [merged]
        for source in sources:
            if not isinstance(source, MappingNode):
                self._findings.append(
                    error(
                        "yaml.merge",
                        "A merge key needs a mapping",
                        "`<<` takes over the keys of a mapping, or of a list of mappings.",
                        span=span_of(source),
                        hint="refer to a mapping: <<: *name",
                    )
                )
                return
            value = self._mapping(source)
            if isinstance(value, dict):
                out.update((name, item) for name, item in value.items() if name not in out)

    def _template(self, node: ScalarNode, text: str) -> Any:
        renderer = self._renderer
        try:
            references = renderer.references(text)
            for reference in references:
                reason = unknown(reference)
                if reason is not None:
                    raise TemplateError(text, reason, code="template.unknown-name")
            if not only_vars(references):
                return text
            rendered = renderer.render(text, self._context)
        except TemplateError as e:
            self._findings.append(
                error(
                    e.code, "A template cannot be rendered", f"{e.message}.", span=span_of(node), hint=e.hint
                )
            )
            return BROKEN
        # What itself looks like a template is left to the second rendering, so that no value is rendered twice.
        return text if is_template(rendered) else Rendered(rendered)

    def _tag(self, node: Node) -> Broken:
        tag = node.tag.removeprefix("tag:yaml.org,2002:")
        shown = f"!!{tag}" if tag != node.tag else tag
        self._findings.append(
            error(
                "yaml.tag",
                "A manifest has no tags",
                f"{shown} asks for a type; here the key decides the type of its value.",
                span=span_of(node),
                hint="remove the tag; text goes in quotes",
            )
        )
        return BROKEN

    def _bad_key(self, key: Node) -> None:
        looks_templated = isinstance(key, MappingNode) and key.start_mark.column > 0
        self._findings.append(
            error(
                "yaml.key",
                "A key is not text",
                "A list or a mapping stands where a key is expected.",
                span=span_of(key),
                hint='put a template in quotes: "{{ vars.name }}"' if looks_templated else None,
            )
        )

    def _duplicate(self, node: MappingNode, second: ScalarNode, name: str) -> None:
        first = next(key for key, _ in node.value if key.value == name)
        self._findings.append(
            error(
                "yaml.duplicate-key",
                "A key is written twice",
                f"`{name}` also stands at line {first.start_mark.line + 1}, column {first.start_mark.column + 1}; "
                "only one of the two values could count.",
                span=span_of(second),
                hint="merge several mappings with one `<<: [*first, *second]`"
                if name == MERGE
                else "remove one",
            )
        )


def entry(node: Node, key: str) -> tuple[ScalarNode, Node] | None:
    """The key and value nodes of a key in a mapping, merged ones included: explicit wins, then the first."""
    if not isinstance(node, MappingNode):
        return None
    merges: list[Node] = []
    for name, child in node.value:
        if isinstance(name, ScalarNode):
            if name.value == MERGE and name.tag == PLAIN:
                merges.append(child)
            elif name.value == key:
                return name, child
    for merged in merges:
        for source in merged.value if isinstance(merged, SequenceNode) else [merged]:
            found = entry(source, key)
            if found is not None:
                return found
    return None


def locate(root: Node, path: Path) -> tuple[Node, Node | None, int]:
    """The node at a key path, or the nearest one around it.

    Gives the value's node, its key's node where it stands in a mapping, and how many steps of the path
    were found.
    """
    node, key, found = root, None, 0
    for step in path:
        if isinstance(step, str):
            pair = entry(node, step)
            if pair is None:
                break
            key, node = pair
        elif isinstance(node, SequenceNode) and step < len(node.value):
            node, key = node.value[step], None
        else:
            break
        found += 1
    return node, key, found
