"""hello 2.0.0: greets under a new key, which clients of 1.x do not know. Standard library only.

GET /?name=X  the greeting, to X
GET /health   200 while this node takes requests
GET /version  what runs here
SIGTERM       take no new requests, finish those under way, exit 0
"""

import argparse
import json
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

VERSION = "2.0.0"
GREETING = os.environ.get("GREETING", "hello")


def answer(target):
    """The JSON answer to a request target, or None if there is none."""
    url = urlsplit(target)
    if url.path == "/":
        name = parse_qs(url.query).get("name", ["world"])[0]
        return {"message": f"{GREETING}, {name}"}
    if url.path == "/health":
        return {"status": "ok"}
    if url.path == "/version":
        return {"product": "hello", "version": VERSION}
    return None


class Handler(BaseHTTPRequestHandler):
    timeout = 5  # seconds: a client that sends nothing does not hold up the drain

    def do_GET(self):
        found = answer(self.path)
        body = json.dumps(found or {"error": "not found"}).encode() + b"\n"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        """Say nothing: three nodes that are asked all the time would fill their logs."""


class Server(ThreadingHTTPServer):
    daemon_threads = False  # server_close() then waits for the requests under way


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port

    server = Server(("127.0.0.1", port), Handler)
    # shutdown() waits for the serving loop, so it may not run in the loop's own thread.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"hello {VERSION} listens on port {port}", flush=True)
    server.serve_forever(poll_interval=0.05)
    server.server_close()
    print("drained", flush=True)


if __name__ == "__main__":
    main()
