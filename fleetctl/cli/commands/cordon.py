"""fleetctl cordon: keeps nodes from being started on a host."""

from __future__ import annotations

from fleetctl.cli.cordoning import cordon_command

command = cordon_command(
    "cordon",
    "Keep nodes from being started on a host.",
    """Keep nodes from being started or created on HOST. Those that run there go on; a plan leaves them as they are, and says so. A rollout that is under way is finished as planned. `fleetctl uncordon` ends it.""",
    cordoned=True,
)
