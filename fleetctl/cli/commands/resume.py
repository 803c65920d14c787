"""fleetctl resume: goes on with a paused rollout."""

from __future__ import annotations

from fleetctl.cli.steering import verb_command

command = verb_command(
    "resume",
    "Go on with a paused rollout.",
    """Go on with a rollout that was paused. A live process goes on by itself; otherwise this one carries the plan on.""",
)
