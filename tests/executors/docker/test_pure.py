"""The docker driver's pure parts: what is sent is what is read back; images are matched by digest (D2, D3)."""

from __future__ import annotations

import pytest

from executors.docker import observe
from executors.docker.images import Match, match
from executors.docker.progress import Progress
from planner.observed import HealthState
from planner.spec import ArtifactPin

PIN = "sha256:" + "a" * 64
OTHER = "sha256:" + "b" * 64
REPO = "registry.example:5000/team/app"


@pytest.mark.parametrize(
    ("image", "reference", "expected"),
    [
        ({"Id": OTHER, "RepoDigests": [f"{REPO}@{PIN}"]}, f"{REPO}@{PIN}", Match.SAME),
        ({"Id": OTHER, "RepoDigests": [f"{REPO}@{OTHER}", f"{REPO}@{PIN}"]}, f"{REPO}@{PIN}", Match.SAME),
        ({"Id": PIN, "RepoDigests": []}, f"{REPO}@{PIN}", Match.SAME),
        ({"Id": OTHER, "RepoDigests": [f"{REPO}@{OTHER}"]}, f"{REPO}@{PIN}", Match.DIFFERENT),
        ({"Id": OTHER, "RepoDigests": []}, f"{REPO}@{PIN}", Match.NOT_VERIFIED),
        ({"Id": OTHER, "RepoDigests": None}, f"{REPO}@{PIN}", Match.NOT_VERIFIED),
        ({"Id": OTHER, "RepoDigests": [f"elsewhere/app@{PIN}"]}, f"{REPO}@{PIN}", Match.NOT_VERIFIED),
        ({"Id": OTHER, "RepoDigests": [f"busybox@{PIN}"]}, f"docker.io/library/busybox@{PIN}", Match.SAME),
        ({"Id": OTHER, "RepoDigests": [f"docker.io/library/busybox@{PIN}"]}, f"busybox@{PIN}", Match.SAME),
    ],
)
def test_an_image_is_what_its_digests_say(image: dict[str, object], reference: str, expected: Match) -> None:
    assert match(image, reference) is expected


def test_only_a_digest_makes_a_registry_reference() -> None:
    made = ArtifactPin(source=f"{REPO}@{PIN}", digest=PIN, name="app")
    assert made.in_registry
    assert not made.model_copy(update={"source": "/x/app.tar"}).in_registry


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, HealthState.NONE),
        ({"Health": None}, HealthState.NONE),
        ({"Health": {"Status": "none"}}, HealthState.NONE),
        ({"Health": {"Status": "starting"}}, HealthState.UNKNOWN),
        ({"Health": {"Status": "healthy"}}, HealthState.PASSING),
        ({"Health": {"Status": "unhealthy"}}, HealthState.FAILING),
        ({"Health": {"Status": "something new"}}, HealthState.UNKNOWN),
    ],
)
def test_a_missing_health_check_is_none_and_never_an_error(
    state: dict[str, object], expected: HealthState
) -> None:
    assert observe.container_health({"State": state}) is expected


def test_a_pull_is_told_in_a_few_words_that_change_as_it_goes() -> None:
    heard: list[str] = []
    progress = Progress(heard.append)
    progress.hear({"status": "Pulling from team/app", "id": "sha256:aa"})
    for current in (0, 900_000, 2_000_000, 2_100_000):
        progress.hear(
            {"status": "Downloading", "id": "l1", "progressDetail": {"current": current, "total": 4_000_000}}
        )
    progress.hear(
        {"status": "Downloading", "id": "l2", "progressDetail": {"current": 1_000_000, "total": 6_000_000}}
    )
    progress.hear({"status": "Download complete", "id": "l1"})
    assert heard == ["pulling from team/app", "0 of 4 MB", "2 of 4 MB", "3 of 10 MB", "5 of 10 MB"]
