"""A group's process with a node's own changes merged in."""

from __future__ import annotations

from dataclasses import dataclass

from manifests.schema import fleet as schema
from manifests.schema.base import SecretValue
from manifests.schema.fleet import EnvVar, File, Limits, OnChange, Signal


@dataclass(frozen=True, slots=True)
class Process:
    """What a node runs, templates unrendered. `env` is in order of the names; `limits` None means no limits."""

    command: tuple[str, ...]
    env: dict[str, str | SecretValue | EnvVar]
    files: tuple[File, ...]
    user: str | None
    limits: Limits | None
    on_change: OnChange
    reload_signal: Signal


def merged(process: schema.Process, own: schema.ProcessOverride | None) -> Process:
    """The group's process as one node has it: command and user replace, env and files merge by name and path,
    limits replace those that are given.
    """
    command, env, files = process.command, dict(process.env), list(process.files)
    user, limits = process.user, process.limits
    if own is not None:
        command = own.command or command
        env |= own.env
        for file in own.files:
            files = [f for f in files if f.path != file.path]
            files.append(file)
        user = own.user or user
        if own.limits is not None:
            given = {name: value for name, value in own.limits.__dict__.items() if value is not None}
            limits = limits.model_copy(update=given)
    return Process(
        command,
        {name: env[name] for name in sorted(env)},
        tuple(files),
        user,
        None if limits == Limits() else limits,
        process.on_change,
        process.reload_signal,
    )
