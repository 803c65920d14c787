"""A large installation as files: manifests, a snapshot, and a state in which every node was placed and healthy.

All nodes run 1.0.0 and are to run 1.1.0, so `plan --observed` has an upgrade of every one of them to plan.
"""

from __future__ import annotations

import gc
from pathlib import Path

from executors.clock import SystemClock, rfc3339
from fleetctl.bootstrap import open_store
from fleetctl.ledger import entries
from fleetctl.settings import Settings
from fleetctl.stores.processes import SystemProcesses, this_process
from manifests.load import load
from planner.recorded import Recorded
from tests.bench import gen_manifests, plan_data


def write(folder: Path, fleets: int, nodes: int) -> tuple[Path, Path, Path]:
    """Makes `fleets` fleets of `nodes` nodes below `folder`; gives manifests, snapshot file and state folder."""
    gc.disable()
    manifests = gen_manifests.write(folder / "manifests", fleets=fleets, nodes=nodes, counted=True)
    snapshot, recorded = plan_data.facts(load([manifests], variables={}, var_files=[]))
    observed = folder / "observed.json"
    observed.write_text(snapshot.model_dump_json(), encoding="utf-8")
    state = folder / "state"
    _write_state(state, recorded)
    gc.enable()
    return manifests, observed, state


def _write_state(folder: Path, recorded: dict[str, Recorded]) -> None:
    clock = SystemClock()
    store = open_store(Settings(folder, folder / "cache"), clock, read_only=False)
    store.initialise()
    holder = this_process(SystemProcesses(), run="r", who="bench", command="apply")
    for fleet, known in recorded.items():
        assert known.lineage is not None
        lease = store.acquire(fleet, holder, 30.0)
        context = entries.Context(fleet, known.lineage, "r", lease.epoch)
        bodies = [
            entries.run_started(
                plan_id="sha256:" + "0" * 64, document="sha256:" + "0" * 64, command="apply", who="bench"
            )
        ]
        for node in known.nodes.values():
            assert node.spec is not None
            bodies.append(entries.node_placed(node.uid, node.name, node.group, node.generation, node.spec))
            bodies.append(entries.node_healthy(node.uid, node.generation, ""))
        bodies.append(entries.run_finished("succeeded", 0, "done"))
        sealed = entries.seal(bodies, context, store.head(fleet), rfc3339(clock.now()))
        store.append(fleet, 0, sealed, lease.epoch)
        store.release(lease)
    store.close()
