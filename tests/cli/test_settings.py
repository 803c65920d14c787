"""Settings are checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetctl.settings import PARALLELISM_DEFAULT, SettingsError, resolve


def test_state_lives_beside_the_first_manifest_unless_told_otherwise(tmp_path: Path) -> None:
    assert resolve({}, beside=tmp_path).state == tmp_path / ".fleetctl"
    assert resolve({"FLEETCTL_STATE": ""}, beside=tmp_path).state == tmp_path / ".fleetctl"


def test_an_option_wins_over_its_variable(tmp_path: Path) -> None:
    environ = {"FLEETCTL_STATE": str(tmp_path / "a"), "FLEETCTL_PARALLELISM": "3"}
    assert resolve(environ, beside=tmp_path).state == tmp_path / "a"
    assert resolve(environ, beside=tmp_path, state=str(tmp_path / "b")).state == tmp_path / "b"
    assert resolve(environ, beside=tmp_path).parallelism == 3
    assert resolve(environ, beside=tmp_path, parallelism=7).parallelism == 7
    assert resolve({}, beside=tmp_path).parallelism == PARALLELISM_DEFAULT


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "513", "٣"])
def test_a_parallelism_that_cannot_be_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="FLEETCTL_PARALLELISM"):
        resolve({"FLEETCTL_PARALLELISM": value}, beside=tmp_path)


@pytest.mark.parametrize("value", [0, -1, 513])
def test_an_option_out_of_range_is_refused_by_its_own_name(value: int, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--parallelism"):
        resolve({}, beside=tmp_path, parallelism=value)


def test_a_state_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    with pytest.raises(SettingsError, match="is a file"):
        resolve({}, beside=tmp_path, state=str(tmp_path / "f"))


def test_a_state_elsewhere_is_refused_by_its_scheme(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="ftp://"):
        resolve({}, beside=tmp_path, state="ftp://host/x")
