"""Secrets are resolved when used, and no error shows a value."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from executors.secrets import SECRET_MAX_B, SecretError, resolve


def test_a_variable_and_a_file_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2\n")
    (tmp_path / "key").write_text("line one\nline two\n")
    assert resolve("env:DB_PASSWORD").reveal() == "hunter2\n"
    assert resolve(f"file:{tmp_path}/key").reveal() == "line one\nline two"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("env:NOT_SET_ANYWHERE", "NOT_SET_ANYWHERE is not set"),
        ("file:/no/such/file", "No such file"),
        ("file:/proc", "directory"),
        ("vault:x", "not a reference"),
        ("plain text", "not a reference"),
    ],
)
def test_what_cannot_be_resolved_says_which_reference(reference: str, message: str) -> None:
    with pytest.raises(SecretError, match=message) as error:
        resolve(reference)
    assert reference in error.value.message


def test_an_empty_secret_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "")
    with pytest.raises(SecretError, match="is empty"):
        resolve("env:EMPTY")


def test_a_file_that_is_no_text_or_too_large_is_refused_without_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"hunter2\xff")
    with pytest.raises(SecretError, match="not UTF-8") as error:
        resolve(f"file:{tmp_path}/binary")
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__
    with (tmp_path / "large").open("wb") as file:
        file.truncate(SECRET_MAX_B + 1)
    with pytest.raises(SecretError, match="larger"):
        resolve(f"file:{tmp_path}/large")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read the file")
def test_an_unreadable_file_says_so(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("hunter2")
    key.chmod(0o600)
    os.seteuid(65534)
    try:
        with pytest.raises(SecretError, match="cannot be read: Permission denied"):
            resolve(f"file:{key}")
    finally:
        os.seteuid(0)
