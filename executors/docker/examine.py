"""doctor on a Docker engine: its version, its clock, and what it warns of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from executors import checkup
from executors.checkup import Check
from executors.clock import Clock
from executors.docker.observe import epoch_s
from executors.driver import DriverError


def examine(connect: Callable[[], Any], clock: Clock) -> list[Check]:
    """Raises DriverError where the engine does not answer, or does not let us in."""
    from docker.errors import DockerException

    api = connect()
    try:
        version = api.version()
        asked_s = clock.now().timestamp()
        info = api.info()
        return read(version, info, asked_s, clock.now().timestamp())
    except DockerException as e:
        raise DriverError(f"the engine stopped answering: {e}") from e
    finally:
        api.close()


def read(version: dict[str, Any], info: dict[str, Any], asked_s: float, answered_s: float) -> list[Check]:
    """What the engine's answers mean."""
    system = " ".join(str(info[k]) for k in ("OperatingSystem", "Architecture") if info.get(k))
    said = f"Docker {version.get('Version', '?')}, API {version.get('ApiVersion', '?')}, {info.get('Driver', '?')}, {system}"
    checks = [checkup.ok("engine", said)]
    if info.get("SystemTime"):
        checks.append(checkup.clock_check(epoch_s(str(info["SystemTime"])), asked_s, answered_s))
    if info.get("LiveRestoreEnabled"):
        checks.append(checkup.ok("restarts", "containers outlive a restart of the engine"))
    else:
        checks.append(
            checkup.warning(
                "restarts",
                "a restart of the engine stops its containers",
                'set "live-restore": true in its daemon.json',
            )
        )
    checks += [checkup.warning("engine", str(text)) for text in info.get("Warnings") or ()]
    return checks
