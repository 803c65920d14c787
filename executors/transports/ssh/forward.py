"""A Unix socket of the remote host as one on this machine: for the Docker and libvirt clients.

Every local connection becomes one channel (direct-streamlocal@openssh.com, OpenSSH PROTOCOL 2.4), so
host keys, jumps and deadlines are those of our own connection.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from executors.transport import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

_CHUNK_B = 65_536


def open_unix(transport: paramiko.Transport, path: str, timeout_s: float) -> paramiko.Channel:
    """A channel to a Unix socket on the host. Raises TransportError."""
    import paramiko
    from paramiko.common import cMSG_CHANNEL_OPEN

    # paramiko can open only the kinds it knows; the request of this one has a path where they have addresses.
    internals: Any = transport
    with internals.lock:
        number = internals._next_channel()
        window = internals._sanitize_window_size(None)
        packet = internals._sanitize_packet_size(None)
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_OPEN)
        message.add_string("direct-streamlocal@openssh.com")
        message.add_int(number)
        message.add_int(window)
        message.add_int(packet)
        message.add_string(path)
        message.add_string("")
        message.add_int(0)
        channel: Any = paramiko.Channel(number)
        internals._channels.put(number, channel)
        internals.channel_events[number] = event = threading.Event()
        internals.channels_seen[number] = True
        channel._set_transport(internals)
        channel._set_window(window, packet)
    internals._send_user_message(message)
    if not event.wait(timeout_s):
        raise TransportError(f"the SSH server did not answer within {timeout_s:g} s when asked for {path}")
    opened = internals._channels.get(number)
    if opened is None:
        why = internals.get_exception()
        raise TransportError(
            f"{path} cannot be reached through SSH: {why or 'refused'}",
            hint="the login user needs rights on that socket, and sshd must allow stream forwarding",
        )
    return cast("paramiko.Channel", opened)


class Forward:
    """A listening Unix socket in a private folder; `path` is where local clients connect.

    `opener` gives a new channel to the remote socket; it is called once for each local connection.
    """

    def __init__(self, opener: Callable[[], paramiko.Channel]) -> None:
        self._opener = opener
        self._folder = tempfile.TemporaryDirectory(prefix="fleetctl-")
        self.path = Path(self._folder.name) / "socket"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._closed = False
        threading.Thread(target=self._accept, name="ssh-forward", daemon=True).start()

    def close(self) -> None:
        """Stops listening; connections that are open end with the SSH connection."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        while not self._closed:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(local,), name="ssh-forward", daemon=True).start()

    def _serve(self, local: socket.socket) -> None:
        try:
            channel = self._opener()
        except TransportError:
            local.close()  # the client sees the end of the stream, and its own error names the socket
            return
        with contextlib.suppress(OSError, EOFError):
            _pump(local, channel)
        local.close()
        with contextlib.suppress(OSError, EOFError):  # the connection may have ended first
            channel.close()


def _pump(local: socket.socket, channel: paramiko.Channel) -> None:
    """Copies both ways until both directions ended; half-closed streams stay open the other way."""
    with selectors.DefaultSelector() as selector:
        selector.register(local, selectors.EVENT_READ)
        selector.register(channel, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if key.fileobj is local:
                    data = local.recv(_CHUNK_B)
                    if data:
                        channel.sendall(data)
                    else:
                        channel.shutdown_write()
                        selector.unregister(local)
                else:
                    data = channel.recv(_CHUNK_B)
                    if data:
                        local.sendall(data)
                    else:
                        local.shutdown(socket.SHUT_WR)
                        selector.unregister(channel)
