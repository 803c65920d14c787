"""Bytes and paths as they come: encodings, damage, limits, what is no regular file, and where paths lead."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests import source
from manifests.diagnostics import Diagnostic
from manifests.digest import sha256
from manifests.errors import ExitCode, ManifestError
from manifests.load import load
from manifests.schema.fleet import EnvVar, SecretValue
from tests.manifests.cases import STANDARD

HOST = "api_version: fleetctl/v1\nkind: Host\nname: h1\n"


def findings(data: bytes, folder: Path) -> tuple[Diagnostic, ...]:
    path = folder / "m.yaml"
    path.write_bytes(data)
    with pytest.raises(ManifestError) as e:
        load([path])
    return e.value.diagnostics


@pytest.mark.parametrize(
    ("data", "code", "place"),
    [
        (HOST.encode("utf-16"), "yaml.encoding", "1:1"),
        (b"\x00\x00\xfe\xff" + HOST.encode("utf-32-be"), "yaml.encoding", "1:1"),
        (b"name: caf\xe9\n", "yaml.encoding", "1:10"),
        (b"a: 1\nb: \xff\n", "yaml.encoding", "2:4"),
        (b"a: 1\nb: \x00\x00", "yaml.control-character", "2:4"),
        (b"a: \x1b[31m\n", "yaml.control-character", "1:4"),
        (b"\x00" * 4096, "yaml.control-character", "1:1"),
        (b"a: \xef\xbf\xbe\n", "yaml.control-character", "1:4"),
    ],
    ids=["utf-16", "utf-32", "latin-1", "ff", "nul", "escape", "nuls", "noncharacter"],
)
def test_damaged_bytes_have_a_place(data: bytes, code: str, place: str, tmp_path: Path) -> None:
    (found,) = findings(data, tmp_path)
    assert (found.code, str(found.span)) == (code, f"{tmp_path / 'm.yaml'}:{place}")


def test_a_byte_order_mark_of_utf_8_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + HOST.encode())
    assert "h1" in load([path]).hosts


def test_columns_count_characters(tmp_path: Path) -> None:
    (found,) = findings("labels: {a: ä, ☃: {}, x: 1".encode(), tmp_path)
    assert found.code == "yaml.syntax"
    (first, *_) = findings((HOST + "labels: {a: äöü☃, b: 1.10}\n").encode(), tmp_path)
    assert first.span is not None
    assert (first.span.line, first.span.column) == (4, 22)


def test_limits_are_refused_before_they_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FILE_BYTES_MAX", 100)
    monkeypatch.setattr("manifests.load.FILE_BYTES_MAX", 100)
    (found,) = findings(b"a: " + b"x" * 200, tmp_path)
    assert found.code == "yaml.too-large"
    monkeypatch.setattr(source, "NODES_MAX", 10)
    (found,) = findings(b"a: [1,2,3,4,5,6,7,8,9,0]", tmp_path)
    assert (found.code, found.span is not None) == ("yaml.too-many-values", True)


def test_deep_nesting_in_blocks_is_refused(tmp_path: Path) -> None:
    text = "".join(f"{' ' * i}k:\n" for i in range(2000))
    (found,) = findings(text.encode(), tmp_path)
    assert found.code == "yaml.too-deep"


def test_a_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.yaml")
    with pytest.raises(ManifestError) as e:
        load([tmp_path / "m.yaml"])
    assert [d.code for d in e.value.diagnostics] == ["file.not-regular"]


def test_devices_and_bad_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ManifestError) as e:
        load(["/dev/zero", "a\0b", tmp_path / "x" / "y.yaml", ""])
    assert [d.code for d in e.value.diagnostics] == [
        "file.not-regular", "file.unreadable", "file.missing", "file.missing",
    ]  # fmt: skip


def test_a_name_that_is_not_utf_8_is_an_error_that_can_be_printed(tmp_path: Path) -> None:
    """A plan names its manifests, and is UTF-8."""
    (tmp_path / os.fsdecode(b"z\xff.yaml")).write_text(HOST)
    with pytest.raises(ManifestError) as e:
        load([tmp_path])
    (finding,) = e.value.diagnostics
    assert finding.code == "file.name"
    assert str(finding.span).encode().decode() == f"{tmp_path}/z\ufffd.yaml:1:1"


def test_no_path_is_an_error() -> None:
    with pytest.raises(ManifestError) as e:
        load([])
    assert [d.code for d in e.value.diagnostics] == ["file.none"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(HOST, encoding="utf-8")
    path.chmod(0)
    with pytest.raises(ManifestError) as e:
        load([path])
    assert [d.code for d in e.value.diagnostics] == ["file.unreadable"]


@given(st.binary(max_size=300))
@settings(max_examples=150, deadline=None)
def test_bytes_never_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    load_or_refuse(tmp_path_factory, data)


PIECES = st.sampled_from(
    ["api_version: fleetctl/v1\n", "kind: Fleet\n", "kind: Host\n", "kind: Release\n", "kind: Compatibility\n", "name: a\n",
     "product: p\n", "version: 1.0.0\n", "groups:\n", "- ", "  ", "\t", "{", "}", "[", "]", ": ", ", ", "&a ", "*a", "<<: ",
     "!!python/x ", "! ", "? ", "|\n", ">\n", "'", '"', "#", "---\n", "...\n", "%YAML 1.1\n", "null", "~", "1.10", "{{ vars.x }}",
     "{{ node.name }}", "{% for %}", "{%", "pairs: [{from: 1.0.0, to: 1.0.0, mode: rolling}]\n", "process:", "env:", "count: 3\n",
     "ssh: {address: x}\n", "nodes: [{name: x}]", "\n", "\u2028", "é", "\U0001f600", "0644", "labels: {a: b}\n", "root: x\n",
     "artifacts: [{substrate: host, source: x, digest: y}]\n"],
)  # fmt: skip


@given(st.lists(PIECES, max_size=40).map("".join))
@settings(max_examples=400, deadline=None)
def test_near_yaml_never_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    load_or_refuse(tmp_path_factory, text.encode())


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_damaged_manifests_never_raise_anything_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """A good manifest with some lines repeated, dropped, or cut short."""
    lines = STANDARD.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        way = data.draw(st.sampled_from(["drop", "repeat", "cut", "replace"]))
        cut = data.draw(st.integers(0, len(lines[at])))
        lines[at] = {
            "drop": "",
            "repeat": lines[at] * 2,
            "cut": lines[at][:cut],
            "replace": lines[at][:cut] + data.draw(PIECES),
        }[way]
    load_or_refuse(tmp_path_factory, "".join(lines).encode())


def load_or_refuse(factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    path = folder / "m.yaml"
    path.write_bytes(data)
    try:
        load([path], variables={"x": "1"})
    except ManifestError as e:
        assert any(d.is_error for d in e.diagnostics)
        for d in e.diagnostics:
            assert d.code
            assert d.summary
            assert "pydantic" not in d.detail
            assert "Input should" not in d.detail


def test_paths_are_relative_to_the_file_that_wrote_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, over = tmp_path / "base", tmp_path / "over"
    base.mkdir()
    over.mkdir()
    (base / "hello.sh").write_text("x", encoding="utf-8")
    (over / "b.conf").write_text("b", encoding="utf-8")
    (base / "a.conf").write_text("a", encoding="utf-8")
    text = STANDARD.replace(
        "env: {GREETING: hello}",
        "env: {S: {secret: file:s}, E: {secret: env:S}, V: {value: {secret: file:v}, on_change: reload}}\n"
        "      files: [{path: a, source: a.conf}, {path: k, secret: file:k}]",
    )
    (base / "m.yaml").write_text(text, encoding="utf-8")
    (over / "m.yaml").write_text(
        "api_version: fleetctl/v1\nkind: Fleet\nname: edge\ngroups: [{name: web, process: {files: [{path: b, source: b.conf}]}}]\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    manifests = load(["base/m.yaml", "over"])
    assert manifests.releases["hello", "1.0.0"].artifacts[0].source == str(base / "hello.sh")
    process = manifests.fleets["edge"].groups[0].process
    assert [f.source for f in process.files] == [str(base / "a.conf"), None, str(over / "b.conf")]
    assert process.files[1].secret == f"file:{base / 'k'}"
    assert process.env["S"] == SecretValue(secret=f"file:{base / 's'}")
    assert process.env["E"] == SecretValue(secret="env:S")
    assert process.env["V"] == EnvVar(value=SecretValue(secret=f"file:{base / 'v'}"), on_change="reload")
    assert manifests.hosts["localhost"].root == str(base / ".fleetctl" / "host")
    assert manifests.digests == {
        "base/m.yaml": sha256(text.encode()),
        "over/m.yaml": sha256((over / "m.yaml").read_bytes()),
        str(base / "a.conf"): sha256(b"a"),
        str(over / "b.conf"): sha256(b"b"),
    }


def test_the_place_of_every_value_is_known_after_loading(tmp_path: Path) -> None:
    (tmp_path / "hello.sh").write_text("x", encoding="utf-8")
    path = tmp_path / "m.yaml"
    path.write_text(STANDARD, encoding="utf-8")
    manifests = load([path])
    where = manifests.where
    assert str(where(("Fleet", "edge"), ("groups", 0, "port"))) == f"{path}:25:11"
    assert str(where(("Fleet", "edge"), ("groups", 0, "health", "tcp", "port"))) == f"{path}:29:13"
    assert str(where(("Release", "hello@1.0.0"), ("artifacts", 0, "digest"))) == f"{path}:6:62"
    assert str(where(("Compatibility", "hello#0"), ("pairs", 0, "to"))) == f"{path}:12:25"
    assert where(("Host", "localhost"), ()) is None


def test_a_refused_budget_has_the_exit_code_of_a_refusal(tmp_path: Path) -> None:
    """25% of 3 is refused when it is planned; a manifest that cannot be read at all is an error."""
    (tmp_path / "hello.sh").write_text("x", encoding="utf-8")
    path = tmp_path / "m.yaml"
    for change, code in (("25%", ExitCode.REFUSED), ("25", None), ("x", ExitCode.ERROR)):
        path.write_text(
            STANDARD.replace("max_unavailable: 1", f"max_unavailable: {change}"), encoding="utf-8"
        )
        try:
            load([path])
            seen = None
        except ManifestError as e:
            seen = e.exit_code
        assert seen == code, change


def test_findings_are_in_the_order_of_the_files_and_their_lines(tmp_path: Path) -> None:
    first, second = tmp_path / "z.yaml", tmp_path / "a.yaml"
    first.write_text(HOST + "root: 5\nlabels: {a: 1.0}\nnmae: x\n", encoding="utf-8")
    second.write_text("kind: Host\n", encoding="utf-8")
    with pytest.raises(ManifestError) as e:
        load([first, second])
    assert [str(d.span) for d in e.value.diagnostics] == [
        f"{first}:4:7", f"{first}:5:13", f"{first}:6:1", f"{second}:1:1", f"{second}:1:1",
    ]  # fmt: skip


def test_a_long_chain_of_aliases_ends_in_a_finding(tmp_path: Path) -> None:
    """Few values, and deeper than any stack."""
    text = "a0: &a0 {k: v}\n" + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}}}\n" for i in range(1, 1000))
    (found,) = findings(text.encode(), tmp_path)
    assert found.code == "yaml.too-deep"


def test_a_secret_that_was_written_out_is_not_repeated(tmp_path: Path) -> None:
    text = STANDARD.replace("{GREETING: hello}", "{A: {secret: hunter2}, B: {secret: 'env:not a hunter2'}}")
    for found in findings(text.encode(), tmp_path):
        assert "hunter2" not in f"{found.summary} {found.detail} {found.hint}"
