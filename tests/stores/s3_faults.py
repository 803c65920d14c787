"""A store between the client and a sound one that loses answers, refuses, stalls, or breaks its promises on purpose."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.lab.s3 import ACCESS_KEY, REGION, SECRET_KEY

HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "content-length"}


@dataclass(frozen=True)
class Request:
    """What the client asks for. `name` is the path without the bucket."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def name(self) -> str:
        return urlsplit(self.path).path.lstrip("/").partition("/")[2]

    @property
    def conditional(self) -> bool:
        return "if-none-match" in self.headers or "if-match" in self.headers

    def without_conditions(self, *which: str) -> Request:
        kept = {k: v for k, v in self.headers.items() if k not in which}
        return Request(self.method, self.path, _signed_anew(self, kept), self.body)


def _signed_anew(request: Request, headers: dict[str, str]) -> dict[str, str]:
    """Sign for other headers: a condition is among what the client signed, and a real server looks."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    bare = {k: v for k, v in headers.items() if k not in ("authorization", "x-amz-date")}
    url = f"http://{headers['host']}{request.path}"
    signed = AWSRequest(request.method, url, bare, request.body)
    S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", REGION).add_auth(signed)
    return {k.lower(): str(v) for k, v in signed.headers.items()}


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes


def error(status: int, code: str) -> Response:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    return Response(status, {"Content-Type": "application/xml"}, body)


CONFLICT = error(409, "ConditionalRequestConflict")
BUSY = error(503, "SlowDown")
BROKEN = error(500, "InternalError")

Forward = Callable[[Request], Response]
Fault = Callable[[Request, Forward], "Response | None"]
"""Answers a request, or lets it pass with `forward`; None drops the connection without an answer."""


@dataclass
class Faults:
    """Faults for the coming requests: each is used once, for the first request that it applies to."""

    waiting: list[tuple[Callable[[Request], bool], Fault]] = field(default_factory=list)
    always: Fault | None = None
    seen: list[Request] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, fault: Fault, when: Callable[[Request], bool], times: int = 1) -> None:
        with self.lock:
            self.waiting.extend([(when, fault)] * times)

    def handle(self, request: Request, forward: Forward) -> Response | None:
        with self.lock:
            self.seen.append(request)
            chosen = self.always
            for n, (when, fault) in enumerate(self.waiting):
                if when(request):
                    del self.waiting[n]
                    chosen = fault
                    break
        return forward(request) if chosen is None else chosen(request, forward)


def answers(response: Response) -> Fault:
    """The request never reaches the store."""
    return lambda request, forward: response


def lost(request: Request, forward: Forward) -> Response | None:
    """The store does it, and the answer is lost."""
    forward(request)
    return None


def done_and_500(request: Request, forward: Forward) -> Response | None:
    """The store does it, and says that it broke."""
    forward(request)
    return BROKEN


def dropped(request: Request, forward: Forward) -> Response | None:
    """The request never arrives, and nobody answers."""
    return None


def delayed(delay_s: float) -> Fault:
    def fault(request: Request, forward: Forward) -> Response:
        time.sleep(delay_s)
        return forward(request)

    return fault


def puts(part: str = "") -> Callable[[Request], bool]:
    return lambda request: request.method == "PUT" and part in request.name


def gets(part: str = "") -> Callable[[Request], bool]:
    return lambda request: request.method == "GET" and part in request.name


@contextmanager
def proxy(target: str, faults: Faults) -> Iterator[str]:
    """Serves the store at `target` under another URL, through these faults."""
    host, port = urlsplit(target).hostname or "", urlsplit(target).port

    def forward(request: Request) -> Response:
        connection = HTTPConnection(host, port, timeout=30)
        try:
            connection.request(request.method, request.path, request.body, request.headers)
            answer = connection.getresponse()
            kept = {k: v for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP}
            return Response(answer.status, kept, answer.read())
        finally:
            connection.close()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Nagle and delayed acknowledgements would add 40 ms to each small answer.
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            pass

        def answer(self) -> None:
            if self.headers.get("Expect", "").lower() == "100-continue":
                pass  # the base class has answered already
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            # The client's Host stays: its signature covers it.
            headers = {k.lower(): v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
            response = faults.handle(Request(self.command, self.path, headers, body), forward)
            if response is None:
                self.close_connection = True
                return
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            length = response.headers.get("content-length", str(len(response.body)))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(response.body)

    for verb in ("GET", "PUT", "POST", "DELETE", "HEAD"):
        setattr(Handler, f"do_{verb}", Handler.answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
