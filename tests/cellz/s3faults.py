"""A proxy in front of an S3 server that does wrong what a network and a busy store do: one fault a request."""

from __future__ import annotations

import http.client
import select
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

# "lost" and "late" do the work; of the first the answer is cut, of the second it comes after the client gave up.
# A number is answered at once, and nothing is done.
FAULTS = ("lost", "late", "500", "409")
_CODES = {"409": "ConditionalRequestConflict", "412": "PreconditionFailed", "500": "InternalError"}
_GIVE_UP_S = 60.0


class FaultyS3:
    """The proxy; `plan` has the faults of the next requests, "" for none."""

    def __init__(self, target: str) -> None:
        self.plan: deque[str] = deque()
        self.requests: list[tuple[str, str]] = []
        self._target = urlsplit(target).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        """Do a request at the server and return its answer."""
        connection = http.client.HTTPConnection(self._target, timeout=_GIVE_UP_S)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                fault = proxy.plan.popleft() if proxy.plan else ""
                proxy.requests.append((self.command, fault))
                if fault in _CODES:
                    self._answer(int(fault), [], f"<Error><Code>{_CODES[fault]}</Code></Error>".encode())
                    return
                # The signature covers the host that the client meant.
                headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
                status, fields, data = proxy.forward(self.command, self.path, headers, body)
                if fault == "late":
                    select.select([self.connection], [], [], _GIVE_UP_S)
                if fault in ("lost", "late"):
                    self.close_connection = True
                    return
                self._answer(status, fields, data)

            def _answer(self, status: int, fields: list[tuple[str, str]], data: bytes) -> None:
                self.send_response_only(status)
                dropped = ("connection", "content-length", "transfer-encoding")
                for name, value in fields:
                    if name.lower() not in dropped:
                        self.send_header(name, value)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        return Handler


@contextmanager
def faulty_s3(target: str) -> Iterator[FaultyS3]:
    """Run a proxy for the time of the block."""
    proxy = FaultyS3(target)
    try:
        yield proxy
    finally:
        proxy.close()
