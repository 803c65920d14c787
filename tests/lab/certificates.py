"""A throw-away certificate authority, made with openssl: server and client certificates for TLS tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.lab.process import run

VALID_DAYS = "2"


@dataclass(frozen=True)
class Authority:
    """An authority in a directory of its own: `ca.pem` and its key."""

    directory: Path

    @property
    def certificate(self) -> Path:
        """The authority's certificate, which clients and servers trust."""
        return self.directory / "ca.pem"

    def issue(self, name: str, *, server: bool, addresses: tuple[str, ...] = ("127.0.0.1",)) -> Path:
        """Make a key and a certificate signed by this authority.

        Returns:
            A directory `name` with `ca.pem`, `cert.pem` and `key.pem`: the layout DOCKER_CERT_PATH asks for.
        """
        home = self.directory / name
        home.mkdir(mode=0o700)
        names = ",".join([*(f"IP:{address}" for address in addresses), "DNS:localhost"])
        usage = "serverAuth" if server else "clientAuth"
        (home / "ext").write_text(
            f"subjectAltName={names}\nextendedKeyUsage={usage}\nbasicConstraints=CA:FALSE\n"
        )
        new_key = [
            "openssl",
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ]
        run([*new_key, "-keyout", home / "key.pem", "-out", home / "csr", "-subj", f"/CN={name}"])
        sign = ["openssl", "x509", "-req", "-in", home / "csr", "-CA", self.certificate]
        sign += ["-CAkey", self.directory / "ca.key", "-CAcreateserial", "-days", VALID_DAYS]
        run([*sign, "-extfile", home / "ext", "-out", home / "cert.pem"])
        (home / "ca.pem").write_bytes(self.certificate.read_bytes())
        return home


def make_authority(directory: Path) -> Authority:
    """Make a fresh authority in `directory` (created, mode 0700)."""
    directory.mkdir(mode=0o700, parents=True)
    new_key = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ]
    paths = ["-keyout", directory / "ca.key", "-out", directory / "ca.pem"]
    run([*new_key, *paths, "-days", VALID_DAYS, "-subj", "/CN=fleetctl laboratory"])
    return Authority(directory)
