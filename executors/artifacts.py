"""Brings an artifact's bytes into a content-addressed cache on this machine, verified by their sha256 pin.

CACHE/sha256/<hex>      the bytes; a name is seen only after its content was verified and synced
CACHE/partial/          downloads under way; what was left there by a killed run is never an artifact
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from executors.clock import Clock, SystemClock
from manifests.errors import FleetctlError
from planner.spec import ArtifactPin

_CHUNK_B = 256 * 1024
# A release past this is not something to keep on every host; it also bounds what a wrong server can send.
ARTIFACT_MAX_B = 8 * 2**30
CONNECT_TIMEOUT_S = 10.0
# Silence of the server for this long is an interruption.
READ_TIMEOUT_S = 30.0
DOWNLOAD_DEADLINE_S = 3600.0
REDIRECTS_MAX = 5
# Partial files older than this belong to a run that is gone.
_PARTIAL_AGE_S = 86_400.0


class ArtifactError(FleetctlError):
    """An artifact's bytes cannot be had, or are not the pinned ones; the code says which."""

    code = "artifact.unusable"


def fetch(
    pin: ArtifactPin,
    cache: Path,
    *,
    clock: Clock | None = None,
    ca_file: str | None = None,
    deadline_s: float = DOWNLOAD_DEADLINE_S,
) -> Path:
    """The verified file with the pin's bytes: out of the cache, or from its source (a path, an https or s3 URL).

    What is in the cache is verified again each time. Raises ArtifactError with code `artifact.missing`,
    `.unreadable`, `.digest_mismatch` (both digests shown), `.interrupted`, `.too_large`, `.redirect` or
    `.cache`. `ca_file` names certificates that are trusted instead of the system's.
    """
    clock = clock or SystemClock()
    cached = cache / "sha256" / pin.digest.removeprefix("sha256:")
    if _is_whole(cached, pin.digest):
        return cached
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        partials = cache / "partial"
        partials.mkdir(exist_ok=True)
        _sweep(partials, clock)
        partial = partials / clock.new_id()
        out = partial.open("xb")
    except OSError as e:
        raise _cache_error(cache, e) from e
    try:
        with out:
            found = _write(chunks(pin.source, clock, ca_file, deadline_s), out, cache, pin)
        if found != pin.digest:
            raise ArtifactError(
                f"the artifact {pin.source} is not the pinned one: its bytes have {found}, "
                f"and the manifest pins {pin.digest}",
                code="artifact.digest_mismatch",
                hint="if the new bytes are meant, write their digest into the Release under a new version",
            )
        try:
            partial.replace(cached)
            _sync_folder(cached.parent)
        except OSError as e:
            raise _cache_error(cache, e) from e
    finally:
        partial.unlink(missing_ok=True)
    return cached


def digest_of_file(path: Path) -> str:
    """The pin of a file's bytes, read in pieces; raises OSError."""
    hasher = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_B):
            hasher.update(chunk)
    return f"sha256:{hasher.hexdigest()}"


def _is_whole(cached: Path, digest: str) -> bool:
    """Whether the cache has exactly these bytes; a damaged file is removed, and fetched again."""
    try:
        if digest_of_file(cached) == digest:
            return True
        cached.unlink()
    except OSError:
        return False
    return False


def _write(chunks: Iterator[bytes], out: IO[bytes], cache: Path, pin: ArtifactPin) -> str:
    """Streams the source into the open file, hashing on the way; synced when it returns."""
    hasher = sha256()
    size_b = 0
    for chunk in chunks:
        size_b += len(chunk)
        if size_b > ARTIFACT_MAX_B:
            raise ArtifactError(
                f"the artifact {pin.source} is larger than {ARTIFACT_MAX_B} bytes", code="artifact.too_large"
            )
        hasher.update(chunk)
        try:
            out.write(chunk)
        except OSError as e:
            raise _cache_error(cache, e) from e
    try:
        out.flush()
        os.fsync(out.fileno())
    except OSError as e:
        raise _cache_error(cache, e) from e
    return f"sha256:{hasher.hexdigest()}"


def chunks(source: str, clock: Clock, ca_file: str | None, deadline_s: float) -> Iterator[bytes]:
    """The bytes of a source in pieces: a path, an https or an s3 URL. Raises ArtifactError as `fetch` says."""
    scheme = urlsplit(source).scheme if "://" in source else ""
    if scheme == "https":
        return _download(source, clock, ca_file, deadline_s)
    if scheme == "s3":
        from executors import artifacts_s3

        return artifacts_s3.download(source, clock, deadline_s, _CHUNK_B)
    if scheme:
        raise ArtifactError(
            f"the artifact {source} cannot be fetched over {scheme}",
            hint="use a path, an https:// URL or s3://BUCKET/KEY",
        )
    return _read(Path(source))


def _read(path: Path) -> Iterator[bytes]:
    try:
        if path.is_dir():
            raise ArtifactError(f"the artifact {path} is a folder, not a file", code="artifact.unreadable")
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_B):
                yield chunk
    except FileNotFoundError as e:
        raise ArtifactError(
            f"the artifact {path} is not there",
            code="artifact.missing",
            hint="a path in a Release is relative to the manifest file that holds it",
        ) from e
    except OSError as e:
        raise ArtifactError(
            f"the artifact {path} cannot be read: {e.strerror or e}", code="artifact.unreadable"
        ) from e


def _download(url: str, clock: Clock, ca_file: str | None, deadline_s: float) -> Iterator[bytes]:
    """The bytes behind an https URL. Redirects go to https only, and few of them."""
    import ssl

    import httpx

    deadline = clock.monotonic() + deadline_s
    timeout = httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
    context = ssl.create_default_context(cafile=ca_file)
    try:
        with httpx.Client(verify=context, timeout=timeout, follow_redirects=False) as client:
            target = url
            for _ in range(REDIRECTS_MAX + 1):
                # identity: the pin is of the bytes as published, not of what a proxy made of them.
                with client.stream("GET", target, headers={"Accept-Encoding": "identity"}) as response:
                    if response.is_redirect:
                        target = str(response.url.join(response.headers["location"]))
                        if urlsplit(target).scheme != "https":
                            raise ArtifactError(
                                f"the artifact {url} redirects to {target}, which is not https",
                                code="artifact.redirect",
                            )
                        continue
                    _refuse_status(url, response.status_code)
                    for chunk in response.iter_raw(_CHUNK_B):
                        if clock.monotonic() > deadline:
                            raise ArtifactError(
                                f"the artifact {url} did not arrive within {deadline_s:g} s",
                                code="artifact.interrupted",
                            )
                        yield chunk
                    return
            raise ArtifactError(
                f"the artifact {url} redirects more than {REDIRECTS_MAX} times", code="artifact.redirect"
            )
    except httpx.HTTPError as e:
        raise ArtifactError(
            f"the download of {url} was interrupted: {str(e) or type(e).__name__}",
            code="artifact.interrupted",
            hint="nothing of it is kept; run the command again",
        ) from e


def _refuse_status(url: str, status: int) -> None:
    if status == 200:
        return
    code = "artifact.missing" if status in (404, 410) else "artifact.unreadable"
    raise ArtifactError(f"the artifact {url} cannot be fetched: the server answers {status}", code=code)


def _cache_error(cache: Path, error: OSError) -> ArtifactError:
    return ArtifactError(
        f"the artifact cache {cache} cannot be written: {error.strerror or error}",
        code="artifact.cache",
        hint="check its rights and free space, or name another place: FLEETCTL_CACHE",
    )


def _sweep(partials: Path, clock: Clock) -> None:
    """Removes what runs that were killed long ago have left behind."""
    oldest = clock.now().timestamp() - _PARTIAL_AGE_S
    for path in partials.iterdir():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
