"""NodeSpec -> the engine's create request, and back: what is sent is exactly what is read again. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from executors.docker import names
from executors.driver import Operation
from manifests.schema.container import Container
from manifests.secret import Secret
from planner.spec import NodeSpec

SECOND_NS = 1_000_000_000
# The engine must wait longer than the drain before it kills on its own (shutdown, `docker stop` by hand).
STOP_SLACK_S = 10
NO_HEALTHCHECK = ["NONE"]


def container_of(spec: NodeSpec) -> Container:
    """The container settings, defaults where the manifest has none."""
    return spec.container or Container()


def create_request(operation: Operation, image_id: str, secrets: Mapping[str, Secret]) -> dict[str, Any]:
    """The body of POST /containers/create for this operation."""
    spec = operation.spec
    container = container_of(spec)
    request: dict[str, Any] = {
        "Image": image_id,
        "Cmd": list(spec.command) if container.entrypoint == "image" else list(spec.command[1:]),
        "Env": environment(spec, secrets),
        "Labels": labels(operation, image_id),
        "StopSignal": f"SIG{spec.drain.signal}",
        "StopTimeout": spec.drain.timeout // 1000 + STOP_SLACK_S,
        "HostConfig": host_config(operation.uid, spec, container),
    }
    if container.entrypoint == "none":
        request["Entrypoint"] = [spec.command[0]]
    if spec.user is not None:
        request["User"] = spec.user
    if container.healthcheck == "none":
        request["Healthcheck"] = {"Test": NO_HEALTHCHECK}
    inner = inner_port(spec)
    if inner is not None and container.network != "host":
        request["ExposedPorts"] = {f"{inner}/tcp": {}}
    return request


def environment(spec: NodeSpec, secrets: Mapping[str, Secret]) -> list[str]:
    """NAME=value for each variable; references by their value, which must be among `secrets`."""
    out = []
    for name, value in sorted(spec.env.items()):
        out.append(f"{name}={value if isinstance(value, str) else secrets[value.secret].reveal()}")
    return out


def inner_port(spec: NodeSpec) -> int | None:
    """Where the process listens inside the container."""
    return container_of(spec).port or spec.port


def mounts(uid: str, spec: NodeSpec, container: Container) -> list[dict[str, Any]]:
    """Named volumes: the node's files (if it has any of its own), its data, and the declared ones."""
    wanted = [(names.volume(uid, f"volume-{v.name}"), v.path) for v in container.volumes]
    if any(not f.path.startswith("/") for f in spec.files):
        wanted.append((names.volume(uid, names.FILES_VOLUME), names.NODE_DIR))
    if spec.data is not None:
        wanted.append((names.volume(uid, names.DATA_VOLUME), f"{names.NODE_DIR}/{spec.data.path}"))
    return [{"Type": "volume", "Source": source, "Target": target} for source, target in sorted(wanted)]


def host_config(uid: str, spec: NodeSpec, container: Container) -> dict[str, Any]:
    """HostConfig: resources, capabilities, network, restart policy, log."""
    config: dict[str, Any] = {
        "NetworkMode": container.network,
        "RestartPolicy": {"Name": container.restart, "MaximumRetryCount": 0},
        "ReadonlyRootfs": container.read_only,
        "CapDrop": ["ALL"],
        "CapAdd": sorted(container.capabilities),
        "SecurityOpt": ["no-new-privileges:true"],
        "Init": container.init,
        "Mounts": mounts(uid, spec, container),
        "Tmpfs": dict.fromkeys(sorted(container.tmpfs), ""),
        "LogConfig": {"Type": container.log.driver, "Config": dict(container.log.options)},
    }
    limits = spec.limits
    if limits.memory is not None:
        config["Memory"] = limits.memory
    if limits.processes is not None:
        config["PidsLimit"] = limits.processes
    if limits.open_files is not None:
        config["Ulimits"] = [{"Name": "nofile", "Soft": limits.open_files, "Hard": limits.open_files}]
    inner = inner_port(spec)
    if spec.port is not None and inner is not None and container.network != "host":
        config["PortBindings"] = {f"{inner}/tcp": [{"HostIp": container.bind, "HostPort": str(spec.port)}]}
    return config


def labels(operation: Operation, image_id: str) -> dict[str, str]:
    """What the container says of itself: identity, fencing, release, and the managed fields as they were sent."""
    spec = operation.spec
    out = {
        names.FLEET: operation.fleet,
        names.NODE: operation.node,
        names.UID: operation.uid,
        names.LINEAGE: operation.lineage,
        names.EPOCH: str(operation.epoch),
        names.GENERATION: str(operation.generation),
        names.OPERATION: operation.operation_id,
        names.ATTEMPT: str(operation.attempt),
        names.VERSION: spec.version,
        names.DIGEST: spec.artifact.digest,
        names.IMAGE: image_id,
        names.ADDRESS: spec.address,
        names.FIELDS: json.dumps(dict(operation.fields), sort_keys=True, separators=(",", ":")),
    }
    if spec.port is not None:
        out[names.PORT] = str(spec.port)
    return out


def fields_read_back(inspected: Mapping[str, Any], recorded: Mapping[str, str]) -> dict[str, str]:
    """The managed fields as the engine shows them now, in the form of `planner.spec.fields`.

    `recorded` are those that were sent. What the engine cannot show (secrets, files) stays as recorded;
    files are read separately.
    """
    config, host = inspected["Config"], inspected["HostConfig"]
    out = dict(recorded)
    out["command"] = "\x00".join([*(_own_entrypoint(recorded, config)), *(config.get("Cmd") or [])])
    _limits(host, out)
    _set(out, "user", config.get("User") or None)
    _env(config, recorded, out)
    out["container.network"] = _json(_network(inspected))
    out["container.read_only"] = _json(bool(host.get("ReadonlyRootfs")))
    out["container.capabilities"] = _json(sorted(_bare(c) for c in host.get("CapAdd") or []))
    out["container.init"] = _json(bool(host.get("Init")))
    out["container.restart"] = _json(host["RestartPolicy"]["Name"] or "no")
    out["container.tmpfs"] = _json(sorted(host.get("Tmpfs") or {}))
    log = host["LogConfig"]
    out["container.log"] = _json({"driver": log["Type"], "options": log.get("Config") or {}})
    _ports(inspected, recorded, out)
    if not any(key.startswith("container.") for key in recorded):
        # The manifest has no container section: its defaults are compared only where they were changed.
        defaults = _default_fields()
        for key in [k for k in out if k.startswith("container.")]:
            if out[key] == defaults.get(key):
                del out[key]
    return out


def _default_fields() -> dict[str, str]:
    container = Container()
    values: dict[str, Any] = container.model_dump(mode="json")
    return {f"container.{key}": _json(value) for key, value in values.items()}


def _own_entrypoint(recorded: Mapping[str, str], config: Mapping[str, Any]) -> list[str]:
    return [] if recorded.get("container.entrypoint") == '"image"' else list(config.get("Entrypoint") or [])


def _limits(host: Mapping[str, Any], out: dict[str, str]) -> None:
    _set(out, "limits.memory", host.get("Memory") or None)
    pids = host.get("PidsLimit")
    _set(out, "limits.processes", pids if pids and pids > 0 else None)
    files = next((u for u in host.get("Ulimits") or [] if u["Name"] == "nofile"), None)
    _set(out, "limits.open_files", files["Soft"] if files else None)


def _env(config: Mapping[str, Any], recorded: Mapping[str, str], out: dict[str, str]) -> None:
    actual = dict(item.partition("=")[::2] for item in config.get("Env") or [])
    for key, value in recorded.items():
        name = key.removeprefix("env.")
        if name == key or value.startswith(("keyed:", "secret:")):
            continue
        if name in actual:
            out[key] = actual[name]
        else:
            del out[key]


def _ports(inspected: Mapping[str, Any], recorded: Mapping[str, str], out: dict[str, str]) -> None:
    if "port" not in recorded or inspected["HostConfig"]["NetworkMode"] == "host":
        return
    bindings = inspected["HostConfig"].get("PortBindings") or {}
    bound = [(key, b) for key, each in sorted(bindings.items()) for b in each or []]
    _set(out, "port", bound[0][1]["HostPort"] if bound else None)
    if bound and "container.bind" in recorded:
        out["container.bind"] = _json(bound[0][1]["HostIp"])


def _network(inspected: Mapping[str, Any]) -> str:
    """The network it was made with, or those it is in now when somebody changed them by hand."""
    mode: str = inspected["HostConfig"]["NetworkMode"]
    mode = "bridge" if mode == "default" else mode
    attached = sorted(inspected.get("NetworkSettings", {}).get("Networks") or {})
    return mode if attached in ([mode], []) else ",".join(attached)


def _bare(capability: str) -> str:
    return capability.removeprefix("CAP_")


def _set(out: dict[str, str], key: str, value: object) -> None:
    if value is None:
        out.pop(key, None)
    else:
        out[key] = str(value)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
