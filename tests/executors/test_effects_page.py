"""docs/effects.md and the guarded script speak of the same outcomes."""

from __future__ import annotations

import re
from pathlib import Path

from executors.host.supervisor import script

PAGE = Path(__file__).parents[2] / "docs" / "effects.md"


def test_every_refusal_of_the_script_is_explained() -> None:
    codes = set(
        re.findall(r"answer (?:rejected|unknown) ((?:host|artifact|process)\.\w+)", script("guarded.sh"))
    )
    assert len(codes) > 15
    page = PAGE.read_text(encoding="utf-8")
    assert {code for code in codes if f"`{code}`" not in page} - {"host.record", "host.supervisor"} == set()


def test_the_simulator_uses_no_code_that_the_host_does_not() -> None:
    simulated = PAGE.parents[1] / "executors" / "simulated"
    used = {
        code
        for path in simulated.glob("*.py")
        for code in re.findall(r'"(host\.\w+)"', path.read_text(encoding="utf-8"))
    }
    known = set(re.findall(r"host\.\w+", script("guarded.sh")))
    assert used - known == {"host.simulated"}
