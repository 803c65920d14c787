"""The chain: whole when it is whole, and otherwise the exact place of the damage."""

from __future__ import annotations

import pytest

from fleetctl.ledger import entries
from fleetctl.ledger.entries import ENVELOPE, Body, Context, encode, seal, sha256_hex, verified
from fleetctl.ledger.ports import Head, StateError

CONTEXT = Context("edge", "lineage", "run", 3)


def chain(n: int, v: int = 1) -> list[tuple[bytes, str]]:
    bodies: list[Body] = [{**entries.control("note", "me", n=i), "v": v} for i in range(n)]
    sealed = seal(bodies, CONTEXT, Head(), "2026-01-01T00:00:00.000Z")
    return [(encode(e), sha256_hex(encode(e))) for e in sealed]


def test_the_envelope_is_exactly_the_one_of_the_design() -> None:
    (entry,) = seal([{"kind": "control"}], CONTEXT, Head(), "2026-01-01T00:00:00.000Z")
    assert tuple(entry) == ENVELOPE
    assert (entry["v"], entry["sequence"], entry["prev_sha256"]) == (1, 1, "")


def test_a_whole_chain_is_read_from_any_place() -> None:
    rows = chain(5)
    assert [e["n"] for e in verified(rows, "edge", Head())] == [0, 1, 2, 3, 4]
    assert [e["n"] for e in verified(rows[3:], "edge", Head(3, rows[2][1]))] == [3, 4]


def reseal(data: bytes) -> tuple[bytes, str]:
    return data, sha256_hex(data)


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda r: r.__setitem__(2, (r[2][0].replace(b'"n":2', b'"n":9'), r[2][1])), "entry 3"),
        (lambda r: r.__setitem__(2, reseal(r[2][0].replace(b'"n":2', b'"n":9'))), "entry 4"),
        (lambda r: r.pop(2), "entry 3"),
        (lambda r: r.insert(2, r[2]), "entry 4"),
        (lambda r: r.__setitem__(slice(2, 4), [r[3], r[2]]), "entry 3"),
        (lambda r: r.__setitem__(4, reseal(r[4][0][:-5])), "entry 5"),
        (lambda r: r.__setitem__(1, reseal(b"\0" * 40)), "entry 2"),
        (lambda r: r.__setitem__(1, reseal(r[1][0].replace(b"lineage", b"other"))), "entry 2"),
    ],
)
def test_damage_is_found_at_its_place(damage: object, place: str) -> None:
    rows = chain(5)
    damage(rows)  # type: ignore[operator]
    with pytest.raises(StateError, match=f"^{place} of fleet edge"):
        list(verified(rows, "edge", Head()))


def test_an_entry_of_a_newer_version_is_refused_with_a_hint() -> None:
    with pytest.raises(StateError, match=r"entry 1 .* newer fleetctl") as caught:
        list(verified(chain(1, v=2), "edge", Head()))
    assert caught.value.hint == "use the newer fleetctl for this state"
    assert caught.value.code == "state.newer"
