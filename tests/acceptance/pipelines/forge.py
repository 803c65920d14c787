"""A stand-in for the comment part of two forges' APIs: comments in memory, by URL, in pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Forge:
    """`comments` by id. `denied`: writing answers 403. `tokens` are the credentials that were shown."""

    url: str = ""
    comments: dict[int, str] = field(default_factory=dict)
    denied: bool = False
    tokens: set[str] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)

    def answer(self, method: str, path: str, body: dict[str, str] | None) -> tuple[int, Any]:
        """The status and the JSON for a request."""
        url = urlsplit(path)
        if method == "GET":
            query = {k: int(v[0]) for k, v in parse_qs(url.query).items() if v[0].isdigit()}
            size, page = query.get("per_page", 30), query.get("page", 1)
            listed = [self._one(n) for n in sorted(self.comments)]
            return 200, listed[(page - 1) * size : page * size]
        if self.denied:
            return 403, {"message": "Resource not accessible by integration"}
        assert body is not None
        number = len(self.comments) + 1 if method == "POST" else int(url.path.rpartition("/")[2])
        assert method == "POST" or number in self.comments
        self.comments[number] = body["body"]
        self.writes.append(f"{method} {url.path}")
        return (201 if method == "POST" else 200), self._one(number)

    def _one(self, number: int) -> dict[str, Any]:
        return {"id": number, "url": f"{self.url}/comments/{number}", "body": self.comments[number]}


@contextmanager
def forge() -> Iterator[Forge]:
    """A server on a free port for the time of the block."""
    made = Forge()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            made.tokens.add(self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or "")
            status, value = made.answer(self.command, self.path, body)
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = _handle  # noqa: N815 - the server looks for these names

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
