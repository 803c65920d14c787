"""SSH keys, certificates and known_hosts lines, made with ssh-keygen and thrown away with the test run."""

from __future__ import annotations

from pathlib import Path

from tests.lab.process import run

CERTIFICATE_VALIDITY = "-5m:+2d"


def make_key(path: Path, *, kind: str = "ed25519", comment: str = "fleetctl-lab") -> Path:
    """Make a key pair without passphrase at `path` and `path`.pub; the private key has mode 0600."""
    bits = ["-b", "2048"] if kind == "rsa" else []
    run(["ssh-keygen", "-q", "-t", kind, *bits, "-N", "", "-C", comment, "-f", path])
    return path


def public_line(private: Path) -> str:
    """`TYPE BASE64` of a key pair, without the comment."""
    return " ".join(private.with_name(f"{private.name}.pub").read_text().split()[:2])


def sign_host(authority: Path, private: Path, principals: list[str]) -> Path:
    """Sign a host key for the given names and addresses; returns the certificate's path."""
    run(
        [
            "ssh-keygen",
            "-q",
            "-s",
            authority,
            "-I",
            "host",
            "-h",
            "-n",
            ",".join(principals),
            *_validity(),
            _pub(private),
        ]
    )
    return private.with_name(f"{private.name}-cert.pub")


def sign_user(authority: Path, private: Path, principals: list[str]) -> Path:
    """Sign a user key for the given logins; returns the certificate's path, beside the key as clients expect."""
    run(
        [
            "ssh-keygen",
            "-q",
            "-s",
            authority,
            "-I",
            "user",
            "-n",
            ",".join(principals),
            *_validity(),
            _pub(private),
        ]
    )
    return private.with_name(f"{private.name}-cert.pub")


def known_hosts_name(address: str, port: int) -> str:
    """How known_hosts writes a host: the bare address on port 22, else `[address]:port`."""
    return address if port == 22 else f"[{address}]:{port}"


def known_hosts_line(address: str, port: int, key_line: str) -> str:
    """One line that trusts exactly this key for this address and port."""
    return f"{known_hosts_name(address, port)} {key_line}"


def _pub(private: Path) -> Path:
    return private.with_name(f"{private.name}.pub")


def _validity() -> list[str]:
    return ["-V", CERTIFICATE_VALIDITY]
