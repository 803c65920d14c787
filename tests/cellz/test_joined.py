"""An answer goes out as one write, and nothing of it is held longer than a turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fleetctl.cellz.joined import Joined

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Wire:
    """What a transport was told."""

    def __init__(self) -> None:
        self.told: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.told.append(data)

    def close(self) -> None:
        self.told.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.told


def head_and_body(transport: Joined) -> None:
    transport.write(HEAD)
    transport.write(b"body")
    transport.write(b"more")


def head_alone(transport: Joined) -> None:
    transport.write(HEAD)


def two_heads(transport: Joined) -> None:
    """An interim answer and the answer, or two without a body."""
    transport.write(HEAD)
    transport.write(HEAD)


def head_and_end(transport: Joined) -> None:
    transport.write(HEAD)
    transport.close()


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (head_and_body, [HEAD + b"body", b"more"]),
        (head_alone, [HEAD]),
        (two_heads, [HEAD + HEAD]),
        (head_and_end, [HEAD, "closed"]),
    ],
)
def test_what_is_written_in_a_turn_goes_in_order_and_is_out_after_it(
    work: Callable[[Joined], None], told: list[bytes | str]
) -> None:
    wire = Wire()

    async def turn() -> None:
        transport = Joined(wire, asyncio.get_running_loop())  # type: ignore[arg-type]
        work(transport)
        await asyncio.sleep(0)
        assert transport.is_closing() == ("closed" in told)

    asyncio.run(turn())
    assert wire.told == told
