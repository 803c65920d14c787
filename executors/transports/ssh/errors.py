"""What can go wrong before a command runs on an SSH host.

TransportError
├── SshConfigError       the ssh_config file cannot be read, or asks for what is not supported
├── HostKeyError
│   ├── HostKeyUnknown   no line for this host: shows the fingerprint and the line to add
│   ├── HostKeyChanged   the known key is another one, or of another type
│   └── HostKeyRevoked   the key is marked @revoked
├── AuthenticationError  no key was accepted: shows what was tried
├── HostBusy             the server closed before its banner (MaxStartups): try again
└── BecomeError          sudo did not let us: the command has not started
"""

from __future__ import annotations

from executors.transport import TransportError


class SshConfigError(TransportError):
    """The ssh_config file cannot be read, or asks for what is not supported."""

    code = "ssh.config"


class HostKeyError(TransportError):
    """The host did not prove that it is the one we know."""

    code = "ssh.host_key"


class HostKeyUnknown(HostKeyError):
    """No known_hosts line names this host."""

    code = "ssh.host_key_unknown"


class HostKeyChanged(HostKeyError):
    """known_hosts has another key for this host."""

    code = "ssh.host_key_changed"


class HostKeyRevoked(HostKeyError):
    """The host showed a key that known_hosts marks as revoked."""

    code = "ssh.host_key_revoked"


class AuthenticationError(TransportError):
    """The host accepted none of our keys."""

    code = "ssh.authentication"


class HostBusy(TransportError):
    """The host closed the connection before its banner, as sshd does past MaxStartups."""

    code = "ssh.busy"


class BecomeError(TransportError):
    """sudo refused, or asked for what we do not have; the command has not started."""

    code = "ssh.become"
