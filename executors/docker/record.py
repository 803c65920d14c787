"""What a container cannot carry in its labels: labels are fixed at creation, and a reload or an adoption is later.

A small file in the node's own files volume; its values stand over the labels'. Pure but for tar bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from typing import Any

from executors.docker import names
from executors.driver import Operation
from executors.files import bytes_of
from manifests.secret import Secret
from planner.spec import NodeSpec

# A record or a managed file past this was not written by us.
FILE_MAX_B = 64 * 2**20


def record_of(operation: Operation, container_id: str) -> dict[str, str]:
    """The record that this operation leaves of this container, as label names and values."""
    return {
        names.CONTAINER: container_id,
        names.LINEAGE: operation.lineage,
        names.EPOCH: str(operation.epoch),
        names.GENERATION: str(operation.generation),
        names.OPERATION: operation.operation_id,
        names.ATTEMPT: str(operation.attempt),
        names.FIELDS: json.dumps(dict(operation.fields), sort_keys=True, separators=(",", ":")),
    }


def has_files_volume(inspected: Mapping[str, Any]) -> bool:
    """Whether the container mounts the node's own folder."""
    return any(m.get("Destination") == names.NODE_DIR for m in inspected.get("Mounts") or [])


def tar_of(files: Mapping[str, tuple[bytes, int]]) -> bytes:
    """A tar of relative paths to (bytes, mode), for PUT /containers/{id}/archive."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for path, (data, mode) in sorted(files.items()):
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), mode
            tar.addfile(info, io.BytesIO(data))
    return sink.getvalue()


def by_mount(files: Mapping[str, tuple[bytes, int]]) -> list[tuple[str, dict[str, tuple[bytes, int]]]]:
    """Absolute paths, apart by the folder an archive is unpacked at: the engine writes below a read-only root
    only when it is asked for a volume's own folder.
    """
    own = {
        p.removeprefix(f"{names.NODE_DIR}/"): f
        for p, f in files.items()
        if p.startswith(f"{names.NODE_DIR}/")
    }
    rest = {p.lstrip("/"): f for p, f in files.items() if not p.startswith(f"{names.NODE_DIR}/")}
    return [(folder, inside) for folder, inside in ((names.NODE_DIR, own), ("/", rest)) if inside]


def files_to_place(spec: NodeSpec, secrets: Mapping[str, Secret]) -> dict[str, tuple[bytes, int]]:
    """Absolute paths inside the container to (bytes, mode)."""
    return {inside(f.path): (bytes_of(f, secrets), int(f.mode, 8)) for f in spec.files}


def inside(path: str) -> str:
    """Where a managed file is in the container: relative ones are below the node's folder."""
    return path if path.startswith("/") else f"{names.NODE_DIR}/{path}"


def read_tar(stream: bytes) -> tuple[bytes, int] | None:
    """The one regular file in a tar that GET /containers/{id}/archive gave: its bytes and mode."""
    with tarfile.open(fileobj=io.BytesIO(stream)) as tar:
        for member in tar:
            if member.isfile() and member.size <= FILE_MAX_B:
                file = tar.extractfile(member)
                assert file is not None
                return file.read(), member.mode & 0o7777
    return None


def file_field(data: bytes, mode: int) -> str:
    """A file's managed field as `planner.spec.fields` writes it."""
    return f"{mode:04o} sha256:{hashlib.sha256(data).hexdigest()}"
