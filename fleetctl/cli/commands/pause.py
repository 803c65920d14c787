"""fleetctl pause: stops a rollout between nodes."""

from __future__ import annotations

from fleetctl.cli.steering import verb_command

command = verb_command(
    "pause",
    "Pause a rollout: nodes under way are finished.",
    """Pause the rollout that is under way: nodes that were begun are finished, no other begins. Its process then ends with exit code 8, and `fleetctl resume` goes on.""",
)
