"""Pins written into texts: nothing but the pins changes, whatever the layout."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import FleetctlError, ManifestError
from manifests.pinning import Wanted, appended, edited, edits, pins, release_document, text_of, with_artifact

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64

items = st.sampled_from(
    [
        "  - substrate: host\n    source: ./a   # where from\n    # between\n    digest: 'OLD'\n",
        "  - {substrate: host, source: ./a}   # none yet\n",
        '  - {digest: "OLD", substrate: host, arch: x86_64, source: "./a"}\n',
        "  -   source: ./a\n      substrate: qemu\n",
        "  - arch: any\n    substrate: host\n    source: >-\n      ./a\n    digest: OLD # odd\n",
        "\n  # about the next\n  - substrate: host\n    source: ./a",
    ]
)


@given(st.lists(items, min_size=1, max_size=4), st.booleans())
def test_every_pin_is_written_and_nothing_else_changes(parts: list[str], other: bool) -> None:
    head = "# top\napi_version: fleetctl/v1\nkind: Release\nproduct: p\nversion: '1.0.0'\nartifacts:\n"
    text = head + "\n".join(p.rstrip("\n") for p in parts).replace("OLD", OLD)
    if other:
        text = f"kind: Fleet\nname: x  # artifacts: [source]\n---\n{text}\n---\nkind: Host\n"
    data = text.encode()
    found = pins(data, "x.yaml")
    assert len(found) == len(parts)
    made = [e for n, pin in enumerate(found) for e in edits(pin, Wanted(f"./b{n}", NEW), text_of(data, "x"))]
    after = edited(text, made)
    written = pins(after.encode(), "x.yaml")
    assert [(p.source, p.digest) for p in written] == [(f"./b{n}", NEW) for n in range(len(parts))]
    assert re.findall("#.*", after) == re.findall("#.*", text)
    assert [(p.product, p.version, p.substrate, p.arch) for p in written] == [
        (p.product, p.version, p.substrate, p.arch) for p in found
    ]
    same = [
        e
        for pin, n in zip(written, range(9), strict=False)
        for e in edits(pin, Wanted(f"./b{n}", NEW), after)
    ]
    assert same == []


def test_a_new_release_and_one_more_artifact() -> None:
    text = release_document("p", "1.0.0", {("host", "any"): Wanted("./a b", OLD)})
    text = appended(
        text, release_document("p", "1.1.0", {("docker", "any"): Wanted(f"r:5000/p:1@{NEW}", NEW)})
    )
    added = edited(
        text + "# end\n",
        [
            with_artifact(
                (text + "# end\n").encode(), "x", ("p", "1.0.0"), ("host", "x86_64"), Wanted("./c", NEW)
            )
        ],
    )
    assert [(p.version, p.substrate, p.arch, p.source, p.digest) for p in pins(added.encode(), "x")] == [
        ("1.0.0", "host", "any", "./a b", OLD),
        ("1.0.0", "host", "x86_64", "./c", NEW),
        ("1.1.0", "docker", "any", f"r:5000/p:1@{NEW}", NEW),
    ]
    assert added.endswith("# end\n")


@pytest.mark.parametrize(
    "text",
    [
        "kind: Release\nproduct: p\nartifacts: []\n",
        "kind: Release\nproduct: p\nversion: 1.0.0\nartifacts: {}\n",
        "kind: Release\nproduct: p\nversion: 1.0.0\nartifacts: [{substrate: host}]\n",
        "kind: Release\nproduct: p\nversion: 1.0.0\nartifacts: [{source: x}]\n",
    ],
)
def test_what_is_no_release_has_its_place(text: str) -> None:
    with pytest.raises(FleetctlError, match=r"x\.yaml:"):
        pins(text.encode(), "x.yaml")


def test_what_is_not_yaml_is_a_finding() -> None:
    with pytest.raises(ManifestError):
        pins(b"a: [", "x.yaml")
