"""What comes back from a host, read by pure functions: an effect's result, and an observation."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from executors.outcome import Outcome, OutcomeState, unknown
from planner.observed import HealthState, NodeState, ObservedHost, ObservedNode

RECORD_FORMAT = "1"
CHANGED = "(changed on the host)"
MISSING = "(missing on the host)"


def result(stdout: bytes) -> Outcome:
    """The outcome that a guarded script printed; one that is missing or cut off is unknown."""
    lines = stdout.decode(errors="replace").splitlines()
    try:
        start = lines.index("fleetctl-result 1")
    except ValueError:
        return unknown("host.no_result", "the script ended without a result")
    values: dict[str, str] = {}
    log: list[str] = []
    for line in lines[start + 1 :]:
        if line == "end":
            break
        key, _, value = line.partition("=")
        if key == "log":
            log.append(value)
        else:
            values[key] = value
    else:
        return unknown("host.no_result", "the script's result was cut off")
    try:
        state = OutcomeState(values.get("state", ""))
    except ValueError:
        return unknown("host.no_result", f"the script's result has the state {values.get('state')!r}")
    evidence: dict[str, str | int | None] = {}
    if values.get("instance"):
        evidence["instance"] = values["instance"]
    if values.get("exit_code", "").isdigit():
        evidence["exit_code"] = int(values["exit_code"])
    if log:
        evidence["log"] = "\n".join(log)
    detail = values.get("detail", "")
    if log and state is OutcomeState.FAILED:
        detail = "\n".join([f"{detail}; its last lines:", *(f"    {line}" for line in log)])
    return Outcome(state, values.get("code", ""), detail, evidence)


@dataclass(slots=True)
class _Sections:
    """An observation by its parts, still as text."""

    head: dict[str, str] = field(default_factory=dict)
    files: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # uid -> file -> lines
    processes: dict[str, str] = field(default_factory=dict)  # pid -> stat
    sums: dict[str, str] = field(default_factory=dict)  # path -> FAILED …
    modes: dict[str, str] = field(default_factory=dict)  # path -> octal
    artifacts: dict[str, str] = field(default_factory=dict)  # path -> "size mtime ctime"
    variables: dict[str, dict[str, str]] = field(default_factory=dict)  # uid -> variable -> verdict
    digests: dict[str, str] = field(default_factory=dict)  # path -> sha256 of a changed file
    units: dict[str, dict[str, str]] = field(default_factory=dict)  # unit -> property -> value
    block: dict[str, str] = field(default_factory=dict)
    whole: bool = False


def observation(stdout: bytes, name: str, fleets: frozenset[str], root: str) -> ObservedHost:
    """A host with its nodes, out of what observe.sh printed; without `fleets`, those of every fleet."""
    parts = _split(stdout.decode(errors="replace"))
    host = ObservedHost(
        name=name,
        substrate="host",
        reachable=True,
        arch=_architecture(parts.head.get("arch")),
        os=parts.head.get("os"),
    )
    if not parts.whole:
        return host.model_copy(
            update={"reachable": False, "error": "the host's answer is missing or was cut off"}
        )
    if "unreadable" in parts.head:
        error = f"{parts.head['unreadable']} on the host cannot be read"
        return host.model_copy(update={"reachable": False, "error": error})
    nodes = [n for uid in sorted(parts.files) if (n := _node(uid, parts, root)) is not None]
    return host.model_copy(
        update={"nodes": tuple(n for n in nodes if not fleets or n.fleet in fleets or not n.fleet)}
    )


def _split(text: str) -> _Sections:
    parts = _Sections()
    section = ""
    lines = iter(text.split("\n"))
    for line in lines:
        if line == "fleetctl-observe 1":
            break
    for line in lines:
        if line.startswith("section "):
            section = line.removeprefix("section ")
        elif line == "end":
            parts.whole = True
            break
        else:
            _take(parts, section, line)
    return parts


def _take(parts: _Sections, section: str, line: str) -> None:
    match section:
        case "":
            key, _, value = line.partition("=")
            parts.head[key] = value
        case "records":
            # An empty or binary record has no lines below, and is there all the same.
            parts.files.setdefault(line.partition("/")[0], {}).setdefault("record", [])
        case "files":
            path, _, value = line.partition(":")
            uid, _, file = path.partition("/")
            parts.files.setdefault(uid, {}).setdefault(file, []).append(value)
        case "processes":
            path, _, value = line.partition(":")
            parts.processes[path.removeprefix("/proc/").removesuffix("/stat")] = value
        case "sums":
            path, _, verdict = line.rpartition(": ")
            parts.sums[path] = verdict
        case "modes":
            mode, _, path = line.partition(" ")
            parts.modes[path] = mode.rjust(4, "0")
        case "artifacts":
            size, mtime, ctime, path = (line.split(" ", 3) + [""] * 4)[:4]
            parts.artifacts[path.removeprefix("../")] = f"{size} {mtime} {ctime}"
        case "changed" if line.startswith("env "):
            uid, variable, verdict = (line.removeprefix("env ").split(" ", 2) + [""] * 3)[:3]
            parts.variables.setdefault(uid, {})[variable] = verdict
        case "changed":
            digest, _, path = line.partition("  ")
            parts.digests[path] = f"sha256:{digest}"
        case "units":
            # systemctl separates units by an empty line, and gives properties in an order of its own.
            key, _, value = line.partition("=")
            if not line:
                parts.block = {}
            parts.block[key] = value
            parts.units[parts.block.get("Id", "")] = parts.block
        case _:
            pass


def _architecture(machine: str | None) -> str | None:
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine) if machine else None


def _record(lines: list[str]) -> dict[str, str] | None:
    """The record's values, or None when it is damaged."""
    values = dict(line.split("=", 1) for line in lines if "=" in line)
    whole = values.get("format") == RECORD_FORMAT and values.get("end") == "1"
    numbers = all(values.get(k, "").isdigit() for k in ("epoch", "generation", "attempt"))
    return values if whole and numbers else None


def _node(uid: str, parts: _Sections, root: str) -> ObservedNode | None:
    """One node, or None where there is only a tombstone, or nothing but a folder."""
    files = parts.files[uid]
    if "record" not in files:
        return None
    record = _record(files["record"])
    if record is None or record["uid"] != uid:
        return _damaged(uid, "its record cannot be read")
    if record["destroyed"]:
        return None
    try:
        fields = json.loads("\n".join(files.get("fields.json", [])))
    except ValueError:
        fields = None
    placing = record["phase"] == "begun" and record["effect"] in ("create", "reload")
    if not isinstance(fields, dict) and not placing:
        return _damaged(uid, "its managed fields cannot be read", record)
    run = _run(files, parts, record)
    return ObservedNode(
        uid=uid,
        fleet=record["fleet"],
        name=record["node"],
        lineage=record["lineage"],
        epoch=int(record["epoch"]),
        generation=int(record["generation"]),
        version=record["version"],
        digest=record["digest"],
        fields=_drifted(uid, {k: str(v) for k, v in (fields or {}).items()}, parts, root, record),
        state=run.state,
        health=HealthState.UNKNOWN,
        instance=run.instance,
        started_at=run.started_at,
        operation=record["operation"] or None,
        attempt=int(record["attempt"]),
        phase="begun" if record["phase"] == "begun" else "done",
        port=_port(fields),
        exit_code=run.exit_code,
        detail=run.detail,
    )


def _damaged(uid: str, why: str, record: Mapping[str, str] | None = None) -> ObservedNode:
    known = record or {}
    return ObservedNode(
        uid=uid,
        fleet=known.get("fleet", ""),
        name=known.get("node", ""),
        lineage=known.get("lineage", ""),
        epoch=int(known.get("epoch", 0)),
        generation=int(known.get("generation", 0)),
        version=known.get("version", ""),
        digest=known.get("digest", ""),
        state=NodeState.DAMAGED,
        detail=why,
    )


def _port(fields: Mapping[str, object] | None) -> int | None:
    text = str((fields or {}).get("port", ""))
    return int(text) if text.isdigit() else None


@dataclass(frozen=True, slots=True)
class _Run:
    """The last start of a node, as facts."""

    state: NodeState
    instance: str | None = None
    started_at: str | None = None
    exit_code: int | None = None
    detail: str = ""


def _run(files: Mapping[str, list[str]], parts: _Sections, record: Mapping[str, str]) -> _Run:
    """Whether the very process that was started lives: by pid, start time and boot id."""
    meant = record["want"] == "running"
    words = " ".join(files.get("process", [])).split()
    if len(words) != 6:
        detail = "it was to run, and no start of it is recorded" if meant else "never started"
        return _Run(NodeState.EXITED if meant else NodeState.STOPPED, detail=detail)
    if words[0] == "unit":
        return _unit_run(files, parts, meant, words[1], words[5], record["uid"])
    pid, start, boot, _, _, started_at = words
    instance = f"{pid}.{start}.{boot}"
    state = process_state(parts.processes.get(pid, ""), start) if boot == parts.head.get("boot") else None
    if state is not None:
        paused = state in ("T", "t")
        return _Run(NodeState.PAUSED if paused else NodeState.RUNNING, instance, started_at)
    ended = " ".join(files.get("exit", [])).split()
    code = int(ended[1]) if len(ended) >= 2 and ended[0] == instance and ended[1].isdigit() else None
    if not meant:
        return _Run(NodeState.STOPPED, instance, started_at, code, "stopped")
    if boot != parts.head.get("boot"):
        detail = "the host was restarted since"
    elif code is None:
        detail = "it ended, and nothing recorded how"
    else:
        detail = f"it ended with {exit_text(code)}"
    return _Run(NodeState.EXITED, instance, started_at, code, detail)


def _unit_run(
    files: Mapping[str, list[str]], parts: _Sections, meant: bool, noted: str, started_at: str, uid: str
) -> _Run:
    """The same for a unit: systemd knows whether it runs, and `exit` how its last start ended."""
    unit = parts.units.get(f"fleetctl-{uid}.service", {})
    active, sub = unit.get("ActiveState", "inactive"), unit.get("SubState", "")
    instance = unit.get("InvocationID") or noted
    waiting = active == "activating" and sub == "auto-restart"
    if active in ("active", "reloading", "deactivating", "activating") and not waiting:
        return _Run(
            NodeState.RUNNING, instance, started_at, detail="stopping" if active == "deactivating" else ""
        )
    ended = " ".join(files.get("exit", [])).split()
    code = int(ended[1]) if len(ended) >= 2 and ended[0] == instance and ended[1].isdigit() else None
    if not meant and not waiting:
        return _Run(NodeState.STOPPED, instance, started_at, code, "stopped")
    how = "it ended" if code is None else f"it ended with {exit_text(code)}"
    return _Run(
        NodeState.EXITED,
        instance,
        started_at,
        code,
        f"{how}, and systemd is about to start it again" if waiting else how,
    )


def process_state(stat: str, start: str) -> str | None:
    """The state letter in a line of /proc/PID/stat, or None: no such process, a zombie, or a later one."""
    words = stat.rpartition(") ")[2].split()
    # After the name: state is the 1st word, the start time in ticks since boot the 20th (proc_pid_stat(5)).
    if len(words) < 20 or words[19] != start or words[0] in ("Z", "X", "x"):
        return None
    return words[0]


def exit_text(code: int) -> str:
    """An exit status in words: what a shell reports as 128+N was signal N."""
    return f"signal {code - 128}" if 128 < code < 128 + 65 else f"exit status {code}"


def _drifted(
    uid: str, fields: dict[str, str], parts: _Sections, root: str, record: Mapping[str, str]
) -> dict[str, str]:
    """The managed fields as they really are: what was changed by hand shows in the field it belongs to."""
    node = f"{root}/nodes/{uid}"
    if f"{node}/launch" in parts.sums and "command" in fields:
        fields["command"] = CHANGED
    if f"{node}/run" in parts.sums or f"{node}/gate" in parts.sums:
        fields["supervisor"] = CHANGED
    if parts.units.get(f"fleetctl-{uid}.service", {}).get("DropInPaths") and "command" in fields:
        fields["command"] = CHANGED
    for line in parts.files[uid].get("placed", []):
        kind, key, mode, secrecy, path = (line.split("\t", 4) + [""] * 5)[:5]
        if kind == "file" and key == "unit" and (path in parts.sums or path not in parts.modes):
            fields["command"] = CHANGED
        elif kind == "file" and key in fields:
            fields[key] = _file_field(fields[key], mode, secrecy == "secret", path, parts)
    verdict = parts.sums.get(f"{node}/env")
    if verdict is not None:
        _env_fields(fields, parts.variables.get(uid, {}), gone=not verdict.endswith("FAILED"))
    artifact = record["artifact"].removeprefix(f"{root}/")
    there = parts.artifacts.get(artifact)
    if there is None:
        fields["artifact.digest"] = MISSING
    elif record["artifact_stat"] and there != record["artifact_stat"]:
        fields["artifact.digest"] = CHANGED
    return fields


def _file_field(value: str, mode: str, secret: bool, path: str, parts: _Sections) -> str:
    verdict = parts.sums.get(path)
    found = parts.modes.get(path)
    if found is None:
        return MISSING
    body = value.partition(" ")[2]
    if verdict is not None:
        digest = parts.digests.get(path)
        body = CHANGED if secret or digest is None else digest
    return f"{found if found != mode else mode} {body}"


def _env_fields(fields: dict[str, str], verdicts: Mapping[str, str], *, gone: bool) -> None:
    for key in [k for k in fields if k.startswith("env.")]:
        verdict = verdicts.get(key.removeprefix("env."))
        if gone or verdict is None:
            fields[key] = MISSING
        elif verdict.startswith("plain "):
            fields[key] = _unquoted(verdict.removeprefix("plain ").replace("\x01", "\n"))
        elif verdict != "same":
            fields[key] = CHANGED
    for variable, verdict in verdicts.items():
        if f"env.{variable}" not in fields and verdict != "same":
            fields[f"env.{variable}"] = "(added on the host)"


def _unquoted(entry: str) -> str:
    """The value of NAME="value" as it was quoted by `executors.host.shell`; anything else as it stands."""
    value = entry.partition("=")[2]
    if len(value) >= 2 and value[0] == value[-1] == '"':
        return re.sub(r'\\([\\"$`])', r"\1", value[1:-1])
    return value
