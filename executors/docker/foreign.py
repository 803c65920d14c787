"""A container that somebody else has made, read as far as a node of fleetctl could be made like it. Pure but for `look`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from executors.docker import names
from executors.docker.images import bare
from executors.driver import DriverError
from executors.foreign import Foreign, NotThere

VERSION_LABEL = "org.opencontainers.image.version"


def look(connect: Callable[[], Any], host: str, name: str) -> Foreign:
    """Reads a container by its name or id. Raises NotThere and DriverError."""
    from docker.errors import DockerException, NotFound

    api = connect()
    try:
        inspected = api.inspect_container(name)
        return read(inspected, api.inspect_image(inspected["Image"]), host)
    except NotFound as e:
        raise NotThere(f"host/{host} has no container {name}", hint="docker ps -a lists them") from e
    except DockerException as e:
        raise DriverError(f"host/{host}: {e}") from e
    finally:
        api.close()


def read(inspected: Mapping[str, Any], image: Mapping[str, Any], host: str) -> Foreign:
    """What an inspected container and its image say. Raises NotThere where it cannot become a node."""
    name = str(inspected["Name"]).removeprefix("/")
    config, host_config = inspected["Config"], inspected["HostConfig"]
    if names.UID in (config.get("Labels") or {}):
        fleet = config["Labels"].get(names.FLEET, "")
        raise NotThere(
            f"{name} is a node of fleet/{fleet} already",
            hint=f"take it over as one: fleetctl import fleet/{fleet}",
        )
    reference = _reference(name, str(config["Image"]), image)
    own = _environment(image["Config"])
    env = {k: v for k, v in _environment(config).items() if own.get(k) != v}
    port, settings, lost = _ports(host_config)
    volumes, more = _mounts(inspected)
    settings |= {
        "network": _network(str(host_config.get("NetworkMode") or "default")),
        "read_only": bool(host_config.get("ReadonlyRootfs")),
        "init": bool(host_config.get("Init")),
        "restart": (host_config.get("RestartPolicy") or {}).get("Name") or "no",
        "capabilities": sorted(str(c).removeprefix("CAP_") for c in host_config.get("CapAdd") or []),
        "tmpfs": sorted(host_config.get("Tmpfs") or {}),
    }
    _, _, digest = reference.partition("@")
    return Foreign(
        name=name,
        host=host,
        substrate="docker",
        running=bool(inspected["State"].get("Running")),
        artifact=reference,
        digest=digest,
        version=_version(reference, image),
        command=(*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())),
        env=env,
        user=config.get("User") or None,
        port=port,
        settings=settings,
        limits=_limits(host_config),
        volumes=volumes,
        lost=(*lost, *more, *_unlike(host_config, config, image)),
        stop=f"docker stop {name}",
    )


def _reference(name: str, tag: str, image: Mapping[str, Any]) -> str:
    """REPOSITORY[:TAG]@DIGEST, by which the image can be had again."""
    for digest in image.get("RepoDigests") or []:
        repository, _, pin = str(digest).partition("@")
        given, _, _ = tag.partition("@")
        tagged = given if bare(f"{given}@{pin}") == f"{repository}@{pin}" else repository
        return f"{tagged}@{pin}"
    raise NotThere(
        f"the image of {name} ({tag}) has no digest in any registry, so nothing could pin it",
        hint="push it to a registry and run the container from there once, or pin an archive: docker save",
    )


def _environment(config: Mapping[str, Any]) -> dict[str, str]:
    pairs = (str(text).partition("=") for text in config.get("Env") or [])
    return {name: value for name, _, value in pairs}


def _version(reference: str, image: Mapping[str, Any]) -> str:
    label = ((image["Config"].get("Labels") or {}).get(VERSION_LABEL)) or ""
    return str(label) or reference.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _network(mode: str) -> str:
    return "bridge" if mode == "default" else mode


def _ports(host_config: Mapping[str, Any]) -> tuple[int | None, dict[str, object], tuple[str, ...]]:
    """The published port, with the one inside; a node has one."""
    found = [
        (
            int(inner.partition("/")[0]),
            inner.partition("/")[2],
            str(b.get("HostIp") or ""),
            int(b["HostPort"]),
        )
        for inner, bindings in sorted((host_config.get("PortBindings") or {}).items())
        for b in bindings or []
        if str(b.get("HostPort") or "").isdigit()
    ]
    tcp = [f for f in found if f[1] in ("", "tcp")]
    lost = tuple(
        f"port {f[3]} ({f[0]}/{f[1]}) is not published: a node has one port"
        for f in found
        if f not in tcp[:1]
    )
    if not tcp:
        return None, {}, lost
    inside, _, address, outside = tcp[0]
    return outside, {"port": inside, **({"bind": address} if address else {})}, lost


def _mounts(inspected: Mapping[str, Any]) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    volumes, lost = [], []
    for mount in inspected.get("Mounts") or []:
        if mount.get("Type") == "volume":
            volumes.append((str(mount["Name"]), str(mount["Destination"])))
        elif mount.get("Type") == "bind":
            lost.append(
                f"{mount['Source']} is not mounted at {mount['Destination']}: a node has volumes and files"
            )
    return tuple(sorted(volumes, key=lambda v: v[1])), tuple(lost)


def _limits(host_config: Mapping[str, Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    if host_config.get("Memory"):
        found["memory"] = f"{host_config['Memory']}B"
    if (host_config.get("PidsLimit") or 0) > 0:
        found["processes"] = host_config["PidsLimit"]
    for limit in host_config.get("Ulimits") or []:
        if limit.get("Name") == "nofile":
            found["open_files"] = limit["Soft"]
    return found


def _unlike(
    host_config: Mapping[str, Any], config: Mapping[str, Any], image: Mapping[str, Any]
) -> tuple[str, ...]:
    """What a container of fleetctl's never has, or has otherwise."""
    lost = []
    if host_config.get("Privileged"):
        lost.append("it is privileged, and a node never is: give it the capabilities that it needs")
    elif "ALL" not in (host_config.get("CapDrop") or []):
        lost.append(
            "it has Docker's default capabilities, and a node has only those that are named: see container.capabilities"
        )
    if config.get("WorkingDir") and config["WorkingDir"] != image["Config"].get("WorkingDir"):
        lost.append(f"its working directory {config['WorkingDir']} becomes the image's own")
    if host_config.get("Links") or host_config.get("ExtraHosts"):
        lost.append("links and extra hosts are not carried over")
    if host_config.get("Devices"):
        lost.append("devices are not carried over")
    return tuple(lost)
