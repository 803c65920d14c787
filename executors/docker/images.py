"""Pinned images on an engine: from a registry by digest, from an image archive, or from a root file system.

The pin of a registry image is the digest in its reference (of an index or of one platform's manifest);
the pin of a file is the sha256 of the file, already verified when it comes here. Tags play no part.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executors.docker import names
from executors.docker.progress import Progress
from executors.driver import DriverError, StagedArtifact, Tell, silent
from planner.spec import ArtifactPin

if TYPE_CHECKING:
    import docker

# manifest.json of an archive is a list of names; more than this is not one.
ARCHIVE_MANIFEST_MAX_B = 4 * 2**20


class Match(Enum):
    """What an engine's image says about a pin (cases D2)."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_VERIFIED = "not verified"


class ImageError(DriverError):
    """An image cannot be had: says which and why."""

    code = "docker.image"


def match(image: Mapping[str, Any], reference: str) -> Match:
    """Whether an inspected image is what `repo@sha256:…` names.

    The digest may be the index's or the platform's: the engine files the image under the one it was pulled by.
    An image without RepoDigests (loaded from a file) is not verified, which is not the same as different.
    """
    repository, _, digest = bare(reference).partition("@")
    if image.get("Id") == digest:
        return Match.SAME
    ours = [d for d in image.get("RepoDigests") or [] if _repository(d) == _normalized(repository)]
    if not ours:
        return Match.NOT_VERIFIED
    return Match.SAME if any(d.endswith(f"@{digest}") for d in ours) else Match.DIFFERENT


def bare(reference: str) -> str:
    """NAME@DIGEST of NAME:TAG@DIGEST: the tag tells people what was pinned, and decides nothing."""
    name, at, digest = reference.partition("@")
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}{at}{digest}" if at else reference


def digest_of_tag(api: docker.APIClient, reference: str) -> str:
    """The digest that NAME:TAG has in its registry now, asked through the engine and with its credentials.

    It is the index's where the image has several platforms. Raises ImageError.
    """
    from docker.errors import APIError

    try:
        answer = api.inspect_distribution(reference)  # type: ignore[no-untyped-call]
        return str(answer["Descriptor"]["digest"])
    except (APIError, KeyError) as e:
        why = (e.explanation if isinstance(e, APIError) else None) or str(e)
        raise ImageError(
            f"{reference}: its registry was asked for its digest: {why}", hint=_pull_hint(why, "tag")
        ) from e


def _repository(repo_digest: str) -> str:
    return _normalized(repo_digest.partition("@")[0])


def _normalized(repository: str) -> str:
    """Docker's familiar names: docker.io/library/x, docker.io/x and x are one."""
    name = repository.removeprefix("docker.io/").removeprefix("index.docker.io/")
    return name.removeprefix("library/")


def archive_image_id(path: Path) -> str | None:
    """The id of the one image in a `docker save` archive (the digest of its configuration), or None for a
    plain root file system. Raises DriverError for an archive of several images, or a file that is no tar.
    """
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                if (
                    member.name.removeprefix("./") == "manifest.json"
                    and member.size <= ARCHIVE_MANIFEST_MAX_B
                ):
                    return _id_in_manifest(tar, member, path)
    except (tarfile.TarError, EOFError, OSError) as e:
        raise DriverError(f"{path}: neither an image archive nor a root file system: {e}") from e
    return None


def _id_in_manifest(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> str | None:
    file = tar.extractfile(member)
    assert file is not None
    try:
        manifest = json.loads(file.read())
        configs = [str(entry["Config"]) for entry in manifest]
    except (ValueError, TypeError, KeyError):
        return None  # a file of that name in somebody's root file system
    if len(configs) != 1:
        raise DriverError(
            f"{path}: the archive holds {len(configs)} images; one is expected",
            hint="save the images into an archive each",
        )
    config = tar.extractfile(configs[0])
    if config is None:
        raise DriverError(f"{path}: the archive names the configuration {configs[0]} and does not hold it")
    return "sha256:" + hashlib.sha256(config.read()).hexdigest()


class Images:
    """The pinned images of one engine. Remembers what it staged; everything is looked up again when it must be."""

    def __init__(self, api: docker.APIClient) -> None:
        self._api: Any = api  # parts of the library have no types
        self._ids: dict[str, str] = {}
        self._volumes: dict[str, tuple[str, ...]] = {}

    def stage(self, pin: ArtifactPin, local_path: str, tell: Tell = silent) -> str:
        """Makes sure that the image is on the engine, and gives its id. Raises ImageError and DriverError."""
        if pin.in_registry:
            image_id = self._registry(pin.source, tell)
        else:
            image_id = self._file(pin, Path(local_path))
        self._ids[pin.digest] = image_id
        return image_id

    def find(self, pin: ArtifactPin) -> str | None:
        """The id of a staged image, without bringing it; None when it is not there (any more)."""
        known = self._ids.get(pin.digest)
        if known is not None:
            return known
        if pin.in_registry:
            image = self._inspect(bare(pin.source))
            return image["Id"] if image is not None and match(image, pin.source) is Match.SAME else None
        found = self._imported(pin)
        if found is None and Path(pin.source).is_file():
            image_id = archive_image_id(Path(pin.source))
            found = image_id if image_id is not None and self._inspect(image_id) is not None else None
        return found

    def volumes(self, image_id: str) -> tuple[str, ...]:
        """The paths for which the image declares volumes; an image never changes, so it is asked once."""
        if image_id not in self._volumes:
            declared = self._api.inspect_image(image_id)["Config"].get("Volumes") or {}
            self._volumes[image_id] = tuple(declared)
        return self._volumes[image_id]

    def _registry(self, reference: str, tell: Tell) -> str:
        reference = bare(reference)
        image = self._inspect(reference)
        if image is None or match(image, reference) is not Match.SAME:
            self._pull(reference, tell)
            image = self._inspect(reference)
        if image is None or match(image, reference) is not Match.SAME:
            raise ImageError(f"{reference}: was pulled, and the engine does not have it under this digest")
        return str(image["Id"])

    def _pull(self, reference: str, tell: Tell) -> None:
        from docker.errors import APIError, ImageNotFound

        repository, _, digest = reference.partition("@")
        progress = Progress(tell)
        try:
            for line in self._api.pull(repository, tag=digest, stream=True, decode=True):
                if "error" in line:
                    raise ImageError(
                        f"{reference}: could not be pulled: {line['error']}", hint=_pull_hint(line["error"])
                    )
                progress.hear(line)
        except (APIError, ImageNotFound) as e:
            why = e.explanation or str(e)
            raise ImageError(f"{reference}: could not be pulled: {why}", hint=_pull_hint(why)) from e

    def _file(self, pin: ArtifactPin, path: Path) -> str:
        image_id = archive_image_id(path)
        if image_id is None:
            return self._imported(pin) or self._import(pin, path)
        if self._inspect(image_id) is None:
            with path.open("rb") as file:
                for line in self._api.load_image(file, quiet=True) or ():
                    if "error" in line:
                        raise ImageError(f"{path}: could not be loaded: {line['error']}")
        if self._inspect(image_id) is None:
            raise ImageError(
                f"{path}: was loaded, and the engine does not have image {image_id}",
                hint="an engine with the containerd image store names images differently; push the image to a registry",
            )
        return image_id

    def _import(self, pin: ArtifactPin, path: Path) -> str:
        from docker.errors import APIError

        try:
            with path.open("rb") as file:
                said = self._api.import_image_from_data(
                    file, changes=[f"LABEL {names.ARTIFACT}={pin.digest}"]
                )
        except APIError as e:
            raise ImageError(f"{path}: could not be imported: {e.explanation or e}") from e
        found = self._imported(pin)
        if found is None:
            raise ImageError(f"{path}: was imported, and the engine does not have it: {said}")
        return found

    def _imported(self, pin: ArtifactPin) -> str | None:
        images = self._api.images(filters={"label": f"{names.ARTIFACT}={pin.digest}"}, all=False)
        return min((str(i["Id"]) for i in images), default=None)

    def _inspect(self, reference: str) -> dict[str, Any] | None:
        from docker.errors import ImageNotFound, NotFound

        try:
            return dict(self._api.inspect_image(reference))
        except (ImageNotFound, NotFound):
            return None


def staged(api: Any, pins: Sequence[ArtifactPin]) -> tuple[StagedArtifact, ...]:
    """The images of these pins that are on the engine, and whether a container (anybody's) is made from them, or
    somebody calls them by a name of his own.
    """
    images = Images(api)
    used = {str(c["ImageID"]) for c in api.containers(all=True)}
    out = []
    for pin in pins:
        image_id = images.find(pin)
        if image_id is None:
            continue
        image = api.inspect_image(image_id)
        # Removing an image by id needs all its names gone; by its own reference only that one goes.
        where = bare(pin.source) if pin.in_registry else image_id
        age_s = _age_s(image, api)
        # The engine does not remove by its id what bears several names; by its own reference only that one goes.
        named = not pin.in_registry and _names(image) > 1
        out.append(
            StagedArtifact(pin.digest, where, int(image["Size"]), age_s, used=named or image_id in used)
        )
    return tuple(out)


def _names(image: Mapping[str, Any]) -> int:
    """How many names an image bears: its tags, and the repositories under which it was pulled by digest."""
    tags = set(image.get("RepoTags") or ())
    tagged = {tag.rpartition(":")[0] for tag in tags}
    pulled = {name.partition("@")[0] for name in image.get("RepoDigests") or ()}
    return len(tags) + len(pulled - tagged)


def _age_s(image: Mapping[str, Any], api: Any) -> float:
    """Since when the engine has it, by the engine's own clock."""
    since = (image.get("Metadata") or {}).get("LastTagTime") or ""
    now = str(api.info()["SystemTime"])
    return max(0.0, (_moment(now) - _moment(since)).total_seconds()) if since[:4] > "0001" else float("inf")


def _moment(text: str) -> datetime:
    """RFC 3339 with nanoseconds, as Go writes it."""
    head, _, rest = text.partition(".")
    zone = rest.lstrip("0123456789") if rest else ""
    return datetime.fromisoformat((head if not rest else head + zone).replace("Z", "+00:00"))


def _pull_hint(why: str, what: str = "digest") -> str | None:
    lowered = why.lower()
    if any(word in lowered for word in ("unauthorized", "denied", "authentication", "credentials")):
        return "log in with `docker login`, or set up a credential helper, for the user that runs fleetctl"
    if "not found" in lowered or "unknown" in lowered:
        return f"check that this {what} was pushed to this repository"
    return None
