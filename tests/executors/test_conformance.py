"""The conformance suite over the drivers that need nothing but this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.executors import toolboxes
from tests.executors.conformance import RecordConformance
from tests.executors.places import HostPlace, Place, SimulatedPlace


class TestSimulated(RecordConformance):
    @pytest.fixture
    def place(self) -> Iterator[Place]:
        yield SimulatedPlace()


@pytest.mark.parametrize("toolbox", toolboxes.NAMES)
class TestHostOnThisMachine(RecordConformance):
    @pytest.fixture
    def place(self, tmp_path: Path, toolbox: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
        toolboxes.put_on_path(toolbox, tmp_path / "tools", monkeypatch)
        place = HostPlace(tmp_path / "root with 'quotes'")
        yield place
        place.close()
