"""What a guest is given: a NoCloud seed for cloud-init, a small ISO 9660 disk labelled `cidata`.

Files under a relative path lie on it as they are; `user-data`, `meta-data` and `network-config` among them
replace what is made here. Files under an absolute path are written by cloud-init, which also writes the
variables to ENV_FILE and runs the command at the node's first boot.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from posixpath import dirname

from executors.driver import DriverError, Operation
from executors.files import bytes_of
from manifests.secret import Secret

LABEL = "cidata"
ENV_FILE = "/etc/fleetctl/env"
CLOUD_CONFIG = b"#cloud-config\n"


def files(operation: Operation, secrets: Mapping[str, Secret]) -> dict[str, bytes]:
    """The seed's files by their path on it. Raises ValueError for a file that has changed since the plan."""
    spec = operation.spec
    own = {f.path: bytes_of(f, secrets) for f in spec.files if not f.path.startswith("/")}
    made = {
        "meta-data": _json(
            {
                # cloud-init runs once per instance: each generation is one.
                "instance-id": f"{operation.uid}-{operation.generation}",
                "local-hostname": operation.node,
            }
        ),
        "user-data": CLOUD_CONFIG + _json(_user_data(operation, secrets)),
    }
    return {**made, **own}


def iso(content: Mapping[str, bytes]) -> bytes:
    """The disk with these files: Rock Ridge and Joliet names beside the short ones."""
    try:
        import pycdlib
    except ImportError as e:
        raise DriverError(
            "the Python module 'pycdlib' is not installed", hint="pip install 'fleetctl[libvirt]'"
        ) from e
    disk = pycdlib.PyCdlib()
    disk.new(interchange_level=3, vol_ident=LABEL, joliet=3, rock_ridge="1.09")
    folders: dict[str, str] = {"": ""}
    for number, (path, data) in enumerate(sorted(content.items())):
        below = _folder(disk, folders, dirname(path))
        name = path.rpartition("/")[2]
        disk.add_fp(
            io.BytesIO(data), len(data), f"{below}/F{number}.;1", rr_name=name, joliet_path=f"/{path}"
        )
    out = io.BytesIO()
    disk.write_fp(out)
    disk.close()
    return out.getvalue()


def _folder(disk: object, folders: dict[str, str], path: str) -> str:
    """The short path of a folder, which is made with those above it where it is missing."""
    if path not in folders:
        above = _folder(disk, folders, dirname(path))
        folders[path] = f"{above}/D{len(folders)}"
        disk.add_directory(  # type: ignore[attr-defined]  # the library has no types
            folders[path], rr_name=path.rpartition("/")[2], joliet_path=f"/{path}"
        )
    return folders[path]


def _user_data(operation: Operation, secrets: Mapping[str, Secret]) -> dict[str, object]:
    """JSON is YAML, and needs no quoting rules."""
    spec = operation.spec
    written = [
        {
            "path": f.path,
            "permissions": f.mode,
            "encoding": "b64",
            "content": base64.b64encode(bytes_of(f, secrets)).decode(),
        }
        for f in spec.files
        if f.path.startswith("/")
    ]
    if spec.env:
        lines = [
            f"{name}={_quoted(value if isinstance(value, str) else secrets[value.secret].reveal())}\n"
            for name, value in sorted(spec.env.items())
        ]
        written.append({"path": ENV_FILE, "permissions": "0600", "content": "".join(lines)})
    out: dict[str, object] = {}
    if written:
        out["write_files"] = written
    if spec.command:
        out["runcmd"] = [list(spec.command)]
    return out


def _quoted(value: str) -> str:
    """For a shell and for systemd's EnvironmentFile alike."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{escaped}"'


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode() + b"\n"
