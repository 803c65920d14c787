"""fleetctl promote: lets a rollout go on after its canary."""

from __future__ import annotations

from fleetctl.cli.steering import verb_command

command = verb_command(
    "promote",
    "Let a rollout go on after its canary.",
    """Say that the canary is good: the rollout that waits for it goes on, in this process where no other is alive.""",
)
