"""A container registry on loopback (Debian's docker-registry), open or with a password, and a small client for it.

The client pushes images made by `tests.lab.images` without any engine, also for architectures this machine lacks,
and joins them to an index, so that tests know the platform digests and the index digest exactly.
"""

from __future__ import annotations

import base64
import json
import types
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.lab.images import INDEX_TYPE, MANIFEST_TYPE, Image, sha256
from tests.lab.process import Daemon, LabError, answers, find, free_port, missing_programs
from tests.lab.workdir import make_work_directory, remove_work_directory

START_TIMEOUT_S = 15.0
REQUEST_TIMEOUT_S = 15.0
ACCEPT = f"{INDEX_TYPE}, {MANIFEST_TYPE}"
BCRYPT_ROUNDS = 4
"""The lowest there is: each request of a test pays for it."""


def missing() -> str | None:
    """Why no registry can be had here, in one line, or None."""
    return missing_programs("docker-registry", "setpriv")


class Registry:
    """One registry process with its own storage; use as a context manager, or `start()` and `stop()`."""

    def __init__(self, *, login: tuple[str, str] | None = None) -> None:
        """Describe a registry; nothing runs before `start()`.

        Args:
            login: user and password that every request must carry; None for an open one.
        """
        self.login = login
        self.port = 0
        self._daemon: Daemon | None = None
        self._directory: Path | None = None

    @property
    def directory(self) -> Path:
        """Private directory with the storage and the log; gone after `stop()`."""
        if self._directory is None:
            raise LabError("this registry is not started")
        return self._directory

    @property
    def host(self) -> str:
        """`127.0.0.1:PORT`, as references name it."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        """All requests and complaints so far."""
        return (self.directory / "log").read_text(errors="replace")

    def start(self) -> Registry:
        """Start (again, with the storage it had) and wait until it answers."""
        try:
            if self._directory is None:
                self._directory = make_work_directory("registry")
                self.port = free_port()
                self._write_config()
            program = find("docker-registry") or "docker-registry"
            argv = [program, "serve", str(self._directory / "config.yml")]
            self._daemon = Daemon(argv, log=self._directory / "log")
            self._daemon.wait_ready(lambda: answers("127.0.0.1", self.port), timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        return self

    def halt(self) -> None:
        """Stop the process and keep the storage, as an outage would; `start()` ends the outage."""
        if self._daemon is not None:
            self._daemon.stop()
            self._daemon = None

    def stop(self) -> None:
        """Stop the process and remove its storage. Twice is harmless."""
        self.halt()
        if self._directory is not None:
            remove_work_directory(self._directory)
            self._directory = None

    def push(self, image: Image, repository: str, tag: str | None = None) -> str:
        """Push an image, under a tag or by digest alone; an existing tag moves. Returns the platform digest."""
        self._push_blob(repository, image.config)
        self._push_blob(repository, image.blob)
        return self._put_manifest(repository, tag, image.manifest, MANIFEST_TYPE)

    def push_index(self, images: Sequence[Image], repository: str, tag: str | None = None) -> str:
        """Push images of several architectures and an index over them. Returns the index digest."""
        entries = []
        for image in images:
            self.push(image, repository)
            platform = {"architecture": image.architecture, "os": "linux"}
            size, digest = len(image.manifest), sha256(image.manifest)
            entries.append({"mediaType": MANIFEST_TYPE, "size": size, "digest": digest, "platform": platform})
        document = {"schemaVersion": 2, "mediaType": INDEX_TYPE, "manifests": entries}
        return self._put_manifest(repository, tag, json.dumps(document, sort_keys=True).encode(), INDEX_TYPE)

    def digest_of(self, repository: str, tag: str) -> str:
        """The digest that a tag means now."""
        _, headers = self._request("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": ACCEPT})
        return headers["docker-content-digest"]

    def delete(self, repository: str, digest: str) -> None:
        """Remove a manifest, so that nobody can pull it any more."""
        self._request("DELETE", f"/v2/{repository}/manifests/{digest}")

    def _push_blob(self, repository: str, content: bytes) -> None:
        _, headers = self._request("POST", f"/v2/{repository}/blobs/uploads/", body=b"")
        place = urllib.parse.urlsplit(headers["location"])
        query = f"{place.query}&" if place.query else ""
        path = f"{place.path}?{query}digest={urllib.parse.quote(sha256(content))}"
        self._request("PUT", path, body=content, headers={"Content-Type": "application/octet-stream"})

    def _put_manifest(self, repository: str, tag: str | None, document: bytes, media_type: str) -> str:
        digest = sha256(document)
        path = f"/v2/{repository}/manifests/{tag or digest}"
        self._request("PUT", path, body=document, headers={"Content-Type": media_type})
        return digest

    def _request(
        self, method: str, path: str, *, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[bytes, dict[str, str]]:
        request = urllib.request.Request(f"http://{self.host}{path}", data=body, method=method)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        if self.login is not None:
            pair = base64.b64encode(":".join(self.login).encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        # No proxy from the caller's environment: the registry is on loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=REQUEST_TIMEOUT_S) as answer:
                return answer.read(), {name.lower(): value for name, value in answer.headers.items()}
        except urllib.error.HTTPError as refusal:
            said = refusal.read().decode(errors="replace")
            raise LabError(f"registry: {method} {path} answered {refusal.code}: {said}") from None

    def _write_config(self) -> None:
        config = {
            "version": "0.1",
            "log": {"accesslog": {"disabled": False}, "level": "info"},
            "storage": {
                "filesystem": {"rootdirectory": str(self.directory / "storage")},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.host, "secret": "one process, so any secret will do"},
        }
        if self.login is not None:
            config["auth"] = {"htpasswd": {"realm": "laboratory", "path": str(self._write_passwords())}}
        # JSON is YAML, so no YAML writer is needed.
        (self.directory / "config.yml").write_text(json.dumps(config))

    def _write_passwords(self) -> Path:
        import bcrypt

        assert self.login is not None
        user, password = self.login
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(BCRYPT_ROUNDS)).decode()
        path = self.directory / "htpasswd"
        path.write_text(f"{user}:{hashed}\n")
        return path

    def __enter__(self) -> Registry:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()
