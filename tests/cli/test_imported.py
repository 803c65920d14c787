"""Documents for what runs already: they load, say what was read, and never hold a secret's value."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from executors.foreign import Foreign
from fleetctl.cli.imported import NotImportable, Wish, documents
from manifests.load import load
from manifests.manifest import Manifests

PIN = "sha256:" + "a" * 64
CANARY = "hunter2-canary"


def container(name: str = "web_1", **changes: Any) -> Foreign:
    facts: dict[str, Any] = {
        "name": name,
        "host": "localhost",
        "substrate": "docker",
        "running": True,
        "artifact": f"registry.invalid/app:1.2.3@{PIN}",
        "digest": PIN,
        "version": "1.2.3",
        "command": ("/app", "--port", "8080"),
        "env": {"MODE": "a: b", "DB_PASSWORD": CANARY},
        "port": 18080,
        "settings": {
            "network": "bridge",
            "port": 8080,
            "read_only": False,
            "init": False,
            "restart": "always",
        },
        "limits": {"memory": "1048576B"},
        "volumes": (("app_data", "/data"),),
        "stop": f"docker stop {name}",
    }
    return Foreign(**facts | changes)


def unit(**changes: Any) -> Foreign:
    facts: dict[str, Any] = {
        "name": "app",
        "host": "localhost",
        "substrate": "host",
        "running": True,
        "artifact": "/usr/local/bin/app",
        "digest": PIN,
        "version": "",
        "command": ("/usr/local/bin/app", "--port", "9000", "{{ not a template }}", "{% x"),
        "env": {},
        "user": "app",
        "stop": "systemctl disable --now app.service",
    }
    return Foreign(**facts | changes)


def loaded(tmp_path: Path, text: str) -> Manifests:
    (tmp_path / "artifacts").mkdir(exist_ok=True)
    (tmp_path / "artifacts" / "app").write_text("x")
    (tmp_path / "new.yaml").write_text(text)
    return load([tmp_path])


def test_containers_become_nodes_of_one_group(tmp_path: Path) -> None:
    things = [container(), container("web-2", port=18081)]
    text, fates = documents(things, Wish("shop", "app"))
    manifests = loaded(tmp_path, text)
    (group,) = manifests.fleets["shop"].groups
    assert [(n.name, n.port) for n in group.nodes or ()] == [("web-1", 18080), ("web-2", 18081)]
    assert group.process.command == ("/app", "--port", "8080")
    assert group.container is not None and group.container.port == 8080 and not group.container.read_only
    assert manifests.releases["app", "1.2.3"].artifacts[0].source == f"registry.invalid/app:1.2.3@{PIN}"
    assert CANARY not in text + str(fates)
    assert 'secret: "env:DB_PASSWORD"' in text
    assert fates[0].steps[0] == "on localhost: docker stop web_1"
    assert (
        "docker volume create fleetctl-" in fates[0].steps[1] and "-v app_data:/from:ro" in fates[0].steps[1]
    )
    assert "fleetctl apply --target node/shop/web-1" in fates[0].steps
    assert any("DB_PASSWORD" in text for text in fates[0].lost)


def test_a_unit_is_written_with_its_program_and_port_as_templates(tmp_path: Path) -> None:
    text, (fate,) = documents([unit()], Wish("app", "app", "2.0.0", port=9000))
    manifests = loaded(tmp_path, text)
    (group,) = manifests.fleets["app"].groups
    assert group.process.command[:3] == ("{{ artifact.path }}", "--port", "{{ node.port }}")
    rendered = [
        manifests.render(word, {"artifact": {"path": "/p"}, "node": {"port": 9000}})
        for word in group.process.command
    ]
    assert rendered == ["/p", "--port", "9000", "{{ not a template }}", "{% x"]
    assert fate.steps[0] == "bring /usr/local/bin/app of host/localhost to ./artifacts/app"


def test_other_settings_make_other_groups_and_versions_other_releases(tmp_path: Path) -> None:
    other = container("b", port=18090, version="1.3.0", artifact=f"r/app@{PIN}", env={})
    text, _ = documents([container("a"), other], Wish("shop", "app"))
    manifests = loaded(tmp_path, text)
    assert [(g.name, g.release and g.release.version) for g in manifests.fleets["shop"].groups] == [
        ("imported", None),
        ("imported-2", "1.3.0"),
    ]
    assert sorted(manifests.releases) == [("app", "1.2.3"), ("app", "1.3.0")]


@pytest.mark.parametrize(
    ("things", "said"),
    [
        ([container(version="latest")], "no exact version"),
        ([unit()], "does not say its version"),
        ([container("a"), container("A")], "two nodes would be called a"),
        ([container("a"), container("b", digest="sha256:" + "b" * 64)], "other bytes under the same version"),
        ([container("___")], "gives no name"),
    ],
)
def test_what_cannot_be_written_is_refused(things: list[Foreign], said: str) -> None:
    with pytest.raises(NotImportable, match=said):
        documents(things, Wish("shop", "app"))


words = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(words, min_size=1, max_size=4),
    st.dictionaries(st.from_regex(r"\A[A-Z][A-Z_]{0,8}\Z"), words, max_size=3),
)
def test_whatever_was_read_is_written_so_that_it_means_that(command: list[str], env: dict[str, str]) -> None:
    text, _ = documents([container(command=tuple(command), env=env)], Wish("shop", "app"))
    with tempfile.TemporaryDirectory() as folder:
        manifests = loaded(Path(folder), text)
    (group,) = manifests.fleets["shop"].groups
    assert [manifests.render(word, {}) for word in group.process.command] == command
    for name, value in env.items():
        given_value = group.process.env[name]
        if isinstance(given_value, str):
            assert manifests.render(given_value, {}) == value
