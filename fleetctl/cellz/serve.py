"""Compose a node from settings and serve it over uvicorn until SIGTERM has been answered in order."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import logging
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from fleetctl.cellz.app import App
from fleetctl.cellz.blobs import Blobs
from fleetctl.cellz.clock import Clock, Ids, plain_uuid
from fleetctl.cellz.errors import SettingsInvalid
from fleetctl.cellz.logs import configure
from fleetctl.cellz.node import Node
from fleetctl.cellz.peer import Forwarder
from fleetctl.cellz.settings import Settings
from fleetctl.cellz.upkeep import Upkeep

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("cellz")

_BACKLOG = 2048
# Once the cells are down, open connections (idle keep-alives, ended streams) are given this long.
_CONNECTIONS_S = 2
# The loop and the pool share one lock of the interpreter; short turns keep answers short.
_SWITCH_INTERVAL_S = 0.0001
_COLLECT_EVERY = (20_000, 20, 50)


def make_blobs(settings: Settings) -> Blobs:
    """Return the blob store of the settings; raises SettingsInvalid when it cannot be reached."""
    if settings.backend == "local":
        from fleetctl.cellz.disk import DiskBlobs

        try:
            return DiskBlobs(settings.storage_dir)
        except OSError as error:
            raise SettingsInvalid(f"CELLZ_STORAGE_DIR: {error}") from error
    from fleetctl.cellz.s3 import S3Blobs

    try:
        blobs = S3Blobs(
            settings.s3_bucket,
            endpoint=settings.s3_endpoint,
            region=settings.s3_region,
            key_id=settings.s3_access_key_id,
            secret=settings.s3_secret_access_key,
        )
        next(iter(blobs.keys("leases/")), None)
    except Exception as error:
        raise SettingsInvalid(f"CELLZ_S3_BUCKET {settings.s3_bucket!r} cannot be listed: {error}") from error
    return blobs


@contextmanager
def data_folder(folder: Path) -> Iterator[None]:
    """Hold the data folder for this process alone; raises SettingsInvalid when another one has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock: IO[bytes] = (folder / ".lock").open("ab")
    except OSError as error:
        raise SettingsInvalid(f"CELLZ_DATA_DIR: {error}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SettingsInvalid(
                f"CELLZ_DATA_DIR {str(folder)!r} is in use by another cellz process"
            ) from error
        yield


def stable_node_id(settings: Settings, ids: Ids) -> str:
    """Return the configured node id, or the one kept in the data folder, made at the first start."""
    if settings.node_id:
        return settings.node_id
    path = settings.data_dir / ".node-id"
    if path.exists():
        return path.read_text().strip()
    made = plain_uuid(ids.token())
    path.write_text(made + "\n")
    return made


def serve(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code: 0 when every cell was put down in order."""
    configure(settings.log_level)
    import uvicorn

    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # Requests leave no cycles behind: what is loaded now is never looked at again, and new objects seldom.
    gc.freeze()
    gc.set_threshold(*_COLLECT_EVERY)
    with data_folder(settings.data_dir):
        for stale in settings.data_dir.glob("*.tmp"):
            stale.unlink(missing_ok=True)
        blobs = make_blobs(settings)
        with _listen(settings) as sock:
            port = sock.getsockname()[1]
            host = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "") else settings.host  # noqa: S104
            address = settings.advertise or f"http://{host}:{port}"
            ids = Ids()
            node = Node(
                settings, blobs, stable_node_id(settings, ids), clock=Clock(), ids=ids, address=address
            )
            return _run(uvicorn, node, sock)


def _listen(settings: Settings) -> Any:
    import socket

    try:
        return socket.create_server(
            (settings.host, settings.port),
            family=socket.AF_INET6 if ":" in settings.host else socket.AF_INET,
            backlog=_BACKLOG,
        )
    except OSError as error:
        raise SettingsInvalid(f"CELLZ_HOST {settings.host!r}, CELLZ_PORT {settings.port}: {error}") from error


def _run(uvicorn: Any, node: Node, sock: Any) -> int:
    settings = node.settings
    upkeep = Upkeep(node)
    left: list[str] = []

    async def drain() -> None:
        left[:] = await upkeep.drain(settings.drain_timeout)

    forwarder = Forwarder(node.address) if settings.forward else None
    app: Any = App(node, drain, forwarder)
    if settings.cors_origins:
        from starlette.middleware.cors import CORSMiddleware

        app = CORSMiddleware(app, settings.cors_origins, allow_methods=["*"], allow_headers=["*"])

    class Server(uvicorn.Server):  # type: ignore[misc]
        """uvicorn, but signals drain the node first."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Leave the signals to us."""
            yield

    server = Server(_config(uvicorn, app, settings))

    async def main() -> None:
        loop = asyncio.get_running_loop()
        node.start()
        upkeep.start()
        ending: list[asyncio.Task[None]] = []

        async def end() -> None:
            log.info("draining", extra={"facts": {"resident": len(node.resident())}})
            await drain()
            server.should_exit = True

        def on_signal() -> None:
            if ending:
                server.force_exit = True
            else:
                ending.append(node.spawn(end()))

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        _announce(node)
        await server.serve(sockets=[sock])
        if not ending:
            await drain()
        await upkeep.stop()
        if forwarder is not None:
            await forwarder.close()
        node.pool.close()

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    if left:
        log.error(
            "stopped before every cell was put down",
            extra={"facts": {"cells": left[:20], "count": len(left)}},
        )
        return 1
    log.info("stopped in order")
    return 0


def _config(uvicorn: Any, app: Any, settings: Settings) -> Any:
    """How the HTTP server is run."""
    from fleetctl.cellz.joined import Protocol

    return uvicorn.Config(
        app,
        loop="uvloop",
        http=Protocol,
        ws="websockets-sansio",
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_CONNECTIONS_S,
        ws_max_size=settings.max_body,
    )


def _announce(node: Node) -> None:
    settings = node.settings
    facts = {
        "node": node.node_id,
        "address": node.address,
        "blobs": settings.backend,
        "sync": str(settings.sync),
        "loss_window": settings.sync.loss_window,
        "auth": "keys" if settings.api_keys else "off",
    }
    log.info("serving", extra={"facts": facts})
    log.info(
        "original cellz 0.2.x nodes on the same store take and renew leases without an epoch: cells that they "
        "share with this node are not fenced, and outside every promise above"
    )
