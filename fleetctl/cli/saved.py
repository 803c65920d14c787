"""A saved plan, found with its state: what `apply PLAN` starts from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fleetctl.cli import planfile
from fleetctl.cli.invocation import Invocation
from fleetctl.cli.options import MANIFEST_SUFFIXES, resolve_settings
from fleetctl.settings import STATE_FOLDER, Settings
from manifests.errors import StaleError

if TYPE_CHECKING:
    from planner.plan import Plan


def is_plan(paths: Sequence[Path]) -> bool:
    """Whether the one path given is a saved plan: not a folder, and not named as a manifest."""
    return len(paths) == 1 and not paths[0].is_dir() and paths[0].suffix.lower() not in MANIFEST_SUFFIXES


def open_plan(
    invocation: Invocation, path: Path, state: str | None, parallelism: int | None
) -> tuple[Plan, Settings]:
    """The plan and its settings. Raises PlanFileError, and StaleError when its manifests were edited since."""
    plan = planfile.read(path)
    ensure_manifests_unchanged(plan)
    return plan, resolve_settings(invocation, _beside(plan, path), state, parallelism)


def ensure_manifests_unchanged(plan: Plan) -> None:
    """Raises StaleError for a manifest that is there and is not what the plan was made from."""
    for name, pin in plan.manifests.items():
        file = Path(name)
        if not file.is_file():
            continue
        found = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
        if found != pin:
            raise StaleError(
                f"{name} was edited after the plan was made",
                hint="make a new plan: fleetctl plan --out FILE",
                code="plan.manifest_edited",
            )


def _beside(plan: Plan, path: Path) -> Path:
    """The folder whose `.fleetctl` is the plan's state: that of a manifest, of the plan, or the current one."""
    folders = [Path(name).parent for name in plan.manifests] + [path.parent, Path()]
    return next((f for f in folders if (f / STATE_FOLDER).is_dir()), folders[0])
