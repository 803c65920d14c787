"""Resolves a secret reference to its value, at the moment it is used. No error ever shows a value."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from manifests.errors import FleetctlError
from manifests.secret import SCHEMES, Secret, SecretRef, parse_ref

# A secret past this is a file that was named by mistake.
SECRET_MAX_B = 2**20


class SecretError(FleetctlError):
    """A secret cannot be resolved: its variable is not set, or its file cannot be read."""

    code = "secret.unresolved"


def resolve(ref: str) -> Secret:
    """The value behind a reference (one trailing newline of a file or a program is dropped); raises SecretError.

    `env:NAME`, `file:PATH`, and by `executors.secrets_elsewhere` `command:ARGV`, `aws-sm:ID[#KEY]`, `aws-ssm:NAME`.
    """
    parsed = parse_ref(ref)
    if parsed is None:
        raise SecretError(
            f"{ref!r} is not a reference to a secret",
            hint="write " + " or ".join(f"{scheme}:…" for scheme in SCHEMES),
        )
    text = _text_of(parsed)
    if not text:
        raise SecretError(f"the secret {ref} is empty", hint="an empty secret is taken for a mistake")
    return Secret(text)


def remembering() -> Callable[[str], Secret]:
    """A `resolve` that asks for each reference once: for one run, which must see one value throughout."""
    lock = Lock()
    known: dict[str, Secret] = {}

    def once(ref: str) -> Secret:
        with lock:
            if ref not in known:
                known[ref] = resolve(ref)
            return known[ref]

    return once


def _text_of(ref: SecretRef) -> str:
    if ref.scheme == "env":
        return _from_environment(ref)
    if ref.scheme == "file":
        return _from_file(ref)
    from executors import secrets_elsewhere

    match ref.scheme:
        case "command":
            return secrets_elsewhere.from_command(ref)
        case "aws-sm":
            return secrets_elsewhere.from_secrets_manager(ref)
        case _:
            return secrets_elsewhere.from_parameter_store(ref)


def _from_environment(ref: SecretRef) -> str:
    value = os.environ.get(ref.locator)
    if value is None:
        raise SecretError(
            f"the secret {ref} is not there: the environment variable {ref.locator} is not set",
            hint=f"set {ref.locator} for this command, or change the reference",
        )
    return value


def _from_file(ref: SecretRef) -> str:
    path = Path(ref.locator).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(SECRET_MAX_B + 1)
    except OSError as e:
        raise SecretError(
            f"the secret {ref} cannot be read: {e.strerror or type(e).__name__}",
            hint=f"make {path} readable for this user, or change the reference",
        ) from None
    if len(data) > SECRET_MAX_B:
        raise SecretError(f"the secret {ref} is larger than {SECRET_MAX_B} bytes")
    try:
        # `from None`: a decoding error carries the bytes.
        text = data.decode()
    except UnicodeDecodeError:
        raise SecretError(f"the secret {ref} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
