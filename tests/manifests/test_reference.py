"""The annotated examples document every key, load, and answer `explain`."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import jsonschema
import pytest
import yaml
from yaml.nodes import MappingNode, Node, SequenceNode

from manifests.errors import FleetctlError
from manifests.explain import documented, explain, reference
from manifests.export import TEMPLATE, json_schema
from manifests.load import load
from manifests.schema.base import REFERENCE_PATTERN
from manifests.schema.kinds import ANY_KEY, ITEM, KINDS, key_paths, models_at
from manifests.wording import FORMS
from tests.manifests.cases import FOLDER

REFERENCE = Path(str(resources.files("manifests") / "reference"))


def written_paths(kind: str) -> set[tuple[str, ...]]:
    """Every key path that the example of a kind writes, with `[]` and `*` as in `key_paths`."""
    known = set(key_paths(KINDS[kind]))
    found: set[tuple[str, ...]] = set()

    def walk(node: Node, path: tuple[str, ...]) -> None:
        if isinstance(node, SequenceNode):
            for item in node.value:
                walk(item, (*path, ITEM))
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                step = (*path, key.value)
                if step not in known:
                    step = (*path, ANY_KEY)
                found.add(step)
                walk(value, step)

    for root in reference(kind)[1]:
        walk(root, ())
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_the_schema_is_in_the_example(kind: str) -> None:
    assert sorted(set(key_paths(KINDS[kind])) - written_paths(kind)) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_explained_by_a_comment(kind: str) -> None:
    """`explain` finds words for each key, not only a place."""
    silent = [
        path for path in sorted(documented(kind)) if not explain(".".join((kind, *path))).startswith("#")
    ]
    assert silent == []


def test_the_examples_load_together() -> None:
    manifests = load([REFERENCE])
    assert sorted(manifests.fleets) == ["hello", "worker"]
    assert manifests.warnings == ()


def test_explain_gives_the_key_with_its_value_and_nothing_of_the_next() -> None:
    assert explain("fleet.groups.data") == (
        "# The node's own data; without it a node has none, and may be placed elsewhere.\n"
        "data:\n"
        "  # The folder, relative to the node's own (default: data). Known to templates as node.data_dir.\n"
        "  path: data\n"
        "  # Whether it stays when the node is destroyed (the default).\n"
        "  retain: true\n"
    )


def test_explain_of_a_kind_is_its_heading() -> None:
    assert explain("fleet").startswith("kind: Fleet — ")
    assert "merge" in explain("Fleet")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("fleat", "did you mean Fleet?"),
        ("fleet.rolout", "did you mean rollout?"),
        ("fleet.groups.health.deadlin", "did you mean deadline?"),
        ("fleet.name.x", None),
        ("", "there are Fleet, Host, Release, Compatibility, Policy"),
    ],
)
def test_explain_suggests(asked: str, hint: str | None) -> None:
    with pytest.raises(FleetctlError) as e:
        explain(asked)
    assert e.value.hint == hint


def test_every_pattern_of_the_schema_has_words() -> None:
    """No reader of a finding meets a regular expression."""
    schema = json_schema()
    patterns: set[str] = set()

    def walk(value: object) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("pattern"), str):
                patterns.add(value["pattern"])
            patterns.update(k for k in value.get("patternProperties", {}))
            for item in value.values():
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)

    walk(schema)
    patterns.discard(str(TEMPLATE["pattern"]))
    patterns.discard(REFERENCE_PATTERN)
    own_words = {
        p for p in patterns if "sha256:" in p or p.startswith((r"^\d+(", "^(100|", "^[a-z0-9]([a-z0-9-]"))
    }
    assert patterns - own_words - set(FORMS) == set()


def test_models_at_follows_lists_and_names() -> None:
    names = [m.__name__ for m in models_at(KINDS["Fleet"], ("groups", 0, "process", "env", "ANY"))]
    assert names == ["SecretValue", "EnvVar"]
    assert models_at(KINDS["Fleet"], ("name", "x")) == ()


def json_documents(path: Path) -> list[object]:
    """The documents of a file as an editor sees them."""
    return list(yaml.load_all(path.read_text(encoding="utf-8"), yaml.CSafeLoader))


@pytest.mark.parametrize("name", sorted(p.name for p in REFERENCE.glob("*.yaml")))
def test_the_json_schema_accepts_the_examples(name: str) -> None:
    """The exported schema describes what is written: durations and sizes as texts."""
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for document in json_documents(REFERENCE / name):
        jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)


def test_the_json_schema_accepts_templates_where_a_form_is_asked_for() -> None:
    document = json_documents(REFERENCE / "fleet.yaml")[0]
    assert isinstance(document, dict)
    change = {
        "name": "{{ vars.a }}",
        "rollout": {"max_unavailable": "{{ vars.n }}", "auto_revert": "{{ vars.b }}"},
    }
    jsonschema.validate({**document, **change}, json_schema(), cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "Flet"},
        {"cuont": 3},
        {"rollout": {"max_unavailable": "101%"}},
        {"rollout": {"drain": {"timeout": 30}}},
        {"name": "Hello"},
        {"release": {"product": "hello", "version": 1.1}},
        {"release": None},
        {"groups": []},
    ],
    ids=str,
)
def test_the_json_schema_refuses(change: dict[str, object]) -> None:
    document = json_documents(REFERENCE / "fleet.yaml")[0]
    assert isinstance(document, dict)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, **change}, json_schema(), cls=jsonschema.Draft202012Validator)


def test_case_files_are_there() -> None:
    assert len(list(FOLDER.glob("*.yaml"))) >= 14
