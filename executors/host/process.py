"""The supervisor `process`: the node as a plain process beside a small runner."""

from __future__ import annotations

from executors.driver import Operation
from executors.host.layout import Layout
from executors.host.shell import launch
from executors.host.supervisor import Placement, Supervisor, script


def _placement(layout: Layout, operation: Operation) -> Placement:
    return Placement({"launch": launch(layout, operation), "run": script("runner.sh")})


PROCESS = Supervisor("process", "supervisor_process.sh", _placement)
