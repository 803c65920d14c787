"""Where a remote state is: named by s3://, checked before anything is asked of the network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.settings import RemoteState, SettingsError, resolve

ENDPOINT = "http://127.0.0.1:9000"


def test_a_bucket_and_a_prefix_are_taken_from_the_option_or_the_variable(tmp_path: Path) -> None:
    settings = resolve({}, beside=tmp_path, state="s3://acme-fleets/teams/edge/")
    assert settings.remote == RemoteState("acme-fleets", "teams/edge")
    assert settings.state == tmp_path / ".fleetctl", "the cache stays on this machine"
    environ = {"FLEETCTL_STATE": "s3://acme-fleets", "FLEETCTL_STATE_ENDPOINT": ENDPOINT}
    assert resolve(environ, beside=tmp_path).remote == RemoteState("acme-fleets", "", ENDPOINT)
    other = resolve(environ, beside=tmp_path, state_endpoint="https://store.internal")
    assert other.remote == RemoteState("acme-fleets", "", "https://store.internal")
    assert resolve(environ, beside=tmp_path, state=str(tmp_path / "s")).remote is None


@pytest.mark.parametrize(
    "place",
    [
        "s3://",
        "s3:///x",
        "s3://A/x",
        "s3://ab/x",
        "s3://bucket/../other",
        "s3://bucket//x",
        "s3://bucket/a b",
        "s3://bucket/ä",
        "s3://user:word@bucket/x",
        "s3://bucket/x?versionId=1",
    ],
)
def test_a_place_that_cannot_be_is_refused_with_a_hint(place: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        resolve({}, beside=tmp_path, state=place)
    assert "s3://BUCKET" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "endpoint", ["localhost:9000", "ftp://h", "http://", "https://u:p@h", "http://h/?a=b"]
)
def test_an_endpoint_that_is_no_url_of_a_store_is_refused(endpoint: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="endpoint"):
        resolve({}, beside=tmp_path, state="s3://bucket/x", state_endpoint=endpoint)


def test_another_scheme_is_refused_and_told_which_there_are(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="gs://") as caught:
        resolve({}, beside=tmp_path, state="gs://bucket/x")
    assert "s3://" in (caught.value.hint or "")


def test_a_state_in_a_folder_loads_no_cloud_library(tmp_path: Path) -> None:
    """boto3 costs half a second and is loaded by whoever names a bucket or a secret of AWS."""
    program = (
        "import sys\n"
        "from fleetctl.cli.main import main\n"
        "code = main(['runs', sys.argv[1]])\n"
        "import executors.artifacts, executors.secrets, fleetctl.bootstrap\n"
        "assert code == 0 and not {'boto3', 'botocore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
