"""The nodes' program: a small HTTP server, made into one artifact per version and behaviour.

Raw sockets keep its start quick. Behaviours: `good`; `exits` (ends at once with status 3); `sick` (answers 503 on
/health); `stubborn` (ignores SIGTERM);
`gated:PATH` (as `sick` until there is a file PATH followed by its port).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

SOURCE = """\
import os, signal, socket, sys, threading

VERSION = "@VERSION@"
BEHAVIOUR = "@BEHAVIOUR@"
port = int(sys.argv[1])
print("program", VERSION, "starts on", port, flush=True)
if BEHAVIOUR == "exits":
    print("\\x1b[31mcannot go on\\x1b[0m", flush=True)
    sys.exit(3)

server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("127.0.0.1", port))
server.listen(64)

def stop(*_):
    print("drained", flush=True)
    os._exit(0)

signal.signal(signal.SIGTERM, signal.SIG_IGN if BEHAVIOUR == "stubborn" else stop)
signal.signal(signal.SIGHUP, lambda *_: print("reloaded", flush=True))

def serve(connection):
    with connection:
        connection.settimeout(5)
        try:
            line = connection.recv(4096).decode().split(" ")[1]
        except (OSError, IndexError):
            return
        status, body = "200 OK", VERSION
        if line == "/health":
            body = "ok"
            closed = BEHAVIOUR.startswith("gated:") and not os.path.exists(f"{BEHAVIOUR[6:]}{port}")
            if BEHAVIOUR == "sick" or closed:
                status, body = "503 Service Unavailable", "sick as a parrot"
        elif line == "/greeting":
            body = os.environ.get("GREETING", "")
        elif line == "/pid":
            body = str(os.getpid())
        head = f"HTTP/1.1 {status}\\r\\nContent-Length: {len(body)}\\r\\nConnection: close\\r\\n\\r\\n"
        try:
            connection.sendall((head + body).encode())
        except OSError:
            pass

while True:
    connection, _ = server.accept()
    threading.Thread(target=serve, args=(connection,), daemon=True).start()
"""


def source(version: str, behaviour: str = "good") -> bytes:
    """The bytes of the program of one version and behaviour."""
    return SOURCE.replace("@VERSION@", version).replace("@BEHAVIOUR@", behaviour).encode()


def write(path: Path, version: str, behaviour: str = "good") -> str:
    """Writes the program to `path` and gives its pin."""
    data = source(version, behaviour)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return "sha256:" + hashlib.sha256(data).hexdigest()
