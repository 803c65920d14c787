"""Secrets of a program's, and of AWS: resolved by what is really asked, and shown by no error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from executors import secrets_elsewhere
from executors.secrets import SECRET_MAX_B, SecretError, remembering, resolve
from tests.lab.s3 import ACCESS_KEY, REGION, S3, SECRET_KEY

CANARY = "canary-5d1e0b77"


def command(program: str, *args: str) -> str:
    return "command:" + shlex.join([sys.executable, "-c", program, *args])


# --- a program ------------------------------------------------------------------------------------------


def test_a_programs_output_is_the_secret_without_its_last_newline() -> None:
    assert resolve(command("print('one'); print('two')")).reveal() == "one\ntwo"


def test_words_are_split_as_a_shell_would_and_no_shell_runs_them() -> None:
    program = "import sys; print(sys.argv[1:])"
    assert resolve(command(program, "a b", "$HOME", ";", "`id`")).reveal() == "['a b', '$HOME', ';', '`id`']"


def test_the_program_has_the_operators_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_TOKEN", CANARY)
    assert resolve(command("import os; print(os.environ['VAULT_TOKEN'])")).reveal() == CANARY


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (command(f"import sys; print('{CANARY}'); sys.stderr.write('{CANARY}'); sys.exit(3)"), "status 3"),
        (command("pass"), "is empty"),
        (command(f"import sys; sys.stdout.buffer.write(b'{CANARY}' + bytes([255]))"), "not UTF-8"),
        (command(f"print('{CANARY}' + 'x' * {SECRET_MAX_B + 1})"), "larger than"),
        (command(f"print('{CANARY}' + 'x' * {8 * SECRET_MAX_B})"), "larger than"),
        ("command:no-such-program-anywhere x", "cannot be run"),
        ("command:'unbalanced", "split into words"),
    ],
)
def test_a_program_that_fails_is_an_error_without_what_it_said(reference: str, says: str) -> None:
    with pytest.raises(SecretError, match=says) as caught:
        resolve(reference)
    chain: list[BaseException] = []
    error: BaseException | None = caught.value
    while error is not None:
        chain.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if reference != command("pass"):
        for error in chain:
            assert CANARY not in str(error).replace(reference, "") or "is empty" in says
            assert CANARY + "x" not in str(error)


def test_a_program_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets_elsewhere, "COMMAND_TIMEOUT_S", 0.5)
    with pytest.raises(SecretError, match=r"did not end within 0\.5 s") as caught:
        resolve(command(f"import time; print('{CANARY}', flush=True); time.sleep(60)"))
    assert CANARY not in caught.value.message


def test_a_run_asks_for_each_secret_once(tmp_path: Path) -> None:
    program = "import sys; f = open(sys.argv[1], 'a'); f.write('x'); f.close(); print('value')"
    asked = remembering()
    assert [asked(command(program, str(tmp_path / "n"))).reveal() for _ in range(3)] == ["value"] * 3
    assert (tmp_path / "n").read_text() == "x"


# --- AWS ------------------------------------------------------------------------------------------------


@pytest.fixture
def aws(s3: S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server with Secrets Manager and Parameter Store, found as the AWS tools find theirs."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": s3.endpoint,
    }.items():
        monkeypatch.setenv(name, value)
    import boto3

    session: Any = boto3.session.Session()
    manager, parameters = session.client("secretsmanager"), session.client("ssm")
    manager.create_secret(Name="prod/db", SecretString=CANARY)
    manager.create_secret(Name="prod/json", SecretString=f'{{"password": "{CANARY}", "port": 5432}}')
    manager.create_secret(Name="prod/binary", SecretBinary=b"\xff" + CANARY.encode())
    parameters.put_parameter(Name="/prod/db", Value=CANARY, Type="SecureString")
    yield session
    for name in ("prod/db", "prod/json", "prod/binary"):
        manager.delete_secret(SecretId=name, ForceDeleteWithoutRecovery=True)
    parameters.delete_parameter(Name="/prod/db")


def test_aws_keeps_secrets_and_no_error_shows_them(aws: Any) -> None:
    assert resolve("aws-sm:prod/db").reveal() == CANARY
    assert resolve("aws-sm:prod/json#password").reveal() == CANARY
    assert resolve("aws-ssm:/prod/db").reveal() == CANARY
    for reference, says in (
        ("aws-sm:prod/none", "AWS answers ResourceNotFoundException"),
        ("aws-sm:prod/db#password", "no key 'password'"),
        ("aws-sm:prod/json#user", "no key 'user'"),
        ("aws-sm:prod/json#port", "no text"),
        ("aws-sm:prod/binary", "not UTF-8"),
        ("aws-ssm:/prod/none", "AWS answers ParameterNotFound"),
    ):
        with pytest.raises(SecretError, match=says) as caught:
            resolve(reference)
        assert CANARY not in caught.value.message
        assert caught.value.__cause__ is None


def test_without_a_region_it_says_what_to_set(aws: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    with pytest.raises(SecretError, match="NoRegionError") as caught:
        resolve("aws-sm:prod/db")
    assert "AWS_DEFAULT_REGION" in (caught.value.hint or "")
