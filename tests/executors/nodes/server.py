"""A node for tests: a small HTTP server that counts its own starts and reloads in its data folder.

Settings come by environment: DATA (folder), PORT, and for faults EXIT (exit at once with this status),
STUBBORN (ignore SIGTERM), CHATTY (write this many lines before serving).
"""

import os
import signal
import socket
import sys
from pathlib import Path

DATA = Path(os.environ["DATA"])


def note(name: str) -> None:
    with (DATA / name).open("a") as file:
        file.write("x")
        file.flush()
        os.fsync(file.fileno())


def on_hup(*_: object) -> None:
    note("reloads")


def on_term(*_: object) -> None:
    print("drained", flush=True)
    sys.exit(0)


def main() -> None:
    note("starts")
    signal.signal(signal.SIGHUP, on_hup)
    signal.signal(signal.SIGTERM, signal.SIG_IGN if os.environ.get("STUBBORN") else on_term)
    for n in range(int(os.environ.get("CHATTY", "0"))):
        print(f"line {n} " + "." * 90)
    if os.environ.get("EXIT"):
        print("this node gives up", flush=True)
        sys.exit(int(os.environ["EXIT"]))
    listener = socket.create_server(("127.0.0.1", int(os.environ["PORT"])))
    print("serving", flush=True)
    while True:
        client, _ = listener.accept()
        with client:
            request = client.recv(4096).split(b" ")
            path = request[1].decode() if len(request) > 1 else ""
            if path.startswith("/say/"):
                print(path.removeprefix("/say/").replace("%20", " "), flush=True)
            found = path == "/health" or path.startswith("/say/")
            body = b"ok\n" if found else b"no such thing\n"
            status = b"200 OK" if found else b"404 Not Found"
            client.sendall(b"HTTP/1.0 %b\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


main()
