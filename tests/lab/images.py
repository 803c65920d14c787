"""Container images made here, since none can be pulled: a 2 MB node of busybox, byte for byte reproducible."""

from __future__ import annotations

import functools
import gzip
import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.docker_engine import DockerEngine
from tests.lab.process import find, missing_programs, text

NODE_SCRIPT = Path(__file__).with_name("node.sh")
NODE_PORT = 8080
CREATED = "2026-01-01T00:00:00Z"
"""A fixed time of creation, so that the same content has the same digest in every run."""

MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
INDEX_TYPE = "application/vnd.docker.distribution.manifest.list.v2+json"
CONFIG_TYPE = "application/vnd.docker.container.image.v1+json"
LAYER_TYPE = "application/vnd.docker.image.rootfs.diff.tar.gzip"
SECOND_NS = 1_000_000_000


def missing() -> str | None:
    """Why the busybox image cannot be made here, in one line, or None."""
    return missing_programs("busybox")


def sha256(content: bytes) -> str:
    """`sha256:<hex>` of some bytes."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass(frozen=True)
class Image:
    """One image of one architecture: its configuration and its only layer (an uncompressed tar)."""

    config: bytes
    layer: bytes = field(repr=False)
    architecture: str

    @property
    def image_id(self) -> str:
        """The id that an engine gives it."""
        return sha256(self.config)

    @property
    def blob(self) -> bytes:
        """The layer as a registry stores it."""
        return _compressed(self.layer)

    @property
    def manifest(self) -> bytes:
        """The manifest as a registry stores it; its digest is the platform digest."""
        blob = self.blob
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {"mediaType": CONFIG_TYPE, "size": len(self.config), "digest": sha256(self.config)},
            "layers": [{"mediaType": LAYER_TYPE, "size": len(blob), "digest": sha256(blob)}],
        }
        return json.dumps(document, sort_keys=True).encode()

    def archive(self, reference: str) -> bytes:
        """What `docker load` takes, naming the image `reference` (`repository:tag`)."""
        names = [{"Config": "config.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
        files = {
            "manifest.json": json.dumps(names).encode(),
            "config.json": self.config,
            "layer.tar": self.layer,
        }
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w") as tar:
            for name, content in files.items():
                tar.addfile(_entry(name, len(content)), io.BytesIO(content))
        return sink.getvalue()


def node_image(
    version: str,
    *,
    architecture: str = "amd64",
    healthcheck: bool = False,
    env: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
) -> Image:
    """An image whose container serves `node.sh` on port 8080.

    Args:
        version: what `/version` answers.
        architecture: what the image claims; only the machine's own runs.
        healthcheck: give it a container health check of one second.
        env: further variables (see node.sh).
        labels: labels of the image.
    """
    layer = busybox_layer()
    variables = {"PATH": "/bin:/usr/bin", "VERSION": version, **(env or {})}
    config: dict[str, Any] = {
        "Env": [f"{name}={value}" for name, value in variables.items()],
        "Cmd": ["/bin/node"],
        "ExposedPorts": {f"{NODE_PORT}/tcp": {}},
        "Labels": labels or {},
        "WorkingDir": "/",
    }
    if healthcheck:
        # No `-T`: with it the statically linked wget ends with SIGSEGV.
        probe = f"busybox wget -q -O /dev/null http://127.0.0.1:{NODE_PORT}/health"
        timing = {"Interval": SECOND_NS, "Timeout": 2 * SECOND_NS, "Retries": 2}
        config["Healthcheck"] = {"Test": ["CMD-SHELL", probe], **timing}
    document = {
        "architecture": architecture,
        "os": "linux",
        "created": CREATED,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer)]},
        "history": [{"created": CREATED, "created_by": "fleetctl laboratory"}],
    }
    return Image(json.dumps(document, sort_keys=True).encode(), layer, architecture)


def load(engine: DockerEngine, image: Image, reference: str) -> str:
    """Bring an image into an engine under `reference` and return its id."""
    engine.docker("load", "--quiet", input_bytes=image.archive(reference))
    return image.image_id


@functools.cache
def busybox_layer() -> bytes:
    """A root file system of busybox with a link for each of its commands, and `node.sh` as /bin/node."""
    busybox = find("busybox") or "busybox"
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for directory, mode in (
            ("bin", 0o755),
            ("etc", 0o755),
            ("etc/node", 0o755),
            ("data", 0o777),
            ("tmp", 0o1777),
        ):
            entry = _entry(directory, 0, mode)
            entry.type = tarfile.DIRTYPE
            tar.addfile(entry)
        files = {
            "bin/busybox": (Path(busybox).read_bytes(), 0o755),
            "bin/node": (NODE_SCRIPT.read_bytes(), 0o755),
            "etc/passwd": (b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n", 0o644),
            "etc/group": (b"root:x:0:\nnogroup:x:65534:\n", 0o644),
        }
        for name, (content, mode) in files.items():
            tar.addfile(_entry(name, len(content), mode), io.BytesIO(content))
        for applet in sorted(set(text([busybox, "--list"]).split()) - {"busybox", "node"}):
            link = _entry(f"bin/{applet}", 0, 0o777)
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    return sink.getvalue()


@functools.cache
def _compressed(layer: bytes) -> bytes:
    return gzip.compress(layer, mtime=0)


def _entry(name: str, size: int, mode: int = 0o644) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry
