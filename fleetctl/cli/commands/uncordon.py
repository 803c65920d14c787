"""fleetctl uncordon: lets nodes be started on a host again."""

from __future__ import annotations

from fleetctl.cli.cordoning import cordon_command

command = cordon_command(
    "uncordon",
    "Let nodes be started on a host again.",
    """Let nodes be started on HOST again. Nothing is started by this: the next `fleetctl apply` starts what was stopped there.""",
    cordoned=False,
)
