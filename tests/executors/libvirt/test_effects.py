"""The table of effects on a libvirt (docs/effects.md), row by row: each call loses its answer, or never arrives.

The binding's own function fails as it does when the connection ends, after it was carried out or instead of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("libvirt", reason="pip install 'fleetctl[libvirt]'")
pytest.importorskip("pycdlib", reason="pip install 'fleetctl[libvirt]'")

from planner.observed import NodeState
from planner.plan import StepKind
from tests.executors.conformance import ADOPT, CREATE, DESTROY, RELOAD, START, STOP, UID
from tests.executors.libvirt.place import LibvirtPlace
from tests.executors.places import SECRETS, Node, seen
from tests.house.sources import ROOT


@dataclass(frozen=True)
class Row:
    """One row: the call that makes the effect, and what a lookup says when its answer is lost, or it never arrived."""

    effect: StepKind
    call: str
    after: str
    never: str


UNKNOWN = (
    Row(CREATE, "virDomainDefineXMLFlags", "libvirt.created", "libvirt.not_created"),
    Row(START, "virDomainCreateWithFlags", "libvirt.started", "libvirt.not_started"),
    Row(DESTROY, "virDomainUndefineFlags", "libvirt.gone", "libvirt.not_removed"),
)
# Asking these once more over a new connection changes nothing, so the driver does, and has its answer.
ASKED_AGAIN = (
    Row(STOP, "virDomainDestroyFlags", "libvirt.killed", "libvirt.killed"),
    Row(STOP, "virDomainShutdownFlags", "libvirt.drained", "libvirt.drained"),
    Row(ADOPT, "virDomainSetMetadata", "libvirt.adopted", "libvirt.adopted"),
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[LibvirtPlace]:
    place = LibvirtPlace(tmp_path)
    yield place
    place.close()


@pytest.fixture
def node(place: LibvirtPlace) -> Node:
    return Node(place, UID)


def lose(monkeypatch: pytest.MonkeyPatch, call: str, *, carried_out: bool) -> None:
    """The next such call ends as with the connection."""
    import libvirt
    import libvirtmod  # type: ignore[import-not-found,unused-ignore]  # the binding's own half in C

    function = getattr(libvirtmod, call)

    def lost(*args: Any) -> Any:
        monkeypatch.setattr(libvirtmod, call, function)
        if carried_out:
            function(*args)
        error = libvirt.libvirtError("the connection was lost")
        error.err = (libvirt.VIR_ERR_RPC, libvirt.VIR_FROM_RPC, "connection lost", 2, None, None, None, 0, 0)
        raise error

    monkeypatch.setattr(libvirtmod, call, lost)


def prepare(node: Node, row: Row) -> dict[str, Any]:
    """What has to be there before; gives what is special about the operation."""
    if row.effect is not CREATE:
        node.do(CREATE)
    if row.effect is STOP:
        node.do(START)
        if row.call == "virDomainDestroyFlags":
            node.place.raw(UID).suspend()  # type: ignore[attr-defined]  # what stands still is turned off at once
    return {"lineage": "lineage-2"} if row.effect is ADOPT else {}


@pytest.mark.parametrize("row", UNKNOWN, ids=lambda row: row.effect.value)
@pytest.mark.parametrize("carried_out", [True, False])
def test_an_effect_without_an_answer_is_unknown_and_found_by_looking(
    node: Node, monkeypatch: pytest.MonkeyPatch, row: Row, carried_out: bool
) -> None:
    more = prepare(node, row)
    asked = node.operation(row.effect, **more)
    lose(monkeypatch, row.call, carried_out=carried_out)
    assert node.driver.perform(asked, SECRETS).code == "libvirt.no_answer"
    found = node.driver.lookup(asked)
    assert (found.state, found.code) == (
        ("succeeded", row.after) if carried_out else ("failed", row.never)
    ), found
    # A repeat is harmless: it is answered from what is there, or done for the first time.
    again = node.driver.perform(asked, SECRETS)
    assert again.state == "succeeded", again
    assert again.code == row.after


@pytest.mark.parametrize("row", ASKED_AGAIN, ids=lambda row: row.call)
@pytest.mark.parametrize("carried_out", [True, False])
def test_what_may_be_asked_again_is_asked_again(
    node: Node, monkeypatch: pytest.MonkeyPatch, row: Row, carried_out: bool
) -> None:
    more = prepare(node, row)
    asked = node.operation(row.effect, **more)
    lose(monkeypatch, row.call, carried_out=carried_out)
    done = node.driver.perform(asked, SECRETS)
    assert (done.state, done.code) == ("succeeded", row.after), done
    assert node.driver.lookup(asked).state == "succeeded"


def test_a_stop_and_an_adoption_that_never_arrived_are_told_so(node: Node) -> None:
    node.run()
    assert node.driver.lookup(node.operation(STOP)).code == "libvirt.still_running"
    assert node.driver.lookup(node.operation(ADOPT, lineage="lineage-2")).code == "libvirt.not_adopted"
    assert node.driver.lookup(node.operation(RELOAD)).code == "libvirt.not_reloaded"
    assert node.seen().state is NodeState.RUNNING


def test_nothing_was_sent_when_the_look_before_had_no_answer(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the outcome is final, and not unknown: the effect may be tried again at once."""
    import libvirt
    import libvirtmod

    from executors.libvirt.connection import LOOKS_MAX

    error = libvirt.libvirtError("the connection was lost")
    error.err = (libvirt.VIR_ERR_RPC, libvirt.VIR_FROM_RPC, "connection lost", 2, None, None, None, 0, 0)
    looks: list[int] = []

    def never(*_: Any) -> Any:
        looks.append(1)
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(libvirtmod, "virDomainLookupByUUIDString", never)
        outcome = node.do(CREATE)
    assert (outcome.state, outcome.code) == ("rejected", "libvirt.no_answer")
    assert len(looks) == LOOKS_MAX
    assert seen(node.driver, UID) is None


def test_the_page_has_each_row() -> None:
    page = (ROOT / "docs" / "effects.md").read_text(encoding="utf-8")
    table = page[page.index("### Effects on a libvirt") :]
    for row in UNKNOWN:
        (line,) = [text for text in table.splitlines() if text.startswith(f"| `{row.effect.value}` |")]
        assert f"`{row.after}`" in line
        assert f"`{row.never}`" in line
