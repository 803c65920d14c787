"""Every setting is checked before start: a bad one stops it with its name and the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleetctl.cellz.errors import SettingsInvalid
from fleetctl.cellz.settings import load, unknown

HASH = "a" * 64


def test_the_originals_defaults_stand() -> None:
    settings = load({}, {})
    assert (settings.host, settings.port, settings.lease_ttl) == ("0.0.0.0", 8080, 60.0)
    assert (str(settings.data_dir), str(settings.storage_dir)) == ("data/cells", "data/storage")
    assert settings.backend == "local"


def test_a_flag_is_before_a_variable_and_a_variable_before_a_fallback() -> None:
    environ = {"CELLZ_PORT": "1", "AWS_REGION": "aws", "CELLZ_S3_REGION": "own"}
    settings = load(environ, {"port": "2"})
    assert (settings.port, settings.s3_region) == (2, "own")
    assert load({"AWS_REGION": "aws"}, {}).s3_region == "aws"


def test_a_bucket_or_endpoint_means_s3() -> None:
    assert load({"CELLZ_S3_BUCKET": "b"}, {}).backend == "s3"
    assert load({"CELLZ_S3_BUCKET": "b", "CELLZ_STORAGE_BACKEND": "local"}, {}).backend == "local"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("PORT", "80a", "is not a whole number"),
        ("PORT", "65536", "is not between"),
        ("PORT", "", "is not a whole number"),
        ("LEASE_TTL", "1m", "is not a number of seconds"),
        ("LEASE_TTL", "0", "is not between"),
        ("STORAGE_BACKEND", "gcs", "is none of"),
        ("STORAGE_BACKEND", "s3", "CELLZ_S3_BUCKET is empty"),
        ("S3_ENDPOINT", "http://x", "CELLZ_S3_BUCKET is empty"),
        ("S3_ENDPOINT", "localhost:9000", "is not an http"),
        ("S3_ACCESS_KEY_ID", "key", "come together"),
        ("SYNC", "sometimes", "is none of commit, interval"),
        ("SYNC", "interval:1", "is none of commit, interval"),
        ("SYNC", "interval:0s", "outside 10 ms"),
        ("SYNC", "interval:120s", "above CELLZ_LEASE_TTL"),
        ("FORWARD", "maybe", "is neither true nor false"),
        ("API_KEYS", f"admin:{HASH}", "is not reader:<sha256> or writer:<sha256>"),
        ("API_KEYS", "writer:secret", "is not 64 lower-case"),
        ("API_KEYS", ",", "names no key"),
        ("CORS_ORIGINS", "example", "neither * nor an origin"),
        ("ADVERTISE", "host:1", "is not an http"),
        ("NODE_ID", "a b", "has other characters"),
        ("MAX_EVENT", "4000000", "is above CELLZ_MAX_BODY"),
        ("LOG_LEVEL", "loud", "is none of"),
        ("DATA_DIR", "", "is empty"),
    ],
)
def test_a_bad_value_is_refused_with_name_and_reason(name: str, value: str, reason: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load({f"CELLZ_{name}": value}, {})
    assert reason in refused.value.message
    assert f"CELLZ_{name}" in refused.value.message or "CELLZ_S3_BUCKET" in refused.value.message


def test_every_bad_value_is_named_at_once_and_no_key_is_shown() -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load({"CELLZ_PORT": "x", "CELLZ_API_KEYS": "writer:hunter2", "CELLZ_FORWARD": "y"}, {})
    assert refused.value.message.count("CELLZ_") == 3
    assert "hunter2" not in refused.value.message


def test_a_variable_that_is_no_setting_is_noticed() -> None:
    assert unknown({"CELLZ_PROT": "1", "CELLZ_PORT": "1", "OTHER": "1"}) == ["CELLZ_PROT"]


def start(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fleetctl.cellz.cli", "serve"],
        env={"PATH": "/usr/bin:/bin", "CELLZ_DATA_DIR": str(folder / "d"), **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_daemon_does_not_start_with_a_bad_value(tmp_path: Path) -> None:
    ended = start(tmp_path, CELLZ_LEASE_TTL="abc")
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: CELLZ_LEASE_TTL 'abc' is not a number of seconds")
    assert not (tmp_path / "d").exists()


def test_the_daemon_does_not_start_without_its_bucket(tmp_path: Path) -> None:
    ended = start(
        tmp_path,
        CELLZ_S3_BUCKET="none",
        CELLZ_S3_ENDPOINT="http://127.0.0.1:9",
        CELLZ_S3_ACCESS_KEY_ID="a",
        CELLZ_S3_SECRET_ACCESS_KEY="b",
    )
    assert ended.returncode == 1
    assert "CELLZ_S3_BUCKET 'none' cannot be listed" in ended.stderr


def test_two_daemons_do_not_share_a_data_folder(tmp_path: Path) -> None:
    from tests.cellz.running import running

    with running(tmp_path) as node:
        ended = start(tmp_path, CELLZ_PORT="0", CELLZ_DATA_DIR=str(node.settings["data_dir"]))
    assert ended.returncode == 1
    assert "is in use by another cellz process" in ended.stderr


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    from tests.cellz.running import running

    with running(tmp_path) as node:
        port = node.address.rpartition(":")[2]
        ended = start(
            tmp_path, CELLZ_HOST="127.0.0.1", CELLZ_PORT=port, CELLZ_STORAGE_DIR=str(tmp_path / "s")
        )
    assert ended.returncode == 1
    assert f"CELLZ_PORT {port}" in ended.stderr
