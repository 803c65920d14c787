"""The demo, cut off: it leaves nothing running. Its story is told by the README's `make demo`, in `tests/docs`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.quickstart import answering, copy_quickstart, free_ports, urls

# Under 60 s is the demo's promise; the rest is for a busy machine.
pytestmark = pytest.mark.timeout(180)


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    first_port = free_ports(3)
    folder = copy_quickstart(tmp_path, first_port)
    yield folder, first_port
    assert answering(first_port) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_demo_cut_off_in_the_middle_takes_its_nodes_with_it(
    demo: tuple[Path, int], number: signal.Signals
) -> None:
    """The signal reaches the whole process group, as Ctrl-C does, while nodes already run."""
    folder, first_port = demo
    with (folder / "out").open("w") as out:
        process = subprocess.Popen(
            ["sh", str(folder / "demo.sh")],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + 60
            while len(answering(first_port)) < 2:
                assert time.monotonic() < deadline, (folder / "out").read_text()
                assert process.poll() is None, (folder / "out").read_text()
                time.sleep(0.05)
            os.killpg(process.pid, number)
            assert process.wait(timeout=90) == 128 + number, (folder / "out").read_text()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    assert answering(first_port) == [], (folder / "out").read_text()
    gone = [sys.executable, str(folder / "watch.py"), "gone", *urls(first_port)]
    assert subprocess.run(gone, check=False).returncode == 0
