"""The loop: the one thread that decides, records before it acts, and records what came of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from executors.clock import Clock, rfc3339
from fleetctl.engine.decide import on_event
from fleetctl.engine.errors import UnknownOutcome
from fleetctl.engine.events import (
    Controlled,
    Effect,
    Event,
    Examine,
    Finish,
    Journal,
    Lookup,
    Perform,
    Performed,
    Probe,
    Report,
    Sample,
    Stage,
    Started,
    Ticked,
    Wake,
)
from fleetctl.engine.hands import Hands
from fleetctl.engine.observer import Observer
from fleetctl.engine.pool import Lane, Pool
from fleetctl.engine.rollout import Rollout
from fleetctl.engine.tenancy import Tenancy
from fleetctl.ledger import entries
from fleetctl.ledger.entries import Body, Context, Kind
from fleetctl.ledger.ports import Head, JournalConflict, LeaseLost, StateError, Store
from manifests.errors import ExitCode
from planner.spec import NodeSpec

POLL_S = 1.0
"""How often the lease and the control entries are looked at while nothing happens."""
DRAIN_S = 30.0
"""How long answers are awaited when the state cannot be written any more."""


class Loop:
    """One fleet's run. `head` is where its journal ends, `tenancy` what allows it to act."""

    def __init__(
        self,
        rollout: Rollout,
        store: Store,
        tenancy: Tenancy,
        hands: Hands,
        pool: Pool,
        clock: Clock,
        observer: Observer,
    ) -> None:
        identity = rollout.identity
        self._rollout = rollout
        self._store = store
        self._tenancy = tenancy
        self._hands = hands
        self._pool = pool
        self._clock = clock
        self._observer = observer
        self._fleet = identity.fleet
        self._context = Context(identity.fleet, identity.lineage, identity.run, identity.epoch)
        self._head = store.head(identity.fleet)
        self._heard_s = clock.monotonic()
        self._wake_s: float | None = None
        self._inbox: deque[Event] = deque()
        self._acting = 0
        self._finish: Finish | None = None
        self._places = _places(rollout)

    @property
    def head(self) -> Head:
        """Where the journal ends now."""
        return self._head

    def append(self, bodies: tuple[Body, ...]) -> None:
        """Appends entries of this run; control entries that others have written meanwhile are heard and kept.

        Raises JournalConflict, LeaseLost or StateError.
        """
        while True:
            sealed = entries.seal(bodies, self._context, self._head, rfc3339(self._clock.now()))
            try:
                self._head = self._store.append(self._fleet, self._head.sequence, sealed, self._context.epoch)
                return
            except JournalConflict:
                if not self._hear():
                    raise

    def run(self) -> Finish:
        """Carries the rollout out to its end. Raises StateError, UnknownOutcome, LeaseLost."""
        event: Event | None = Started(self._clock.monotonic())
        while True:
            if event is not None:
                if isinstance(event, Performed):
                    self._acting -= 1
                try:
                    self._carry_out(on_event(self._rollout, event))
                    self._keep()
                except StateError as e:
                    raise self._stranded(e) from e
                except LeaseLost as e:
                    return Finish("fenced", ExitCode.LOCKED, e.message, settled=False)
            if self._finish is not None:
                return self._finish
            event = self._next()

    def _next(self) -> Event | None:
        if self._inbox:
            return self._inbox.popleft()
        now_s = self._clock.monotonic()
        until_s = now_s + POLL_S if self._wake_s is None else min(self._wake_s, now_s + POLL_S)
        event = self._pool.next(until_s)
        if event is None:
            return Ticked(self._clock.monotonic())
        return event

    def _carry_out(self, effects: list[Effect]) -> None:
        """Records everything first, in one transaction; only then does anything of it begin."""
        bodies = tuple(body for e in effects if isinstance(e, Journal) for body in e.bodies)
        finish = next((e for e in effects if isinstance(e, Finish)), None)
        if finish is not None and finish.settled:
            bodies = (*bodies, entries.run_finished(finish.result, int(finish.exit_code), finish.summary))
        if bodies:
            self.append(bodies)
        self._wake_s = None
        for effect in effects:
            self._begin(effect)
        self._finish = finish

    def _begin(self, effect: Effect) -> None:
        pool, hands = self._pool, self._hands
        match effect:
            case Perform():
                self._acting += 1
                pool.submit(Lane.ACT, partial(hands.perform, effect, self._tenancy.of(self._fleet)))
            case Lookup():
                self._acting += 1
                pool.submit(Lane.LOOK, partial(hands.lookup, effect), effect.at_s)
            case Stage():
                pool.submit(Lane.ACT, partial(hands.stage, effect, pool.put))
            case Probe():
                pool.submit(Lane.LOOK, partial(hands.probe, effect))
            case Sample():
                work: Callable[[], Event] = partial(hands.sample, self._fleet, self._places, self._specs())
                pool.submit(Lane.LOOK, work)
            case Examine():
                pool.submit(Lane.LOOK, partial(hands.examine, effect, self._fleet))
            case Wake():
                self._wake_s = effect.at_s
            case Report():
                self._observer.on_report(self._fleet, effect)
            case Journal() | Finish():
                pass

    def _specs(self) -> dict[str, NodeSpec]:
        return specs(self._rollout)

    def _keep(self) -> None:
        """Keeps the leases, and hears what others have to say."""
        now_s = self._clock.monotonic()
        if self._finish is None:
            self._tenancy.keep(self._fleet)
        if now_s - self._heard_s < POLL_S / 2:
            return
        self._heard_s = now_s
        if self._store.head(self._fleet).sequence != self._head.sequence and not self._hear():
            raise LeaseLost(f"somebody else writes to the journal of fleet {self._fleet}")

    def _hear(self) -> bool:
        """Takes in control entries past our head; False if anything else is there."""
        heard = False
        for entry in self._store.read(self._fleet, self._head.sequence):
            if entry["kind"] != Kind.CONTROL.value:
                return False
            heard = True
            self._head = Head(entry["sequence"], entries.sha256_hex(entries.encode(entry)), entry["lineage"])
            self._inbox.append(
                Controlled(entry["verb"], entry.get("who", ""), entry, self._clock.monotonic())
            )
        return heard

    def _stranded(self, error: StateError) -> UnknownOutcome:
        """The state cannot be written: what is under way is awaited, so that nothing is cut in the middle."""
        until_s = self._clock.monotonic() + DRAIN_S
        while self._acting > 0 and self._clock.monotonic() < until_s:
            event = self._pool.next(until_s)
            if isinstance(event, Performed):
                self._acting -= 1
        return UnknownOutcome(
            f"{error.message}; the run of fleet {self._fleet} stops here",
            hint=f"{error.hint or 'mend the state'}. Then: fleetctl recover",
        )


def specs(rollout: Rollout) -> dict[str, NodeSpec]:
    """What each node is probed with: what is placed, or what the plan will place."""
    planned = rollout.plan.specs
    known = ((uid, node.spec or planned.get(node.name)) for uid, node in rollout.nodes.items())
    return {uid: spec for uid, spec in known if spec is not None}


def _places(rollout: Rollout) -> frozenset[tuple[str, str]]:
    """Everywhere that a node of the fleet is or will be."""
    places = {(spec.host, spec.substrate) for spec in rollout.plan.specs.values()}
    for node in rollout.nodes.values():
        if node.spec is not None:
            places.add((node.spec.host, node.spec.substrate))
    return frozenset(places)
