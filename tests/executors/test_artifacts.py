"""Artifacts: only verified bytes ever have the name of their digest."""

from __future__ import annotations

import hashlib
import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from executors import artifacts
from executors.artifacts import ArtifactError, fetch
from planner.spec import ArtifactPin
from tests.lab.certificates import Authority, make_authority

DATA = b"the bytes that run\n" * 50_000


def pin(source: str | Path, data: bytes = DATA) -> ArtifactPin:
    return ArtifactPin(source=str(source), digest=f"sha256:{hashlib.sha256(data).hexdigest()}", name="app")


def kept(cache: Path) -> list[str]:
    return sorted(p.relative_to(cache).as_posix() for p in cache.rglob("*") if p.is_file())


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    path.write_bytes(DATA)
    return path


def test_a_file_is_kept_by_its_digest(cache: Path, source: Path) -> None:
    found = fetch(pin(source), cache)
    assert found.read_bytes() == DATA
    assert kept(cache) == [f"sha256/{hashlib.sha256(DATA).hexdigest()}"]


def test_what_is_cached_needs_no_source(cache: Path, source: Path) -> None:
    fetch(pin(source), cache)
    source.unlink()
    assert fetch(pin(source), cache).read_bytes() == DATA


def test_a_damaged_cache_entry_is_fetched_again(cache: Path, source: Path) -> None:
    fetch(pin(source), cache).write_bytes(b"flipped")
    assert fetch(pin(source), cache).read_bytes() == DATA


def test_wrong_bytes_show_both_digests_and_leave_nothing(cache: Path, source: Path) -> None:
    wanted = pin(source, b"other bytes")
    with pytest.raises(ArtifactError) as error:
        fetch(wanted, cache)
    assert error.value.code == "artifact.digest_mismatch"
    assert wanted.digest in error.value.message
    assert pin(source).digest in error.value.message
    assert kept(cache) == []


@pytest.mark.parametrize(
    ("name", "code"), [("missing", "artifact.missing"), ("folder", "artifact.unreadable")]
)
def test_a_source_that_cannot_be_read_says_why(cache: Path, tmp_path: Path, name: str, code: str) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ArtifactError) as error:
        fetch(pin(tmp_path / name), cache)
    assert error.value.code == code
    assert kept(cache) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become a user who may not read the file")
def test_an_unreadable_source_says_why(source: Path) -> None:
    source.chmod(0o600)
    cache = Path(f"/tmp/fleetctl-cache-{os.getpid()}")  # where the other user may write
    os.seteuid(65534)
    try:
        with pytest.raises(ArtifactError) as error:
            fetch(pin(source), cache)
    finally:
        os.seteuid(0)
        subprocess.run(["rm", "-rf", str(cache)], check=True)
    assert error.value.code == "artifact.unreadable"


def test_a_cache_that_cannot_be_written_says_so(source: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file stands there")
    with pytest.raises(ArtifactError) as error:
        fetch(pin(source), tmp_path / "cache")
    assert error.value.code == "artifact.cache"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_full_disk_leaves_no_artifact(cache: Path, source: Path) -> None:
    cache.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(cache)], check=True)
    try:
        with pytest.raises(ArtifactError, match="No space left") as error:
            fetch(pin(source), cache)
        assert error.value.code == "artifact.cache"
        assert kept(cache) == []
    finally:
        subprocess.run(["umount", str(cache)], check=True)


def test_a_source_past_the_limit_is_refused(
    cache: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifacts, "ARTIFACT_MAX_B", 1000)
    with pytest.raises(ArtifactError) as error:
        fetch(pin(source), cache)
    assert error.value.code == "artifact.too_large"
    assert kept(cache) == []


def test_rests_of_killed_runs_are_swept(cache: Path, source: Path) -> None:
    (cache / "partial").mkdir(parents=True)
    (cache / "partial" / "old").write_text("half")
    os.utime(cache / "partial" / "old", (0, 0))
    (cache / "partial" / "young").write_text("another run's")
    fetch(pin(source), cache)
    assert [name for name in kept(cache) if name.startswith("partial")] == ["partial/young"]


def test_plain_http_is_refused(cache: Path) -> None:
    with pytest.raises(ArtifactError, match="over http"):
        fetch(pin("http://127.0.0.1/app"), cache)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        match self.path.split("/")[1]:
            case "app":
                self.reply(200, DATA)
            case "cut":
                self.reply(200, DATA, sent=len(DATA) // 2)
            case "gone":
                self.reply(404, b"")
            case "broken":
                self.reply(503, b"")
            case "moved":
                self.redirect("/app")
            case "loop":
                self.redirect("/loop")
            case "plain":
                self.redirect("http://127.0.0.1/app")

    def reply(self, status: int, data: bytes, sent: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:sent])

    def redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Says nothing."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[str]:
    issued = authority.issue("server", server=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = server_files(issued)
    context.load_cert_chain(certificate, key)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.socket = context.wrap_socket(httpd.socket, server_side=True)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{httpd.server_address[1]}"
    httpd.shutdown()
    httpd.server_close()
    thread.join(5)


def server_files(issued: Path) -> tuple[Path, Path]:
    """Certificate and key where the authority has put them."""
    return issued / "cert.pem", issued / "key.pem"


@pytest.mark.parametrize("path", ["app", "moved"])
def test_https_is_streamed_and_verified(server: str, authority: Authority, cache: Path, path: str) -> None:
    found = fetch(pin(f"{server}/{path}"), cache, ca_file=str(authority.certificate))
    assert found.read_bytes() == DATA


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("cut", "artifact.interrupted"),
        ("gone", "artifact.missing"),
        ("broken", "artifact.unreadable"),
        ("loop", "artifact.redirect"),
        ("plain", "artifact.redirect"),
    ],
)
def test_a_failed_download_never_becomes_an_artifact(
    server: str, authority: Authority, cache: Path, path: str, code: str
) -> None:
    with pytest.raises(ArtifactError) as error:
        fetch(pin(f"{server}/{path}"), cache, ca_file=str(authority.certificate))
    assert error.value.code == code
    assert kept(cache) == []


def test_an_unknown_certificate_is_refused(server: str, cache: Path) -> None:
    with pytest.raises(ArtifactError, match="certificate"):
        fetch(pin(f"{server}/app"), cache)


def test_a_server_that_is_not_there_is_an_interruption(cache: Path) -> None:
    with pytest.raises(ArtifactError) as error:
        fetch(pin("https://127.0.0.1:9/app"), cache)
    assert error.value.code == "artifact.interrupted"
