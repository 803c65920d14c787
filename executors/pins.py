"""A source's digest, as it is now: of a file, of what an URL gives, of the image that a tag names."""

from __future__ import annotations

from hashlib import sha256

from executors import artifacts
from executors.artifacts import ARTIFACT_MAX_B, DOWNLOAD_DEADLINE_S, ArtifactError
from executors.clock import Clock


def digest_now(source: str, clock: Clock, *, ca_file: str | None = None) -> str:
    """The pin of the bytes behind a path, an https or an s3 URL. Raises ArtifactError, as `artifacts.fetch` does.

    Nothing is kept: what is pinned now may be fetched much later, by others.
    """
    hasher = sha256()
    size_b = 0
    for chunk in artifacts.chunks(source, clock, ca_file, DOWNLOAD_DEADLINE_S):
        size_b += len(chunk)
        if size_b > ARTIFACT_MAX_B:
            raise ArtifactError(
                f"the artifact {source} is larger than {ARTIFACT_MAX_B} bytes", code="artifact.too_large"
            )
        hasher.update(chunk)
    return f"sha256:{hasher.hexdigest()}"
