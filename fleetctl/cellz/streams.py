"""Follow a cell's log without loss: replay in pages, hand over to live, catch up from the log when slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import orjson

from fleetctl.cellz.cursor import Cursor, Log, Reset, follow, on_page, place
from fleetctl.cellz.database import DEFAULT_PAGE, CellDb
from fleetctl.cellz.errors import NotOpen
from fleetctl.cellz.feed import Feed, Frame, frame
from fleetctl.cellz.http import Receive, Request, Send, integer
from fleetctl.cellz.node import Node
from fleetctl.cellz.resident import Cell
from fleetctl.cellz.words import Record

# A page whose branch the feed has not announced yet is read again after this long at the latest.
_ANNOUNCE_WAIT_S = 0.005
_I64 = 2**63


class Page(NamedTuple):
    """A page of the log, and what the log was when it was read."""

    branch: int
    compacted: int
    records: list[Record]


Item = list[Frame] | Reset | None


def wanted_place(request: Request) -> tuple[int | None, int | None]:
    """Return (since, branch): `Last-Event-ID` first, then `?since=`; an unreadable header counts as absent."""
    query = request.query()
    since, branch = integer(query, "since"), integer(query, "branch")
    header = request.header(b"last-event-id")
    if header is not None:
        try:
            value = int(header.decode("ascii"))
        except ValueError:
            value = _I64
        if -_I64 <= value < _I64:
            since = value
    return since, branch


class Follower:
    """One reader of one cell; `items` yields what to tell it, and None when it is time for a keep-alive."""

    def __init__(self, node: Node, cell: Cell, feed: Feed, since: int | None, branch: int | None) -> None:
        self._node = node
        self._cell = cell
        self._feed = feed
        self._since = since
        self._branch = branch

    async def items(self) -> AsyncIterator[Item]:
        """Yield frames, resets and keep-alives until the cell leaves this node."""
        cursor, reset = await self._begin()
        if reset is not None:
            yield reset
        feed = self._feed
        while not feed.closed:
            cursor = follow(cursor, feed.cuts)
            frames = feed.after(cursor.position)
            if frames is None:
                cursor, frames, reset = await self._page(cursor)
                if reset is not None:
                    yield reset
            elif not frames:
                if not await feed.wait(self._node.settings.sse_keepalive):
                    yield None
                continue
            else:
                cursor = Cursor(frames[-1].sequence, cursor.cuts_seen)
            if frames:
                yield frames

    async def _begin(self) -> tuple[Cursor, Reset | None]:
        feed = self._feed
        if self._since is None:
            return Cursor(feed.last, len(feed.cuts)), None
        while True:
            log = await self._cell.read(_log)
            # The feed must have announced every restore that this view of the log includes.
            if log.branch == feed.branch or feed.closed:
                cursor, reset = place(self._since, self._branch, log)
                return Cursor(cursor.position, len(feed.cuts)), reset
            await asyncio.sleep(_ANNOUNCE_WAIT_S)  # noqa: TID251  (the queue announces it on this loop)

    async def _page(self, cursor: Cursor) -> tuple[Cursor, list[Frame], Reset | None]:
        feed = self._feed
        position = cursor.position
        page = await self._cell.read(
            lambda db: Page(db.branch, db.compacted, db.events(position, DEFAULT_PAGE))
        )
        last = page.records[-1].sequence if page.records else None
        moved, good = on_page(cursor, page.branch, last, feed.branch, len(feed.cuts))
        if not good:
            if page.branch != feed.branch:
                await asyncio.sleep(_ANNOUNCE_WAIT_S)  # noqa: TID251  (the queue announces it on this loop)
            return cursor, [], None
        if position < page.compacted:
            lost = Reset("compacted", position, page.compacted, page.branch)
            return Cursor(page.compacted, cursor.cuts_seen), [], lost
        return moved, [frame(record) for record in page.records], None


def _log(db: CellDb) -> Log:
    cuts = {branch: target for branch, target, *_ in db.branches()}
    return Log(db.compacted, db.sequence, db.branch, cuts)


def reset_json(reset: Reset) -> str:
    """Return what a reader is told when its place is gone."""
    return orjson.dumps(reset).decode()


async def subscribed(node: Node, cell_id: str) -> tuple[Cell, Feed]:
    """Return an active cell and its feed; once more if the cell is put down in between."""
    cell = await node.active(cell_id)
    try:
        return cell, await cell.subscribe()
    except NotOpen:
        cell = await node.active(cell_id)
        return cell, await cell.subscribe()


async def serve_sse(node: Node, request: Request, receive: Receive, send: Send) -> None:
    """Answer `GET .../stream`; returns when the client leaves or the cell does."""
    since, branch = wanted_place(request)
    cell, feed = await subscribed(node, request.cell)
    node.metrics.readers += 1
    reader = asyncio.current_task()
    gone = node.spawn(_until_gone(receive))
    gone.add_done_callback(lambda _: reader.cancel() if reader is not None else None)
    try:
        await _send_stream(Follower(node, cell, feed, since, branch), feed, send)
    except asyncio.CancelledError:
        if not gone.done():
            raise
        if reader is not None:
            reader.uncancel()
    finally:
        gone.cancel()
        node.metrics.readers -= 1
        cell.unsubscribe(feed)


async def _send_stream(follower: Follower, feed: Feed, send: Send) -> None:
    headers = [
        (b"content-type", b"text/event-stream"),
        (b"cache-control", b"no-cache"),
        (b"x-accel-buffering", b"no"),
        (b"x-cellz-branch", b"%d" % feed.branch),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    # The head goes out at once, so that a client knows it is connected before anything happens.
    await send({"type": "http.response.body", "body": b": connected\n\n", "more_body": True})
    try:
        async for item in follower.items():
            if item is None:
                body = b": keep-alive\n\n"
            elif isinstance(item, Reset):
                body = f"id: {item.resume_from}\nevent: reset\ndata: {reset_json(item)}\n\n".encode()
            else:
                body = item[0].sse if len(item) == 1 else b"".join([each.sse for each in item])
            await send({"type": "http.response.body", "body": body, "more_body": True})
    except NotOpen:
        pass  # the cell was put down: the stream ends and the client comes back with its last id
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
