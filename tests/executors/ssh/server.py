"""An SSH server in this process that really runs commands, and can misbehave in named ways."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import paramiko


@dataclass
class Faults:
    """How the server misbehaves: each is off by default."""

    drop_before_banner: int = 0  # this many connections are closed at once
    drop_after_output: bool = False  # the connection ends after the command's output, without a status
    no_status: bool = False  # the channel closes without a status
    exit_signal: bool = False  # an exit-signal instead of a status


@dataclass
class Server(paramiko.ServerInterface):
    """Listens on 127.0.0.1; `path` is put before PATH for commands; `commands` are those that were run."""

    faults: Faults = field(default_factory=Faults)
    path: Path | None = None
    commands: list[str] = field(default_factory=list)
    connections: int = 0
    address: str = "127.0.0.1"
    accepts: set[bytes] | None = None  # public keys that may log in; None: all

    def __post_init__(self) -> None:
        self.host_key = paramiko.ECDSAKey.generate()
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        self._listener = socket.create_server((self.address, 0), family=family)
        self.port = int(self._listener.getsockname()[1])
        self._transports: list[paramiko.Transport] = []
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def known_hosts_line(self) -> str:
        return f"[{self.address}]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"

    def close(self) -> None:
        # Only this wakes the thread that waits in accept(): left there, it may go on with a descriptor of that number
        # that belongs to somebody else by then.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(10)
        self._listener.close()
        for transport in self._transports:
            transport.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                if self.faults.drop_before_banner > 0:
                    self.faults.drop_before_banner -= 1
                    sock.close()
                    continue
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                transport = paramiko.Transport(sock)
                transport.add_server_key(self.host_key)
                self._transports.append(transport)
                with contextlib.suppress(paramiko.SSHException, EOFError):
                    transport.start_server(event=threading.Event(), server=self)

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if self.accepts is None or key.asbytes() in self.accepts:
            return paramiko.AUTH_SUCCESSFUL
        return paramiko.AUTH_FAILED

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        self.commands.append(command.decode())
        threading.Thread(target=self._run, args=(channel, command.decode()), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: str) -> None:
        env = dict(os.environ)
        if self.path is not None:
            env["PATH"] = f"{self.path}:{env['PATH']}"
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,
        )
        streams = [
            threading.Thread(target=_copy_in, args=(channel, process), daemon=True),
            threading.Thread(target=_copy_out, args=(process.stdout, channel.sendall)),
            threading.Thread(target=_copy_out, args=(process.stderr, channel.sendall_stderr)),
        ]
        for stream in streams:
            stream.start()
        for stream in streams[1:]:
            stream.join()
        status = process.wait()
        if self.faults.drop_after_output:
            time.sleep(0.05)
            channel.get_transport().close()
        elif self.faults.exit_signal:
            message = paramiko.Message()
            message.add_byte(paramiko.common.cMSG_CHANNEL_REQUEST)
            message.add_int(channel.remote_chanid)
            message.add_string("exit-signal")
            message.add_boolean(False)
            message.add_string("KILL")
            message.add_boolean(False)
            message.add_string("")
            message.add_string("")
            channel.get_transport()._send_user_message(message)
            channel.close()
        else:
            if not self.faults.no_status:
                channel.send_exit_status(status)
            channel.close()


def _copy_in(channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        while data := channel.recv(32768):
            process.stdin.write(data)
            process.stdin.flush()
        process.stdin.close()


def _copy_out(stream: object, send: object) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(stream.fileno(), 32768):  # type: ignore[attr-defined]
            send(data)  # type: ignore[operator]
