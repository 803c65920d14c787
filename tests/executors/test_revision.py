"""A revision reads like a folder: what git has of it, where the working tree has it, and nothing behind links."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from executors.git import GitError, Repository
from executors.revision import Revision
from manifests.digest import sha256
from manifests.errors import ManifestError
from manifests.load import Disk, load
from tests.acceptance.repository import GitRepository

HOST = "api_version: fleetctl/v1\nkind: Host\nname: h1\nroot: {root}\n"


@pytest.fixture
def made(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "repository")
    (repository.path / "real").mkdir()
    repository.write({"real/inner.yaml": HOST.format(root="/inner")})
    (repository.path / "link.yaml").symlink_to("real/inner.yaml")
    (repository.path / "folder").symlink_to("real")
    repository.commit({"a.yaml": HOST.format(root="/then"), "notes.txt": "not YAML", "sub/x.yaml": "x"})
    return repository


def revision(made: GitRepository, name: str = "HEAD") -> Revision:
    repository = Repository(str(made.path), made.environment())
    commit = repository.commit(name)
    assert commit is not None
    return Revision(repository, commit, name, Disk())


def at(made: GitRepository, name: str) -> str:
    return str(made.path / name)


def test_what_was_committed_is_read_and_not_what_lies_there(made: GitRepository) -> None:
    made.write({"a.yaml": "changed", "b.yaml": "new"})
    files = revision(made)
    assert files.read(at(made, "a.yaml"), 1000)[0].decode() == HOST.format(root="/then")
    assert sorted(files.listed(str(made.path))) == [
        "a.yaml",
        "folder",
        "link.yaml",
        "notes.txt",
        "real",
        "sub",
    ]
    assert files.is_folder(at(made, "sub"))
    assert not files.is_folder(at(made, "a.yaml"))
    assert files.there(at(made, "sub/x.yaml"))
    assert not files.there(at(made, "b.yaml"))
    with pytest.raises(FileNotFoundError):
        files.read(at(made, "b.yaml"), 1000)
    with pytest.raises(IsADirectoryError):
        files.read(at(made, "sub"), 1000)
    with pytest.raises(FileNotFoundError):
        files.read(at(made, "a.yaml/x"), 1000)


def test_pins_are_those_of_the_committed_bytes(made: GitRepository) -> None:
    pin = sha256((made.path / "notes.txt").read_bytes())
    made.write({"notes.txt": "changed"})
    files = revision(made)
    assert files.pin(at(made, "notes.txt")) == pin
    assert files.pin(at(made, "gone.txt")) is None
    assert files.pin(at(made, "link.yaml")) is None


@pytest.mark.parametrize("name", ["link.yaml", "folder", "folder/inner.yaml"])
def test_links_are_refused_in_words(made: GitRepository, name: str) -> None:
    with pytest.raises(OSError, match="symbolic link in HEAD, which is not followed") as caught:
        revision(made).read(at(made, name), 1000)
    assert caught.value.errno == errno.ELOOP
    with pytest.raises(ManifestError) as found:
        load([at(made, name)], files=revision(made))
    assert "symbolic link" in found.value.diagnostics[0].detail


def test_submodules_are_refused_in_words(made: GitRepository, tmp_path: Path) -> None:
    inner = GitRepository(tmp_path / "inner")
    inner.commit({"fleet.yaml": "x"})
    made.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "inner")
    made.commit({}, "a submodule")
    with pytest.raises(OSError, match="a submodule in HEAD"):
        revision(made).read(at(made, "inner/fleet.yaml"), 1000)


def test_a_file_that_is_too_large_is_not_read(made: GitRepository) -> None:
    with pytest.raises(OSError, match="too many for a manifest"):
        revision(made).read(at(made, "a.yaml"), 10)


def test_two_names_of_the_same_bytes_are_two_files(made: GitRepository) -> None:
    made.commit({"one/a.yaml": HOST.format(root="/x"), "two/a.yaml": HOST.format(root="/x")})
    files = revision(made)
    assert files.read(at(made, "one/a.yaml"), 1000)[1] != files.read(at(made, "two/a.yaml"), 1000)[1]
    # The later layer is laid over the earlier one, and none of them is called the same file.
    assert load([at(made, "one"), at(made, "two")], files=files).hosts["h1"].root == "/x"


def test_names_that_git_would_quote(made: GitRepository) -> None:
    strange = 'ü "quoted"\tand\nnewline.yaml'
    made.commit({strange: HOST.format(root="/strange")})
    files = revision(made)
    assert strange in files.listed(str(made.path))
    assert b"/strange" in files.read(at(made, strange), 1000)[0]


def test_many_files_of_a_folder_are_what_they_are_one_by_one(made: GitRepository) -> None:
    """They are read by one call of git; empty ones and those without a last newline too."""
    texts = {f"many/{n}.yaml": "x" * n for n in range(40)} | {"many/nul.yaml": "a\0b\n\n"}
    made.commit(texts)
    files = revision(made)
    files.listed(at(made, "many"))
    assert {n: files.read(at(made, n), 1000)[0].decode() for n in texts} == texts


def test_what_lies_outside_is_read_from_this_machine(made: GitRepository, tmp_path: Path) -> None:
    (tmp_path / "shared.yaml").write_text("shared")
    files = revision(made)
    assert files.read(str(tmp_path / "shared.yaml"), 100)[0] == b"shared"
    assert files.there(str(tmp_path / "shared.yaml"))


@pytest.fixture
def linked(made: GitRepository, tmp_path: Path) -> Iterator[Path]:
    """The repository by another way, as on machines whose folders are links."""
    link = tmp_path / "another-way"
    link.symlink_to(made.path)
    yield link


def test_a_path_through_a_link_to_the_repository_is_inside(made: GitRepository, linked: Path) -> None:
    assert b"/then" in revision(made).read(str(linked / "a.yaml"), 1000)[0]


def test_relative_paths_are_relative_to_where_we_are(
    made: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(made.path / "sub")
    assert revision(made).read("../a.yaml", 1000)[0] == revision(made).read(at(made, "a.yaml"), 1000)[0]


def test_revisions_and_their_meeting(made: GitRepository) -> None:
    repository = Repository(str(made.path / "sub"), made.environment())
    first = repository.commit("main")
    assert repository.top == os.path.realpath(made.path)
    assert repository.commit("no-such") is None
    assert repository.commit("--all") is None
    assert repository.commit("main:a.yaml") is None
    made.git("checkout", "--quiet", "-b", "topic")
    topic = made.commit({"t.yaml": "t"})
    assert first is not None
    assert repository.merge_base("main", topic) == first
    assert not repository.shallow()


def test_no_repository_and_no_git_are_told_apart(tmp_path: Path) -> None:
    outside = GitRepository(tmp_path / "r").environment({"GIT_CEILING_DIRECTORIES": str(tmp_path)})
    (tmp_path / "plain").mkdir()
    with pytest.raises(GitError, match="not inside a git repository") as caught:
        Repository(str(tmp_path / "plain"), outside)
    assert caught.value.hint
    with pytest.raises(GitError, match="cannot be run") as missing:
        Repository(str(tmp_path / "r"), {"PATH": str(tmp_path / "plain")})
    assert missing.value.code == "git.missing"


def test_a_bare_repository_has_no_working_tree(tmp_path: Path, made: GitRepository) -> None:
    made.git("clone", "--quiet", "--bare", str(made.path), str(tmp_path / "bare.git"))
    with pytest.raises(GitError, match="working tree"):
        Repository(str(tmp_path / "bare.git"), made.environment())
