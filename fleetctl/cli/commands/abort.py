"""fleetctl abort: ends a rollout where it stands."""

from __future__ import annotations

from fleetctl.cli.steering import verb_command

command = verb_command(
    "abort",
    "End a rollout where it stands.",
    "End the rollout that is under way or waits: nodes that were begun are finished, no other begins, and what "
    "was changed stays as it is. It ends as a failed rollout, settled (exit code 4); the next plan goes on from "
    "there, forwards or back.",
)
