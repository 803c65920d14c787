"""Hosts: what is this machine, and what is not."""

from __future__ import annotations

from manifests.manifest import LOCALHOST
from manifests.rules.review import Review
from manifests.secret import parse_ref


def check(review: Review) -> None:
    """Every rule about hosts."""
    for host in review.manifests.hosts.values():
        key = ("Host", host.name)
        if host.ssh is None:
            continue
        if host.name == LOCALHOST:
            review.error(
                "host.localhost",
                "localhost is this machine",
                "It is always there, and is not reached through SSH.",
                key,
                ("ssh",),
                "give the SSH host another name",
            )
        if host.root is not None and not host.root.startswith("/"):
            review.error(
                "host.root",
                "A remote folder is not absolute",
                f'"{host.root}" depends on who logs in.',
                key,
                ("root",),
                "write an absolute path, such as /var/lib/fleetctl",
            )
        password = host.ssh.become.password if host.ssh.become is not None else None
        if password is not None and parse_ref(password.secret) is None:
            review.error(
                "secret.reference",
                "A secret's reference cannot be used",
                "A secret is named, never written: by a variable's name or a file's path.",
                key,
                ("ssh", "become", "password", "secret"),
                "write env:NAME, file:PATH, command:ARGV, aws-sm:ID or aws-ssm:NAME",
            )
