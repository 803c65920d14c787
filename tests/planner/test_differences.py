"""Documents, pins and references to secrets that differ, and the lines that a reviewer is led to."""

from __future__ import annotations

from pathlib import Path

import pytest

from manifests.load import load
from manifests.manifest import Manifests
from planner.change import Reason
from planner.differences import documents, pairs, programs, secrets
from planner.pins import pins
from planner.places import Places

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64
TEXT = """api_version: fleetctl/v1
kind: Fleet
name: hello
trust_domain: hello.internal
release: {product: hello, version: "1.0.0"}
groups:
  - name: web
    count: 3
    substrate: host
    port: 18080
    data: {path: data}
    process:
      command: [run, "{{ node.port }}"]
      env:
        GREETING: hello
        TOKEN: {secret: "env:TOKEN"}
      files:
        - {path: etc/app.conf, content: x}
      limits: {open_files: 100}
  - name: api
    substrate: host
    release: {product: hello, version: "1.1.0"}
    process: {command: [api]}
    nodes:
      - {name: api-a, port: 9000}
      - name: api-b
        port: 9001
        release: {product: hello, version: "2.0.0"}
        process: {env: {OWN: "1"}, files: [{path: own.conf, content: own}], user: daemon}
rollout: {max_unavailable: 1, reserve: 1}
---
api_version: fleetctl/v1
kind: Host
name: h1
address: 10.0.0.1
ssh: {address: 10.0.0.1, become: {password: {secret: "env:SUDO"}}}
root: /srv/x
---
api_version: fleetctl/v1
kind: Compatibility
product: hello
pairs:
  - {from: "1.0.0", to: "1.1.0", mode: rolling}
""" + "".join(
    f"""---
api_version: fleetctl/v1
kind: Release
product: hello
version: "{version}"
artifacts:
  - {{substrate: host, source: ./x.bin, digest: "{A}"}}
"""
    for version in ("1.0.0", "1.1.0", "2.0.0")
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "x.bin").write_bytes(b"x")
    return tmp_path


def loaded(folder: Path, *changes: tuple[str, str]) -> Manifests:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "fleet.yaml"
    path.write_text(text)
    return load([path])


@pytest.mark.parametrize(
    ("change", "document", "keys", "line"),
    [
        (("count: 3", "count: 4"), "Fleet hello", ("groups.web.count",), 8),
        (("GREETING: hello", "GREETING: hi"), "Fleet hello", ("groups.web.process.env.GREETING",), 15),
        (('  - name: web\n    count: 3\n    substrate: host\n    port: 18080\n    data: {path: data}',
          '  - name: web\n    count: 3\n    substrate: host\n    port: 18080'), "Fleet hello", ("groups.web.data",), None),
        (("reserve: 1", "reserve: 0"), "Fleet hello", ("rollout.reserve",), 30),
        (("port: 9001", "port: 9002"), "Fleet hello", ("groups.api.nodes.api-b.port",), 27),
        (("address: 10.0.0.1", "address: 10.0.0.2"), "Host h1", ("address",), 35),
        (("mode: rolling", "mode: full"), "Compatibility hello#0", ("pairs",), 43),
        ((A, B), "Release hello@1.0.0", ("artifacts",), None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_a_document_that_differs_is_told_with_its_keys_and_line(
    folder: Path, change: tuple[str, str], document: str, keys: tuple[str, ...], line: int | None
) -> None:
    (row,) = documents(loaded(folder), loaded(folder, change))
    assert (f"{row.kind} {row.name}", row.change, row.keys) == (document, "changed", keys)
    assert row.place is not None
    if line is not None:
        assert row.place.line == line


def test_order_and_comments_are_no_difference(folder: Path) -> None:
    base = loaded(folder)
    head = loaded(
        folder,
        ("name: hello\ntrust_domain: hello.internal", "# said\ntrust_domain: hello.internal\nname: hello"),
    )
    assert documents(base, head) == ()


def test_a_node_that_is_added_or_removed_is_named(folder: Path) -> None:
    base, head = loaded(folder), loaded(folder, ("      - {name: api-a, port: 9000}\n", ""))
    assert [row.keys for row in documents(base, head)] == [("groups.api.nodes",)]
    assert [row.keys for row in documents(head, base)] == [("groups.api.nodes.api-a",)]


def test_pins_of_fleets_groups_and_nodes(folder: Path) -> None:
    base = loaded(folder)
    head = loaded(
        folder,
        ('release: {product: hello, version: "1.0.0"}', 'release: {product: hello, version: "1.1.0"}'),
        (
            '        release: {product: hello, version: "2.0.0"}',
            '        release: {product: hello, version: "1.0.0"}',
        ),
    )
    found = {(p.kind, p.what, p.before, p.after, p.owners) for p in pins(base, head)}
    assert found == {
        ("release", "hello", "1.0.0", "1.1.0", ("fleet/hello",)),
        ("release", "hello", "2.0.0", "1.0.0", ("node/hello/api-b",)),
    }
    assert [p.place.line for p in pins(base, head) if p.place] == [5, 28]
    assert [(a.artifact, a.before, a.after) for a in pins(base, head)[0].artifacts] == [("host/any", A, A)]


def test_bytes_that_change_under_a_name_are_a_moved_pin(folder: Path) -> None:
    (row,) = pins(loaded(folder), loaded(folder, (A, B)))
    assert (row.kind, row.what, row.before, row.after) == ("artifact", "hello 1.0.0 host/any", A, B)
    assert row.place is not None
    assert TEXT.splitlines()[row.place.line - 1].strip().startswith("- {substrate")
    assert row.place.column > 40


def test_transitions_that_are_declared_otherwise(folder: Path) -> None:
    """Added, changed in either direction, under a condition, and taken away; a reason changes nothing."""
    base = loaded(folder)
    more = (
        '{from: "1.0.0", to: "1.1.0", mode: rolling, reverse: full, reason: r}\n'
        '  - {from: "1.1.0", to: "2.0.0", mode: full, when: {env: {MODE: bucket}}}'
    )
    head = loaded(folder, ('{from: "1.0.0", to: "1.1.0", mode: rolling}', more))
    found = [(p.from_, p.to, p.when, p.before, p.after) for p in pairs(base, head)]
    assert found == [
        ("1.0.0", "1.1.0", "", "rolling, back: never", "rolling, back: full"),
        ("1.1.0", "2.0.0", "MODE=bucket", None, "full, back: never"),
    ]
    assert [p.place.line for p in pairs(base, head) if p.place] == [43, 44]
    assert [(p.before, p.after, p.place) for p in pairs(head, base)][1:] == [
        ("full, back: never", None, None)
    ]
    only_said = loaded(folder, ("mode: rolling}", "mode: rolling, reason: r}"))
    assert pairs(base, only_said) == ()


def test_new_references_to_secrets_are_told_once_for_each_user(folder: Path) -> None:
    base = loaded(folder)
    head = loaded(
        folder,
        (
            'TOKEN: {secret: "env:TOKEN"}',
            'TOKEN: {secret: "env:OTHER"}\n        AGAIN: {secret: "env:OTHER"}',
        ),
        ("{path: etc/app.conf, content: x}", '{path: etc/app.conf, secret: "env:FILE"}'),
        ('{secret: "env:SUDO"}', '{secret: "command:pass sudo"}'),
    )
    found = [(s.used_by, s.reference, s.field) for s in secrets(base, head)]
    assert sorted(found) == [
        ("fleet/hello", "env:FILE", "groups.process.files"),
        ("fleet/hello", "env:OTHER", "groups.process.env.TOKEN"),
        ("host/h1", "command:pass sudo", "ssh.become.password"),
    ]
    assert secrets(head, base) != ()
    assert secrets(base, base) == ()
    assert all(s.place is not None for s in secrets(base, head))


def test_new_programs_are_told_and_moved_ones_too(folder: Path) -> None:
    """A pull request must not slip in what runs beside fleetctl, with its rights."""
    one = "rollout: {max_unavailable: 1, reserve: 1"
    hooks = f"{one}, hooks: {{pre_drain: [{{command: [./out, a]}}], backup: [{{command: [./save], where: host}}]}}"
    base, head = loaded(folder), loaded(folder, (one, hooks))
    assert [(p.moment, p.where, p.command) for p in programs(base, head)] == [
        ("pre_drain", "here", ("./out", "a")),
        ("backup", "host", ("./save",)),
    ]
    assert all(p.place is not None for p in programs(base, head))
    moved = loaded(folder, (one, hooks.replace("[./save], where: host", "[./save]")))
    assert [(p.moment, p.where) for p in programs(head, moved)] == [("backup", "here")]
    assert programs(head, base) == programs(head, head) == ()
    drains = f"{one}, drain: {{command: {{command: [./jobs]}}, until: {{command: {{command: [./none]}}}}}}"
    found = programs(base, loaded(folder, (one, drains)))
    assert [(p.moment, p.command) for p in found] == [
        ("drain.command", ("./jobs",)),
        ("drain.until.command", ("./none",)),
    ]


@pytest.mark.parametrize(
    ("group", "node", "field", "line"),
    [
        ("web", "web-0", "release.version", 5),
        ("api", "api-a", "release.version", 22),
        ("api", "api-b", "release.version", 28),
        ("web", "web-0", "env.GREETING", 15),
        ("web", "web-0", "env.GONE", 15),
        ("api", "api-b", "env.OWN", 29),
        ("api", "api-b", "env.GROUP", 23),
        ("api", "api-b", "user", 29),
        ("api", "api-b", "files.own.conf", 29),
        ("web", "web-0", "files.etc/app.conf", 18),
        ("web", "web-0", "command", 13),
        ("web", "web-0", "limits.open_files", 19),
        ("web", "web-0", "port", 10),
        ("api", "api-b", "port", 27),
        ("web", "web-0", "data.path", 11),
        ("web", "web-3", "", 8),
        ("api", "api-b", "", 26),
        ("api", "api-gone", "", 25),
        ("gone", "gone-0", "", 7),
    ],
)
def test_the_line_of_what_makes_a_node_change(
    folder: Path, group: str, node: str, field: str, line: int
) -> None:
    places = Places(loaded(folder), "hello")
    span = places.of(group, node, Reason(code=field.partition(".")[0] or "new", field=field))
    assert span is not None
    assert span.line == line, TEXT.splitlines()[span.line - 1]


def test_the_line_of_bytes_that_were_made_again(folder: Path) -> None:
    places = Places(loaded(folder), "hello")
    rebuilt = Reason(code="rebuild", field="artifact.digest", before=B, after=A)
    span = places.of("api", "api-a", rebuilt)
    assert span is not None
    lines = TEXT.splitlines()
    version = max(n for n in range(span.line) if lines[n].startswith("version:"))
    assert lines[version] == 'version: "1.1.0"'
    assert A in lines[span.line - 1]


def test_a_fleet_that_is_not_there_has_no_lines(folder: Path) -> None:
    assert Places(loaded(folder), "other").of("web", "web-0", None) is None
