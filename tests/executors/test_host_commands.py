"""Commands for a host are values: whole lines, compared."""

from __future__ import annotations

import subprocess

import pytest

from executors.host import commands
from executors.host.layout import Layout
from executors.host.placed import PlacedFile
from executors.host.process import PROCESS
from executors.host.shell import launch, octal, quote
from executors.host.supervisor import script
from manifests.schema.fleet import Data, Limits
from manifests.secret import Secret
from planner.plan import Precondition, StepKind
from planner.spec import ArtifactPin, FileSpec, NodeSpec, ReleaseIdentity, SecretUse
from tests.executors.places import operation

DIGEST = f"sha256:{'d' * 64}"
LAYOUT = Layout("/srv/it's")
SPEC = NodeSpec(
    substrate="host",
    host="h1",
    address="10.0.0.1",
    port=18080,
    product="app",
    version="1.0.0",
    artifact=ArtifactPin(source="/a/app", digest=DIGEST, name="app"),
    command=("app", "--name", "it's $HOME"),
    env={"A": "one", "S": SecretUse(secret="env:TOKEN")},
    files=(FileSpec(path="conf/app", content="x"),),
    data=Data(path="data"),
)
SECRETS = {"env:TOKEN": Secret("hunter2")}


def lines(command: commands.Command) -> list[str]:
    return command.stdin.decode().splitlines()


def test_an_effect_is_assignments_the_script_and_one_call() -> None:
    op = operation(
        StepKind.STOP,
        "aaaaaaaaaaaaaaaa",
        SPEC,
        operation_id="op-x",
        precondition=Precondition(generation=1, release=ReleaseIdentity(version="1.0.0", digest=DIGEST)),
        deadline_s=45.0,
    )
    command = commands.effect(LAYOUT, op, PROCESS, {}, ())
    assert command.argv == ("sh", "-s")
    assert (command.timeout_s, command.secret_input, command.guarded) == (45.0, True, True)
    text = lines(command)
    request = commands.request_digest(op)
    head = [
        "root='/srv/it'\\''s'",
        "uid='aaaaaaaaaaaaaaaa'",
        "fleet='f'",
        "node='n-aaaaaaaaaaaaaaaa'",
        "lineage='lineage-1'",
        "epoch='1'",
        "generation='1'",
        "operation='op-x'",
        "attempt='1'",
        "effect='stop'",
        f"request='{request}'",
        "version='1.0.0'",
        f"digest='{DIGEST}'",
    ]
    assert text[: len(head)] == head
    assert f"artifact='/srv/it'\\''s/artifacts/sha256/{'d' * 64}/app'" in text
    for line in ("signal='TERM'", "drain_cs='3000'", "pre='record'", "pre_generation='1'", "lock_cs='4500'"):
        assert line in text
    assert "place() { :; }" in text
    assert text[-1] == "main effect"


def test_a_reload_sends_the_reload_signal() -> None:
    op = operation(StepKind.RELOAD, "aaaaaaaaaaaaaaaa", SPEC.model_copy(update={"files": ()}))
    assert "signal='HUP'" in lines(commands.effect(LAYOUT, op, PROCESS, SECRETS, ()))


def test_a_create_places_every_file_with_its_sum() -> None:
    node = "/srv/it's/nodes/aaaaaaaaaaaaaaaa"
    file = PlacedFile("files.conf/app", f"{node}/conf/app", "0644", False, b"x")
    op = operation(StepKind.CREATE, "aaaaaaaaaaaaaaaa", SPEC)
    text = commands.effect(LAYOUT, op, PROCESS, SECRETS, (file,)).stdin.decode()
    place = text[text.rindex("place() {") :]
    assert place.startswith(
        "place() {\nplace_begin || return 1\nplace_data 'data' '' || return 1\nplace_own env '"
    )
    assert 'place_own env \'A="one"\nS="hunter2"\n\' || return 1\n' in place
    assert "place_text '/srv/it'\\''s/nodes/aaaaaaaaaaaaaaaa/conf/app' 0644 '' 'x' || return 1\n" in place
    assert "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  /srv/it'\\''s/nodes" in place
    assert place.endswith("place_end\n}\n\nmain effect\n")


def test_secrets_are_in_the_input_of_create_and_reload_only() -> None:
    for effect in (StepKind.START, StepKind.STOP, StepKind.DESTROY, StepKind.ADOPT):
        op = operation(effect, "aaaaaaaaaaaaaaaa", SPEC)
        assert b"hunter2" not in commands.effect(LAYOUT, op, PROCESS, SECRETS, ()).stdin
    op = operation(StepKind.CREATE, "aaaaaaaaaaaaaaaa", SPEC)
    assert "hunter2" not in repr(commands.lookup(LAYOUT, op, PROCESS))


def test_an_observation_is_the_script_and_one_call() -> None:
    command = commands.observe(LAYOUT)
    assert command.argv == ("sh", "-s")
    assert command.stdin.decode() == f"root='/srv/it'\\''s'\n{script('observe.sh')}main\n"
    assert not command.guarded


def test_the_last_lines_of_a_log_are_bounded() -> None:
    text = commands.logs(LAYOUT, "aaaaaaaaaaaaaaaa", 10**9).stdin.decode()
    assert text == (
        "cd '/srv/it'\\''s/nodes/aaaaaaaaaaaaaaaa' 2>/dev/null || exit 0\n"
        "if grep -q '^supervisor=systemd$' record 2>/dev/null; then\n"
        "  journalctl -u fleetctl-aaaaaaaaaaaaaaaa.service -n 2000 -o cat --no-pager 2>/dev/null\n"
        "else\n"
        "  cat log/1 log/current 2>/dev/null | tail -n 2000\n"
        "fi\n"
    )


def test_the_launch_script_is_folder_limits_environment_command() -> None:
    limits = Limits.model_construct(memory=1024 * 512, open_files=64, processes=9)
    op = operation(StepKind.CREATE, "aaaaaaaaaaaaaaaa", SPEC.model_copy(update={"limits": limits}))
    assert launch(LAYOUT, op).splitlines() == [
        "cd '/srv/it'\\''s/nodes/aaaaaaaaaaaaaaaa' || exit 126",
        "ulimit -v 512 || exit 126",
        "ulimit -n 64 || exit 126",
        "ulimit -u 9 2>/dev/null || ulimit -p 9 || exit 126",
        "set -a",
        ". ./env",
        "set +a",
        "exec app --name 'it'\"'\"'s $HOME'",
    ]


def test_the_same_id_with_other_fields_is_another_request() -> None:
    one = operation(StepKind.CREATE, "aaaaaaaaaaaaaaaa", SPEC, operation_id="x")
    other = operation(StepKind.CREATE, "aaaaaaaaaaaaaaaa", SPEC.model_copy(update={"version": "1.0.1"}))
    assert commands.request_digest(one) != commands.request_digest(other)


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]])
@pytest.mark.parametrize("text", ["", "it's", '$(id) `id` \\ " ! %s', "a\nb\n", "\x01\x7f\x81é\u2028", "'''"])
def test_a_quoted_text_comes_out_as_it_went_in(shell: list[str], text: str) -> None:
    done = subprocess.run(
        [*shell, "-s"], input=f"printf '%s' {quote(text)}".encode(), capture_output=True, check=True
    )
    assert done.stdout == text.encode()


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]])
def test_octal_bytes_come_out_as_they_went_in(shell: list[str]) -> None:
    data = bytes(range(256)) + b"\\0777%d"
    done = subprocess.run(
        [*shell, "-s"], input=f"printf '%b' {quote(octal(data))}".encode(), capture_output=True, check=True
    )
    assert done.stdout == data
