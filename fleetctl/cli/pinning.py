"""What `pin` finds and writes: the digests that sources have now, against those that Release documents pin."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleetctl.cli import rewrite
from fleetctl.cli.invocation import Invocation
from manifests.errors import FleetctlError
from manifests.pinning import (
    Pinned,
    Unpinnable,
    Wanted,
    appended,
    edited,
    edits,
    pins,
    release_document,
    text_of,
    with_artifact,
)
from manifests.schema.release import IMAGE_FILES

ENGINE_DEFAULT = "unix:///var/run/docker.sock"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One artifact: `pinned` for the first time, `moved` under the same version, or the `same`."""

    address: str
    place: str
    before: str | None
    after: str
    source: str

    @property
    def kind(self) -> str:
        if self.before is None:
            return "pinned"
        return "same" if self.before == self.after else "moved"


@dataclass(frozen=True, slots=True)
class Change:
    """One file: its bytes before and after, and what became of its artifacts."""

    path: Path
    before: bytes
    after: bytes
    outcomes: tuple[Outcome, ...]


class Resolver:
    """Looks sources up, each once. `variables` are those of templates, `engine` the Docker engine that is asked."""

    def __init__(self, invocation: Invocation, variables: Mapping[str, Any], engine: str | None) -> None:
        self._invocation = invocation
        self._variables = variables
        self._engine = engine or invocation.environ.get("DOCKER_HOST") or ENGINE_DEFAULT
        self._known: dict[str, str] = {}

    def wanted(self, substrate: str, source: str, folder: Path) -> Wanted:
        """What an artifact is to be pinned to. Raises ArtifactError, DriverError, TemplateError, Unpinnable."""
        from manifests.template import Renderer

        rendered = Renderer().render(source, {"vars": self._variables})
        if substrate == "docker" and not (rendered.endswith(IMAGE_FILES) or "://" in rendered):
            return self._image(rendered, source)
        from executors.pins import digest_now

        place = rendered if "://" in rendered else posixpath.join(folder.absolute(), rendered)
        clock = self._invocation.clock
        return Wanted(source, self._once(place, lambda: digest_now(place, clock), tell="://" in place))

    def _image(self, rendered: str, source: str) -> Wanted:
        name, _, digest = rendered.partition("@")
        if ":" in name.rpartition("/")[2]:
            digest = self._once(name, lambda: self._ask(name), tell=True)
        elif not digest:
            raise Unpinnable(f"{rendered} names neither a tag nor a digest", hint=f"name a tag: {name}:1.2.3")
        return Wanted(f"{source.partition('@')[0]}@{digest}", digest)

    def _once(self, key: str, look: Callable[[], str], *, tell: bool) -> str:
        if key not in self._known:
            if tell:
                self._invocation.terminal.say(f"Looking up {key}")
            self._known[key] = look()
        return self._known[key]

    def _ask(self, name: str) -> str:
        from executors import registry
        from manifests.schema.host import Docker, Host

        engine = Docker(url=self._engine)
        host = Host(api_version="fleetctl/v1", kind="Host", name="localhost", docker=engine)
        return registry.image_digest(host, name)


def repinned(path: Path, resolver: Resolver) -> Change:
    """A file with the digests that its Releases' sources have now. Raises FleetctlError."""
    before = rewrite.read(path)
    text = text_of(before, str(path))
    made, outcomes, wants = [], [], []
    for pin in pins(before, str(path)):
        wanted = resolver.wanted(pin.substrate, pin.source, path.parent)
        wants.append(wanted.digest)
        made += edits(pin, wanted, text)
        outcomes.append(Outcome(pin.address, pin.place, pin.digest, wanted.digest, pin.source))
    after = edited(text, made).encode() if made else before
    _ensure_written(after, str(path), wants)
    return Change(path, before, after, tuple(outcomes))


def released(
    path: Path, release: tuple[str, str], artifacts: Mapping[tuple[str, str], str], resolver: Resolver
) -> Change:
    """A file with a Release that has these artifacts (sources by substrate and architecture), others as they were."""
    before = rewrite.read(path) if path.exists() else b""
    name = str(path)
    there = {
        (p.substrate, p.arch): p for p in (pins(before, name) if before.strip() else []) if _of(p) == release
    }
    wanted = {key: resolver.wanted(key[0], source, path.parent) for key, source in artifacts.items()}
    outcomes = []
    after = before
    for key, want in wanted.items():
        known = there.get(key)
        text = text_of(after, name) if after.strip() else ""
        if known is not None:
            # Places move with each edit, so they are looked for again.
            known = next(p for p in pins(after, name) if _of(p) == release and (p.substrate, p.arch) == key)
            after = edited(text, edits(known, want, text)).encode()
        elif there:
            after = edited(text, [with_artifact(after, name, release, key, want)]).encode()
        digest = None if known is None else known.digest
        outcomes.append(
            Outcome(f"{' '.join(release)} {'/'.join(key)}", name, digest, want.digest, want.source)
        )
    if not there:
        after = appended(
            text_of(before, name) if before.strip() else "", release_document(*release, wanted)
        ).encode()
    found = {(p.substrate, p.arch): p.digest for p in pins(after, name) if _of(p) == release}
    _ensure(all(found.get(key) == want.digest for key, want in wanted.items()), name)
    return Change(path, before, after, tuple(outcomes))


def _of(pin: Pinned) -> tuple[str, str]:
    return pin.product, pin.version


def _ensure_written(after: bytes, name: str, wants: Iterable[str]) -> None:
    _ensure([p.digest for p in pins(after, name)] == list(wants), name)


def _ensure(written: bool, name: str) -> None:
    """What is about to be written says what is wanted. Raises Unpinnable."""
    if not written:
        raise Unpinnable(
            f"{name}: the pins cannot be written into it as it is laid out",
            hint="lay it out first: fleetctl fmt; or write the digests yourself",
        )


def parse_release(text: str) -> tuple[str, str]:
    """PRODUCT@VERSION. Raises FleetctlError."""
    from manifests.address import is_name
    from manifests.version import is_version

    product, _, version = text.partition("@")
    if not is_name(product) or not is_version(version):
        raise FleetctlError(
            f"{text!r} is no release",
            hint="write PRODUCT@VERSION, such as hello@1.2.0",
            code="option.invalid",
        )
    return product, version


def parse_artifact(text: str) -> tuple[tuple[str, str], str]:
    """SUBSTRATE[/ARCH]=SOURCE. Raises FleetctlError."""
    from typing import get_args

    from manifests.schema.release import Architecture, Substrate

    place, _, source = text.partition("=")
    substrate, _, arch = place.partition("/")
    arch = arch or "any"
    if substrate not in get_args(Substrate) or arch not in get_args(Architecture) or not source:
        raise FleetctlError(
            f"{text!r} is no artifact",
            hint="write SUBSTRATE[/ARCH]=SOURCE, such as host=./hello-1.2.0, docker=REPOSITORY:TAG or "
            "qemu/x86_64=https://…; substrates are host, docker and qemu",
            code="option.invalid",
        )
    return (substrate, arch), source
