"""Authentication by public key: agent first, then identity files, each tried once.

An encrypted key is asked for by prompt, where there is somebody to ask, or left to the agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from executors.transports.ssh.errors import AuthenticationError

if TYPE_CHECKING:
    import paramiko

AskPassphrase = Callable[[str], str | None]
"""Asks a person for a key's passphrase; the argument says which key. None: nobody is there to ask."""

_DEFAULTS = ("id_ed25519", "id_ecdsa", "id_rsa")


@dataclass(frozen=True, slots=True)
class Identities:
    """Which keys to offer: files in order, whether only those, and the agent's socket (None: the environment's)."""

    files: tuple[Path, ...] = ()
    only_files: bool = False
    agent: str | None = None
    pubkey_algorithms: tuple[str, ...] | None = None


def authenticate(
    transport: paramiko.Transport, user: str, identities: Identities, ask: AskPassphrase, host: str
) -> None:
    """Authenticates as `user`, or raises AuthenticationError that says what was tried."""
    import paramiko

    tried: list[str] = []
    for label, key in _candidates(identities, ask, tried):
        try:
            transport.auth_publickey(user, key)
        except paramiko.BadAuthenticationType as e:
            raise AuthenticationError(
                f"{host}: {user} may not log in with a key (allowed: {', '.join(e.allowed_types)})"
            ) from e
        except paramiko.AuthenticationException as e:
            tried.append(f"{label}: {_why(transport, key, e)}")
        else:
            if transport.is_authenticated():
                return
            tried.append(f"{label}: accepted, but the host wants more than a key")
    what = "; ".join(tried) if tried else "there is no agent and no identity file"
    raise AuthenticationError(
        f"{host}: no key was accepted for user {user}: {what}",
        hint="add the key to the host's authorized_keys, set ssh.identity_file or ssh.user, or load the key into the agent; "
        "for a server that knows only one RSA signature set ssh.pubkey_algorithms, such as [rsa-sha2-256]",
    )


def _why(transport: paramiko.Transport, key: paramiko.PKey, error: Exception) -> str:
    extensions: dict[str, bytes] = getattr(transport, "server_extensions", {})
    offered = extensions.get("server-sig-algs", b"").decode("ascii", "replace")
    text = f"refused ({key.get_name()}"
    if key.get_name() == "ssh-rsa":
        text += f", signatures the server announces: {offered or 'none announced'}"
    return text + ")" + (f": {error}" if str(error) not in ("", "Authentication failed.") else "")


def _candidates(
    identities: Identities, ask: AskPassphrase, tried: list[str]
) -> Iterator[tuple[str, paramiko.PKey]]:
    import paramiko

    if not identities.only_files and identities.agent != "none":
        for agent_key in _agent_keys(identities.agent):
            comment = getattr(agent_key, "comment", "") or agent_key.fingerprint
            yield f"agent key {comment}", agent_key
    explicit = bool(identities.files)
    files = identities.files or tuple(Path.home() / ".ssh" / name for name in _DEFAULTS)
    for file in files:
        try:
            key = _load(file, ask)
        except FileNotFoundError:
            if explicit:
                tried.append(f"{file}: there is no such file")
            continue
        except PermissionError:
            tried.append(f"{file}: may not be read")
        except (OSError, paramiko.SSHException, ValueError) as e:
            tried.append(f"{file}: {e}")
        else:
            if key is None:
                tried.append(
                    f"{file}: encrypted, and nobody is there to ask for its passphrase (use the agent)"
                )
            else:
                yield str(file), key


def _agent_keys(socket_path: str | None) -> tuple[paramiko.AgentKey, ...]:
    import os

    import paramiko

    if socket_path and socket_path != "SSH_AUTH_SOCK":
        # paramiko finds the agent by this variable alone; ours is a per-host setting.
        previous = os.environ.get("SSH_AUTH_SOCK")
        os.environ["SSH_AUTH_SOCK"] = socket_path
        try:
            return tuple(paramiko.Agent().get_keys())
        except paramiko.SSHException:
            return ()
        finally:
            if previous is None:
                del os.environ["SSH_AUTH_SOCK"]
            else:
                os.environ["SSH_AUTH_SOCK"] = previous
    try:
        return tuple(paramiko.Agent().get_keys())
    except paramiko.SSHException:
        return ()


def _load(file: Path, ask: AskPassphrase) -> paramiko.PKey | None:
    """The key in the file; None when it is encrypted and nobody answers."""
    import paramiko

    file.stat()  # so that a missing file is told apart from a damaged key
    load = cast("Callable[..., paramiko.PKey]", paramiko.PKey.from_path)  # the stubs know an older signature
    try:
        return load(file)
    except paramiko.PasswordRequiredException:
        pass
    except TypeError as e:
        # cryptography says so of an encrypted key in the traditional formats.
        if "encrypt" not in str(e) and "assword" not in str(e):
            raise ValueError(str(e)) from e
    passphrase = ask(f"passphrase for {file}")
    if passphrase is None:
        return None
    try:
        return load(file, password=passphrase.encode())
    except ValueError as e:
        raise ValueError("the passphrase is wrong, or the key is damaged") from e
