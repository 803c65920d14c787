"""Paths that documents name: made absolute, relative to the file that wrote them, and looked for.

Works on text and asks the caller's shelf for what only the file system knows.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from manifests.assemble import Assembled
from manifests.diagnostics import Diagnostic, Span, error, warning
from manifests.manifest import LOCALHOST, Key, Path
from manifests.schema.base import SecretValue
from manifests.schema.domain import Domain, PinnedFile
from manifests.schema.fleet import EnvVar, File, Fleet, Process, ProcessOverride
from manifests.schema.host import Host, Ssh
from manifests.schema.policy import Policy
from manifests.schema.release import Release
from manifests.secret import parse_ref

_AnyProcess = TypeVar("_AnyProcess", Process, ProcessOverride)
STATE_FOLDER = ".fleetctl"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Shelf(Protocol):
    """What the file system knows."""

    first_folder: str

    def folder_of(self, file: str) -> str: ...
    def pin(self, path: str) -> str | None: ...
    def readable(self, path: str) -> bool: ...


def resolve(assembled: Assembled, shelf: Shelf, findings: list[Diagnostic]) -> None:
    """Replaces the relative paths in all documents by absolute ones, and reports what is not there."""
    _Resolver(assembled, shelf, findings).run()


class _Resolver:
    def __init__(self, assembled: Assembled, shelf: Shelf, findings: list[Diagnostic]) -> None:
        self.assembled = assembled
        self.shelf = shelf
        self.findings = findings

    def run(self) -> None:
        hosts = self.assembled.hosts
        for name, host in hosts.items():
            hosts[name] = self._host(host)
        if LOCALHOST not in hosts and "Host" not in self.assembled.incomplete:
            root = self._root(LOCALHOST)
            hosts[LOCALHOST] = Host(api_version="fleetctl/v1", kind="Host", name=LOCALHOST, root=root)
        for key, release in self.assembled.releases.items():
            self.assembled.releases[key] = self._release(release)
        for name, fleet in self.assembled.fleets.items():
            self.assembled.fleets[name] = self._fleet(fleet)
        for name, policy in self.assembled.policies.items():
            self.assembled.policies[name] = self._policy(policy)

    def _absolute(self, key: Key, path: Path, text: str) -> tuple[str, Span | None]:
        span = self.assembled.where(key, path)
        folder = self.shelf.first_folder if span is None else self.shelf.folder_of(span.file)
        return posixpath.normpath(posixpath.join(folder, text)), span

    def _root(self, name: str) -> str:
        below = "host" if name == LOCALHOST else f"hosts/{name}"
        return f"{self.shelf.first_folder}/{STATE_FOLDER}/{below}"

    def _host(self, host: Host) -> Host:
        key = ("Host", host.name)
        update: dict[str, Any] = {}
        if host.ssh is None:
            if host.root is None:
                update["root"] = self._root(host.name)
            else:
                update["root"] = self._absolute(key, ("root",), host.root)[0]
        else:
            update["ssh"] = self._ssh(key, host.ssh)
        if host.docker is not None and host.docker.tls is not None:
            tls = host.docker.tls
            paths = {
                n: self._absolute(key, ("docker", "tls", n), getattr(tls, n))[0]
                for n in ("ca", "cert", "key")
            }
            update["docker"] = host.docker.model_copy(update={"tls": tls.model_copy(update=paths)})
        return host.model_copy(update=update)

    def _ssh(self, key: Key, ssh: Ssh) -> Ssh:
        update: dict[str, Any] = {}
        for name in ("identity_file", "config_file", "known_hosts"):
            text = getattr(ssh, name)
            if text is not None and not text.startswith("~"):
                update[name] = self._absolute(key, ("ssh", name), text)[0]
        if ssh.become is not None and ssh.become.password is not None:
            path = ("ssh", "become", "password", "secret")
            password = SecretValue(secret=self._reference(key, path, ssh.become.password.secret))
            update["become"] = ssh.become.model_copy(update={"password": password})
        return ssh.model_copy(update=update)

    def _release(self, release: Release) -> Release:
        key = ("Release", f"{release.product}@{release.version}")
        used = self._pinned(release)
        artifacts = []
        for i, artifact in enumerate(release.artifacts):
            if not artifact.is_image and not _SCHEME.match(artifact.source):
                absolute, span = self._absolute(key, ("artifacts", i, "source"), artifact.source)
                if not self.shelf.readable(absolute):
                    self.findings.append(_missing_artifact(release, artifact.source, absolute, span, used))
                artifact = artifact.model_copy(update={"source": absolute})
            artifacts.append(artifact)
        return release.model_copy(update={"artifacts": tuple(artifacts)})

    def _pinned(self, release: Release) -> bool:
        """Whether some fleet, group or node asks for this release."""
        for fleet in self.assembled.fleets.values():
            pins = [fleet.release]
            for group in fleet.groups:
                pins += [n.release for n in group.nodes or () if n.release is not None]
                if group.release is not None:
                    pins.append(group.release)
            if any((p.product, p.version) == (release.product, release.version) for p in pins):
                return True
        return False

    def _fleet(self, fleet: Fleet) -> Fleet:
        key = ("Fleet", fleet.name)
        groups = []
        for i, group in enumerate(fleet.groups):
            path: Path = ("groups", i)
            update: dict[str, Any] = {"process": self._process(key, (*path, "process"), group.process)}
            if group.domain is not None:
                update["domain"] = self._domain(key, (*path, "domain"), group.domain)
            if group.nodes is not None and any(n.process is not None for n in group.nodes):
                update["nodes"] = tuple(
                    n
                    if n.process is None
                    else n.model_copy(
                        update={"process": self._process(key, (*path, "nodes", j, "process"), n.process)}
                    )
                    for j, n in enumerate(group.nodes)
                )
            groups.append(group.model_copy(update=update))
        return fleet.model_copy(update={"groups": tuple(groups)})

    def _policy(self, policy: Policy) -> Policy:
        program = policy.rules.program
        # A bare name is looked for as the shell would, on PATH.
        if program is None or "/" not in program.command[0]:
            return policy
        path: Path = ("rules", "program", "command", 0)
        absolute, span = self._absolute(("Policy", policy.name), path, program.command[0])
        if not self.shelf.readable(absolute):
            self.findings.append(
                error(
                    "policy.program-missing",
                    "A policy's program cannot be read",
                    f"{program.command[0]} means {absolute}, which is not there or may not be read.",
                    span=span,
                    hint="relative paths are relative to the manifest's folder",
                    path=".".join(map(str, path)),
                )
            )
        command = (absolute, *program.command[1:])
        rules = policy.rules.model_copy(update={"program": program.model_copy(update={"command": command})})
        return policy.model_copy(update={"rules": rules})

    def _domain(self, key: Key, path: Path, domain: Domain) -> Domain:
        boot = domain.boot
        parts = {
            name: self._pin(key, (*path, "boot", name), getattr(boot, name))
            for name in ("disk", "kernel", "initrd")
        }
        template = self._pin(key, (*path, "template"), domain.template)
        return domain.model_copy(
            update={"boot": boot.model_copy(update=parts), "template": template},
        )

    def _pin(self, key: Key, path: Path, pin: PinnedFile | None) -> PinnedFile | None:
        if pin is None or _SCHEME.match(pin.source):
            return pin
        absolute, span = self._absolute(key, (*path, "source"), pin.source)
        if not self.shelf.readable(absolute):
            self.findings.append(
                error(
                    "artifact.missing",
                    "An artifact cannot be read",
                    f"{pin.source} means {absolute}, which is not there or may not be read.",
                    span=span,
                    hint="relative sources are relative to the manifest's folder",
                    path=".".join(map(str, (*path, "source"))),
                )
            )
        return pin.model_copy(update={"source": absolute})

    def _process(self, key: Key, path: Path, process: _AnyProcess) -> _AnyProcess:
        files = tuple(self._file(key, (*path, "files", i), f) for i, f in enumerate(process.files))
        env = {name: self._env(key, (*path, "env", name), v) for name, v in process.env.items()}
        return process.model_copy(update={"files": files, "env": env})

    def _env(self, key: Key, path: Path, value: Any) -> Any:
        if isinstance(value, SecretValue):
            return SecretValue(secret=self._reference(key, (*path, "secret"), value.secret))
        if isinstance(value, EnvVar) and isinstance(value.value, SecretValue):
            secret = self._reference(key, (*path, "value", "secret"), value.value.secret)
            return value.model_copy(update={"value": SecretValue(secret=secret)})
        return value

    def _file(self, key: Key, path: Path, file: File) -> File:
        if file.secret is not None:
            return file.model_copy(update={"secret": self._reference(key, (*path, "secret"), file.secret)})
        if file.source is None:
            return file
        absolute, span = self._absolute(key, (*path, "source"), file.source)
        if self.shelf.pin(absolute) is None:
            self.findings.append(
                error(
                    "file.source-missing",
                    "A file's source cannot be read",
                    f"{absolute} is not there, or is no regular file that may be read.",
                    span=span,
                    hint="relative paths are relative to the manifest's folder",
                    path=".".join(map(str, (*path, "source"))),
                )
            )
        return file.model_copy(update={"source": absolute})

    def _reference(self, key: Key, path: Path, text: str) -> str:
        """A secret's reference with an absolute path, so that it means the same wherever it is resolved."""
        reference = parse_ref(text)
        if reference is None or reference.scheme != "file" or reference.locator.startswith("~"):
            return text
        return f"file:{self._absolute(key, path, reference.locator)[0]}"


def _missing_artifact(
    release: Release, source: str, absolute: str, span: Span | None, used: bool
) -> Diagnostic:
    report: Callable[..., Diagnostic] = error if used else warning
    return report(
        "artifact.missing",
        "An artifact cannot be read",
        f"{source} of {release.product} {release.version} means {absolute}, which is not there or may not be read.",
        span=span,
        hint="relative sources are relative to the manifest's folder",
    )
