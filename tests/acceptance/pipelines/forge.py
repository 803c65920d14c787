"""A stand-in for two forges: comments in memory, by URL, in pages; repositories over HTTP; tokens with permissions."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

# A token that no job was given: its permissions are whatever `denied` says.
KNOWN_TOKEN = "the-token"
# How soon the server notices that it is to end.
POLL_S = 0.02


@dataclass
class Forge:
    """`comments` by id. `denied`: writing answers 403. `tokens` are the credentials that were shown.

    `granted` are the permissions of the jobs' tokens, as long as the jobs run; `served` the folder that has the
    repositories, by owner and name.
    """

    url: str = ""
    comments: dict[int, str] = field(default_factory=dict)
    denied: bool = False
    tokens: set[str] = field(default_factory=set)
    writes: list[str] = field(default_factory=list)
    granted: dict[str, Mapping[str, str]] = field(default_factory=dict)
    served: Path | None = None

    @contextmanager
    def token(self, permissions: Mapping[str, str]) -> Iterator[str]:
        """A job's token, for the time of the block."""
        token = f"token-{len(self.granted) + 1}-of-a-job"
        self.granted[token] = permissions
        try:
            yield token
        finally:
            self.granted[token] = {}

    def may(self, credential: str, scope: str, access: str) -> bool:
        """Whether a credential, as a header has it, has a permission."""
        kind, _, token = credential.rpartition(" ")
        if kind.lower() == "basic":
            token = base64.b64decode(token).decode().partition(":")[2]
        if token == KNOWN_TOKEN:
            return access == "read" or not self.denied
        return self.granted.get(token, {}).get(scope) in ("write", access)

    def answer(
        self, method: str, path: str, body: dict[str, str] | None, credential: str = KNOWN_TOKEN
    ) -> tuple[int, Any]:
        """The status and the JSON for a request."""
        url = urlsplit(path)
        if not self.may(credential, "pull-requests", "read" if method == "GET" else "write"):
            return 403, {"message": "Resource not accessible by integration"}
        if method == "GET":
            query = {k: int(v[0]) for k, v in parse_qs(url.query).items() if v[0].isdigit()}
            size, page = query.get("per_page", 30), query.get("page", 1)
            listed = [self._one(n) for n in sorted(self.comments)]
            return 200, listed[(page - 1) * size : page * size]
        assert body is not None
        number = len(self.comments) + 1 if method == "POST" else int(url.path.rpartition("/")[2])
        assert method == "POST" or number in self.comments
        self.comments[number] = body["body"]
        self.writes.append(f"{method} {url.path}")
        return (201 if method == "POST" else 200), self._one(number)

    def git(self, environment: Mapping[str, str], body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        """What git itself answers to a request for a repository: status, headers and body."""
        done = subprocess.run(
            ["git", "http-backend"],
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self.served),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_GLOBAL": os.devnull,
                **environment,
            },
            input=body,
            capture_output=True,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = [(k, v.strip()) for k, _, v in (line.partition(":") for line in head.decode().splitlines())]
        status = next((int(v.split()[0]) for k, v in headers if k == "Status"), 200)
        return status, [(k, v) for k, v in headers if k != "Status"], content

    def _one(self, number: int) -> dict[str, Any]:
        return {"id": number, "url": f"{self.url}/comments/{number}", "body": self.comments[number]}


@contextmanager
def forge() -> Iterator[Forge]:
    """A server on a free port for the time of the block."""
    made = Forge()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else b""
            credential = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or ""
            made.tokens.add(credential)
            path, _, query = self.path.partition("?")
            if not path.endswith(("/info/refs", "/git-upload-pack")):
                given = json.loads(body) if body else None
                status, value = made.answer(self.command, self.path, given, credential)
                self._send(status, [], json.dumps(value).encode())
            elif not made.may(credential, "contents", "read"):
                self._send(401, [("WWW-Authenticate", 'Basic realm="private"')], b"")
            else:
                environment = {
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }
                self._send(*made.git(environment, body))

        def _send(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_PUT = _handle  # noqa: N815 - the server looks for these names

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
