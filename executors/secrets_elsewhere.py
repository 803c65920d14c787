"""Secrets that are kept elsewhere: by a program of the operator's, or by AWS. No error ever shows a value.

command:pass show edge/db       the program's output; split as a shell would, run without one
aws-sm:prod/db                  a secret of AWS Secrets Manager, by name or ARN; #KEY picks a key of its JSON
aws-ssm:/prod/db/password       a parameter of AWS Systems Manager, decrypted
"""

from __future__ import annotations

import json
import os
import shlex
from typing import Any

from executors.clock import SystemClock
from executors.command import Command
from executors.secrets import SECRET_MAX_B, SecretError
from executors.transport import OutcomeLost, TransportError
from executors.transports.local import LocalTransport
from manifests.secret import SecretRef

# Time for a person to touch a key, not for one who went away.
COMMAND_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 5
_READ_TIMEOUT_S = 10
_TRIES = 3


def from_command(ref: SecretRef) -> str:
    """What the program prints. Neither its output nor its errors are shown: both may hold the value."""
    try:
        argv = tuple(shlex.split(ref.locator))
    except ValueError as e:
        raise SecretError(f"the command of a secret cannot be split into words: {e}") from None
    if not argv:
        raise SecretError("the command of a secret is empty", hint="write command:PROGRAM ARGUMENTS")
    # The operator's own program, with the operator's own environment: agents and tokens are found by it.
    transport = LocalTransport(SystemClock(), environ=os.environ)
    try:
        done = transport.run(Command(argv, timeout_s=COMMAND_TIMEOUT_S))
    except (TransportError, OutcomeLost) as e:
        # `from None`: what it said until then may hold the value.
        lost = isinstance(e, OutcomeLost)
        how = f"did not end within {COMMAND_TIMEOUT_S:g} s" if lost else "cannot be run"
        raise SecretError(
            f"the command {argv[0]!r} of a secret {how}", hint="run it yourself to see why"
        ) from None
    if not done.ok:
        raise SecretError(
            f"the command {argv[0]!r} of a secret ended with status {done.status}",
            hint="run it yourself to see why; what it says is not shown, since it may hold the value",
        )
    return _text(done.stdout, ref)


def from_secrets_manager(ref: SecretRef) -> str:
    """A secret's text, or one key of its JSON."""
    name, _, key = ref.locator.partition("#")
    found = _asked(ref, "secretsmanager", lambda c: c.get_secret_value(SecretId=name))
    text = found.get("SecretString")
    if text is None:
        return _text(found.get("SecretBinary", b""), ref)
    if not key:
        return str(text)
    try:
        value = json.loads(text)[key]
    except (ValueError, KeyError, TypeError):
        raise SecretError(
            f"the secret {ref.scheme}:{name} has no key {key!r}",
            hint="its value must be a JSON object with it",
        ) from None
    if not isinstance(value, str):
        raise SecretError(f"the key {key!r} of the secret {ref.scheme}:{name} is no text")
    return value


def from_parameter_store(ref: SecretRef) -> str:
    """A parameter's value, decrypted."""
    found = _asked(ref, "ssm", lambda c: c.get_parameter(Name=ref.locator, WithDecryption=True))
    return str(found["Parameter"]["Value"])


def _asked(ref: SecretRef, service: str, call: Any) -> Any:
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    config = Config(
        retries={"total_max_attempts": _TRIES, "mode": "standard"},
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=_READ_TIMEOUT_S,
    )
    try:
        session: Any = boto3.session.Session()
        return call(session.client(service, config=config))
    except ClientError as e:
        said = e.response.get("Error", {}).get("Code", "an error")
        raise SecretError(
            f"the secret {ref} cannot be read: AWS answers {said}",
            hint="check its name, the region and what the credentials may read",
        ) from None
    except (BotoCoreError, HTTPClientError, OSError, ValueError) as e:
        raise SecretError(
            f"the secret {ref} cannot be read: {type(e).__name__}",
            hint="check the AWS settings: credentials, AWS_DEFAULT_REGION, the network",
        ) from None


def _text(data: bytes, ref: SecretRef) -> str:
    # The reference of a command is as long as the command: its scheme tells enough.
    if len(data) > SECRET_MAX_B:
        raise SecretError(f"a secret of {ref.scheme} is larger than {SECRET_MAX_B} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise SecretError(f"a secret of {ref.scheme} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")
