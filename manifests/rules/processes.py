"""What runs and how it is judged: files, secrets, probes, times."""

from __future__ import annotations

import re

from manifests.manifest import Key, Path
from manifests.placeholder import is_template
from manifests.rules.review import Review, fleet_key
from manifests.schema.base import SecretValue
from manifests.schema.fleet import EnvVar, File, Fleet, Group, Health, Process, ProcessOverride
from manifests.secret import parse_ref

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SOURCES = ("content", "source", "secret")


def check(review: Review) -> None:
    """Every rule about processes, files, secrets and health, for every group and node."""
    for fleet in review.manifests.fleets.values():
        key = fleet_key(fleet)
        for i, group in enumerate(fleet.groups):
            path: Path = ("groups", i)
            _process(review, key, (*path, "process"), group.process)
            for j, node in enumerate(group.nodes or ()):
                if node.process is not None:
                    _process(review, key, (*path, "nodes", j, "process"), node.process)
            _substrate(review, key, path, group)
            _probes(review, key, path, group)
            _times(review, fleet, path, group.health)
            if group.data is not None and _leaves(group.data.path):
                _escapes(review, key, (*path, "data", "path"), group.data.path)


def _process(review: Review, key: Key, path: Path, process: Process | ProcessOverride) -> None:
    seen: dict[str, int] = {}
    for i, file in enumerate(process.files):
        place = (*path, "files", i)
        first = seen.setdefault(_normal(file.path), i)
        if first != i:
            review.error(
                "file.duplicate",
                "Two files of a node have one path",
                f"{file.path} also stands at {review.place(key, (*path, 'files', first))}.",
                key,
                (*place, "path"),
                "remove one",
            )
        _file(review, key, place, file)
    for name, value in process.env.items():
        inner = value.value if isinstance(value, EnvVar) else value
        if isinstance(inner, SecretValue):
            at = (*path, "env", name, *(("value",) if isinstance(value, EnvVar) else ()), "secret")
            _secret(review, key, at, inner.secret)


def _file(review: Review, key: Key, path: Path, file: File) -> None:
    given = [name for name in _SOURCES if getattr(file, name) is not None]
    if len(given) != 1:
        review.error(
            "file.sources",
            "A file needs exactly one of content, source and secret",
            f"{file.path} has {' and '.join(given) if given else 'none of them'}.",
            key,
            (*path, given[1]) if given else path,
            'an empty file has content: ""' if not given else f"keep one: {given[0]} or {given[1]}",
        )
    if _leaves(file.path):
        _escapes(review, key, (*path, "path"), file.path)
    if file.secret is not None:
        _secret(review, key, (*path, "secret"), file.secret)


def _normal(path: str) -> str:
    return "/".join(part for part in path.split("/") if part not in ("", ".")) + (
        "" if path[:1] != "/" else "@"
    )


def _leaves(path: str) -> bool:
    """Whether a path names its folder itself, or a place outside it; what a template adds is judged when it is known."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ".." in parts or not parts or path.endswith("/")


def _escapes(review: Review, key: Key, path: Path, text: str) -> None:
    review.error(
        "file.outside",
        "A path leaves the node's folder, or names no file",
        f'"{text}": relative paths are relative to the node\'s folder and stay inside it.',
        key,
        path,
        "write a relative path without `..`, or an absolute one",
    )


def _secret(review: Review, key: Key, path: Path, text: str) -> None:
    reference = parse_ref(text)
    if reference is not None and (reference.scheme != "env" or _ENV_NAME.fullmatch(reference.locator)):
        return
    review.error(
        "secret.reference",
        "A secret's reference cannot be used",
        "A secret is named, never written: by a variable's name or a file's path.",
        key,
        path,
        "write env:NAME, file:PATH, command:ARGV, aws-sm:ID or aws-ssm:NAME",
    )


def _substrate(review: Review, key: Key, path: Path, group: Group) -> None:
    if group.substrate == "docker":
        _writable(review, key, path, group)
        return
    if group.container is not None:
        review.error(
            "group.container",
            "A group that is not on docker has `container`",
            f"Group {group.name} is on {group.substrate}.",
            key,
            (*path, "container"),
            "remove it, or write `substrate: docker`",
        )
    if group.health.container is not None:
        review.error(
            "health.container",
            "A group that is not on docker asks the image's own check",
            f"Group {group.name} is on {group.substrate}.",
            key,
            (*path, "health", "container"),
            "use http, tcp or command",
        )


def _writable(review: Review, key: Key, path: Path, group: Group) -> None:
    """An engine places no file below a read-only root: only in the node's own folder."""
    if group.container is not None and not group.container.read_only:
        return
    for i, file in enumerate(group.process.files):
        if file.path.startswith("/"):
            review.error(
                "file.read-only",
                "A file stands where a container cannot have one",
                f"{file.path} is below the container's root, which is read-only.",
                key,
                (*path, "process", "files", i, "path"),
                "write a relative path, found at {{ node.dir }} inside; or set `container: {read_only: false}`",
            )


def _probes(review: Review, key: Key, path: Path, group: Group) -> None:
    health = group.health
    given = [name for name in ("http", "tcp", "command", "container") if getattr(health, name) is not None]
    if len(given) > 1:
        review.error(
            "health.several",
            "A group has more than one probe",
            f"{' and '.join(given)}: one probe decides.",
            key,
            (*path, "health", given[1]),
            f"keep one; in an overlay, `{given[0]}: null` takes away what the base wrote",
        )
    if health.http is not None and not health.http.path.startswith("/") and not is_template(health.http.path):
        review.error(
            "health.path",
            "A probe's path does not begin with a slash",
            f'"{health.http.path}" is no path of a URL.',
            key,
            (*path, "health", "http", "path"),
            f"write /{health.http.path}",
        )
    probe = health.http or health.tcp
    if probe is None or probe.port is not None or group.port is not None:
        return
    portless = [n.name for n in group.nodes or () if n.port is None]
    if portless or group.nodes is None:
        whose = f"node {portless[0]}" if portless else f"group {group.name}"
        review.error(
            "health.no-port",
            "A probe has no port",
            f"Neither the probe nor {whose} has a port.",
            key,
            (*path, "health", given[0]),
            "give the group its first `port`, or the probe its own",
        )


def _times(review: Review, fleet: Fleet, path: Path, health: Health) -> None:
    key = fleet_key(fleet)
    at = (*path, "health")
    progress = fleet.rollout.progress_deadline
    shortest = health.min_ready + (health.success - 1) * health.interval
    for name in ("interval", "timeout"):
        if getattr(health, name) == 0:
            review.error(
                "health.zero",
                "A probe needs time",
                f"{name} is 0; probes would follow one another without a pause, or have no time to answer.",
                key,
                (*at, name),
                "write 1s",
            )
    if health.deadline <= shortest:
        review.error(
            "health.deadline",
            "No node could become healthy in time",
            f"deadline is {_shown(health.deadline)}, and {health.success} probes in a row every "
            f"{_shown(health.interval)} with min_ready {_shown(health.min_ready)} take {_shown(shortest)} at least.",
            key,
            (*at, "deadline" if "deadline" in health.model_fields_set else "min_ready"),
            "raise deadline, or lower min_ready",
        )
    if health.deadline >= progress:
        review.error(
            "rollout.progress-deadline",
            "A rollout would give up before a node may be late",
            f"health deadline is {_shown(health.deadline)}, and progress_deadline {_shown(progress)}.",
            key,
            ("rollout", "progress_deadline")
            if "progress_deadline" in fleet.rollout.model_fields_set
            else (*at, "deadline"),
            "raise rollout.progress_deadline above every health deadline",
        )


def _shown(ms: int) -> str:
    return f"{ms // 1000}s" if ms % 1000 == 0 else f"{ms}ms"
