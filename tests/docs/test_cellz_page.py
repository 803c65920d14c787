"""The page of cellz: the daemon that it starts answers the requests that it shows, from one terminal and another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli import wait_for
from tests.docs.reader import Reader, follows
from tests.examples.quickstart import free_ports
from tests.lab.process import missing_programs


@follows("docs/cellz.md")
def test_cellz_page_serves_takes_an_event_and_streams_it(reader: Reader, tmp_path: Path) -> None:
    if reason := missing_programs("curl"):
        pytest.skip(reason)
    reader.path = tmp_path
    reader.put("--port 8080", f"--port {(port := free_ports(1))}")
    reader.put("127.0.0.1:8080", f"127.0.0.1:{port}")
    reader.put("--storage-dir /shared/bucket", f"--storage-dir {tmp_path / 'bucket'}")
    serve = reader.start("CELLZ_SYNC=commit cellz serve")
    wait_for(lambda: "serving" in serve.said(), "the daemon to serve")
    reader.run("curl -s -H")
    stream = reader.start("curl -sN")
    wait_for(stream.answered, "the event in the stream")
    assert (tmp_path / "data" / "cells" / "demo.db").exists()
    reader.done()
    assert serve.end() == 0, serve.said()
    assert "stopped in order" in serve.said()
