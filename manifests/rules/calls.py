"""Hooks and drains: what belongs together, and where a program can run."""

from __future__ import annotations

from manifests.manifest import Key, Path
from manifests.rules.review import Review, fleet_key
from manifests.schema.fleet import Drain, Fleet

_NODE_MOMENTS = ("pre_drain", "backup", "post_start")
_FLEET_MOMENTS = ("pre_rollout", "post_rollout")


def check(review: Review) -> None:
    """Every rule about hooks and drains, for every fleet."""
    for fleet in review.manifests.fleets.values():
        key = fleet_key(fleet)
        _drain(review, key, ("rollout", "drain"), fleet.rollout.drain)
        _hooks(review, key, fleet)
        _agents(review, key, fleet)


def _drain(review: Review, key: Key, path: Path, drain: Drain) -> None:
    if drain.http is not None and drain.command is not None:
        review.error(
            "drain.several",
            "A node is drained in two ways",
            "`http` and `command` both begin its drain.",
            key,
            (*path, "command"),
            "keep one",
        )
    if drain.until is None:
        return
    if drain.http is None and drain.command is None:
        review.error(
            "drain.until",
            "The end of a drain is awaited that nothing begins",
            "A signal's drain ends with the process.",
            key,
            (*path, "until"),
            "add `http` or `command`, or remove `until`",
        )
    if (drain.until.http is None) == (drain.until.command is None):
        review.error(
            "drain.until",
            "The end of a drain is seen in exactly one way",
            "`until` has both `http` and `command`." if drain.until.http else "`until` has neither.",
            key,
            (*path, "until"),
            "write one of http and command",
        )


def _hooks(review: Review, key: Key, fleet: Fleet) -> None:
    hooks = fleet.rollout.hooks
    elsewhere = [group.name for group in fleet.groups if group.substrate != "host"]
    for moment in (*_FLEET_MOMENTS, *_NODE_MOMENTS):
        for n, hook in enumerate(getattr(hooks, moment)):
            if hook.timeout >= fleet.rollout.progress_deadline:
                review.error(
                    "hook.timeout",
                    "A hook may take longer than the rollout waits",
                    "Without another healthy node for `progress_deadline`, the rollout has failed.",
                    key,
                    ("rollout", "hooks", moment, n, "timeout"),
                    "write less, or a longer rollout.progress_deadline",
                )
            if hook.where != "host":
                continue
            if moment in _FLEET_MOMENTS:
                why, hint = (
                    "It is about the whole rollout, which has no one host.",
                    "remove `where`, or write `where: here`",
                )
            elif elsewhere:
                why = f"Group {elsewhere[0]} is not on substrate host, and an engine or hypervisor runs no programs."
                hint = "write `where: here`, and reach the node by FLEETCTL_ADDRESS"
            else:
                continue
            path = ("rollout", "hooks", moment, n, "where")
            review.error("hook.host", "A hook cannot run on the host", why, key, path, hint)


def _agents(review: Review, key: Key, fleet: Fleet) -> None:
    """A command in a guest goes through its agent."""
    drain = fleet.rollout.drain
    asks = drain.command is not None or (drain.until is not None and drain.until.command is not None)
    for group in fleet.groups if asks else ():
        if group.substrate == "qemu" and (group.domain is None or not group.domain.agent):
            review.error(
                "domain.no-agent",
                "The guest's agent is needed, and it has no channel",
                f"A command drains the nodes of group {group.name}, and `agent` is false.",
                key,
                ("rollout", "drain"),
                "write `agent: true` in its domain, and have the agent in the guest; or drain by http",
            )
