"""From a step to what is asked of a place: an operation on a node, or one run of a hook; and its hash.

Both are bound to a derived identity, so that a restarted process asks for the very same.
"""

from __future__ import annotations

from executors.driver import Operation
from executors.hooks import HookCall
from fleetctl.engine.rollout import Rollout, StepState
from fleetctl.ledger.operations import By, Record, State, move, operation_id, request_sha256
from manifests.schema.fleet import Hook
from planner.plan import HOOKS, Precondition, StepKind
from planner.spec import fields, hook_of

Asked = Operation | HookCall


def asked(rollout: Rollout, state: StepState) -> Asked:
    """What this step's present attempt asks for."""
    return _call(rollout, state) if state.step.kind in HOOKS else _operation(rollout, state)


def _id(rollout: Rollout, state: StepState) -> str:
    identity = rollout.identity
    return operation_id(identity.plan_id, identity.fleet, state.key, state.step.generation, state.attempt)


def _operation(rollout: Rollout, state: StepState) -> Operation:
    step, identity, node, spec = state.step, rollout.identity, state.node, state.spec
    assert node is not None and spec is not None, "only effects on nodes are operations"
    return Operation(
        operation_id=_id(rollout, state),
        attempt=state.attempt,
        fleet=identity.fleet,
        lineage=identity.lineage,
        epoch=identity.epoch,
        node=node.name,
        uid=node.uid,
        generation=step.generation,
        effect=step.kind,
        spec=spec,
        fields=fields(spec, rollout.keyed),
        precondition=_for_driver(state),
        # What is destroyed to be placed anew keeps its data, whatever is to happen at its end.
        retain_data=node.steps[-1] is not state or spec.data is None or spec.data.retain,
        deadline_s=step.deadline_ms / 1000,
    )


def _for_driver(state: StepState) -> Precondition | None:
    """What the place itself can compare: its own record, which knows nothing of what was changed by hand.

    The configuration that was seen is compared by the engine, by a look of its own (`gates.stale`).
    """
    precondition, node = state.step.precondition, state.node
    if precondition is None or node is None or not node.drifted:
        return precondition
    return precondition.model_copy(update={"config_digest": None})


def _call(rollout: Rollout, state: StepState) -> HookCall:
    step, node = state.step, state.node
    hook = hook_at(rollout, state)
    return HookCall(
        operation_id=_id(rollout, state),
        attempt=state.attempt,
        epoch=rollout.identity.epoch,
        moment=step.kind.value,
        argv=hook.command,
        timeout_s=hook.timeout / 1000,
        where=hook.where,
        uid="" if node is None else node.uid,
        env=_environment(rollout, state),
    )


def hook_at(rollout: Rollout, state: StepState) -> Hook:
    """The hook that a step runs."""
    kind, number = state.step.kind, state.step.hook
    assert number is not None, "the step of a hook has its number"
    if state.spec is not None:
        return hook_of(state.spec, kind.value, number)
    hooks = rollout.plan.hooks
    return (hooks.pre_rollout if kind is StepKind.PRE_ROLLOUT else hooks.post_rollout)[number]


def _environment(rollout: Rollout, state: StepState) -> dict[str, str]:
    """What a hook's program learns of the rollout and of its node."""
    env = {"FLEETCTL_FLEET": rollout.identity.fleet, "FLEETCTL_HOOK": state.step.kind.value}
    node, spec = state.node, state.spec
    if node is None or spec is None:
        return env
    env |= {
        "FLEETCTL_NODE": node.name,
        "FLEETCTL_UID": node.uid,
        "FLEETCTL_HOST": node.host,
        "FLEETCTL_ADDRESS": spec.address,
        "FLEETCTL_VERSION": spec.version,
    }
    if spec.port is not None:
        env["FLEETCTL_PORT"] = str(spec.port)
    if node.version_before:
        env["FLEETCTL_VERSION_BEFORE"] = node.version_before
    return env


def request(wanted: Asked) -> str:
    """The hash binds to everything that the effect depends on; not to the epoch, which may grow."""
    if isinstance(wanted, HookCall):
        return request_sha256(
            {
                "operation_id": wanted.operation_id,
                "attempt": wanted.attempt,
                "uid": wanted.uid,
                "moment": wanted.moment,
                "argv": list(wanted.argv),
                "where": wanted.where,
                "env": dict(wanted.env),
                "timeout_s": wanted.timeout_s,
            }
        )
    precondition = wanted.precondition
    body = {
        "operation_id": wanted.operation_id,
        "attempt": wanted.attempt,
        "fleet": wanted.fleet,
        "lineage": wanted.lineage,
        "uid": wanted.uid,
        "generation": wanted.generation,
        "effect": wanted.effect.value,
        "fields": dict(wanted.fields),
        "precondition": None if precondition is None else precondition.model_dump(mode="json"),
        "retain_data": wanted.retain_data,
    }
    if wanted.effect is StepKind.DRAIN:
        body["drain"] = wanted.spec.drain.model_dump(mode="json")
    return request_sha256(body)


def record(rollout: Rollout, state: StepState, wanted: Asked, hashed: str) -> Record:
    """The intent, as it goes into the journal. Of the whole rollout, a hook's node is none."""
    return Record(
        operation_id=wanted.operation_id,
        attempt=wanted.attempt,
        uid=wanted.uid,
        node=state.step.node or "",
        generation=state.step.generation,
        effect=state.step.kind.value,
        request_sha256=hashed,
        step=state.key,
        run=rollout.identity.run,
        epoch=wanted.epoch,
        state=move(None, State.INTENDED, By.ENGINE),
        by=By.ENGINE,
    )
