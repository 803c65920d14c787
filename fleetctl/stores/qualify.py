"""Measures an object store under contention, by its own means: races, reads at once, stale writes, denials.

Each round has one object. Its contenders write it at the same moment, spread over all gateways; then every
gateway is read. The same object is then overwritten under one token by all of them, and read again. At the
end nothing of it is left. Nothing is written outside `<prefix>/qualify-<id>/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Barrier, Lock

from executors.clock import Clock
from fleetctl.ledger.ports import StateError
from fleetctl.stores.qualify_gateway import Answer, Counter, Gateway, Outcome
from fleetctl.stores.qualify_verdict import Attempts, Measured, Races
from fleetctl.stores.s3_bucket import Place

# Enough to see that a door is shut, few enough not to look like an attack.
DENIAL_TRIES = 3
LINK_LIFETIME_S = 1
# A store's clock may be a little behind ours.
LINK_WAIT_S = 3.0
_BARRIER_TIMEOUT_S = 60.0

Say = Callable[[int, int], None]
"""Told how many rounds of how many are done."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The scale of a run. `gateways` are further endpoints of the same store, `foreign_bucket` one that is not ours."""

    rounds: int
    contenders: int
    warmups: int
    workers: int
    gateways: tuple[str, ...] = ()
    foreign_bucket: str | None = None
    denials: bool = True


def measure(place: Place, asked: Asked, clock: Clock, say: Say) -> Measured:
    """Runs all of it. Raises StateError when the store cannot be used at all, before anything is measured."""
    counter = Counter()
    endpoints = (place.endpoint, *asked.gateways)
    gateways = [
        Gateway(place.bucket, e, clock, counter, connections=asked.workers + asked.contenders)
        for e in endpoints
    ]
    run = _Run(place.key(f"qualify-{clock.new_id()}"), asked, gateways, clock)
    try:
        run.warm_up()
        run.race(say)
        if asked.denials:
            run.deny(place, counter)
    finally:
        run.clean_up()
    run.measured.cases, run.measured.requests = counter.cases, counter.requests
    return run.measured


class _Run:
    def __init__(self, prefix: str, asked: Asked, gateways: Sequence[Gateway], clock: Clock) -> None:
        self._prefix = prefix
        self._asked = asked
        self._gateways = gateways
        self._clock = clock
        self._lock = Lock()
        self.measured = Measured(
            rounds=asked.rounds,
            contenders=asked.contenders,
            warmups=asked.warmups,
            workers=asked.workers,
            gateways=len(gateways),
        )

    def warm_up(self) -> None:
        """Opens connections and fills caches; what is not measured must work."""
        for n in range(max(1, self._asked.warmups)):
            for gateway in self._gateways:
                key = f"{self._prefix}/warm-{n}"
                for answer in (gateway.put(key, b"warm"), gateway.get(key), gateway.delete(key)):
                    if answer.outcome is not Outcome.COMMIT:
                        raise StateError(
                            f"the store cannot be used: {answer.said or answer.outcome}",
                            hint="check the bucket, the endpoint and the credentials (get, put, delete, list)",
                            code="store.unusable",
                        )

    def race(self, say: Say) -> None:
        """All rounds, as many at once as the workers allow."""
        at_once = max(1, self._asked.workers // self._asked.contenders)
        done = 0

        def told(n: int) -> None:
            nonlocal done
            self._round(n)
            with self._lock:
                done += 1
                say(done, self._asked.rounds)

        with ThreadPoolExecutor(at_once, thread_name_prefix="round") as pool:
            for _ in pool.map(told, range(self._asked.rounds)):
                pass

    def deny(self, place: Place, counter: Counter) -> None:
        """Knocks at doors that must be shut."""
        own, clock = self._gateways[0], self._clock
        key = f"{self._prefix}/door"
        own.put(key, b"door")

        def gateway(bucket: str, credentials: tuple[str, str] | None = None) -> Gateway:
            return Gateway(bucket, place.endpoint, clock, counter, connections=2, credentials=credentials)

        stranger = gateway(place.bucket, ("AKIA" + clock.new_id()[:16].upper(), clock.new_id()))
        self._knock("invalid", lambda: stranger.get(key), lambda: stranger.put(key, b"x"))
        nowhere = gateway(f"nowhere-{clock.new_id()[:20]}")
        self._knock("wrong_bucket", lambda: nowhere.get(key), lambda: nowhere.put(key, b"x"))
        if self._asked.foreign_bucket:
            foreign = gateway(self._asked.foreign_bucket)
            self._knock("cross_bucket", lambda: foreign.get(key), lambda: foreign.put(key, b"x"))
        self._expired(own, key)

    def clean_up(self) -> None:
        """Removes what is left; counts what cannot be."""
        own = self._gateways[0]
        left = own.keys(self._prefix + "/")
        for key in left or ():
            own.delete(key)
        left = own.keys(self._prefix + "/")
        self.measured.left_over = 1 if left is None else len(left)

    def _round(self, n: int) -> None:
        key = f"{self._prefix}/round-{n}"
        bodies = [f"{n}/{c}/{self._clock.new_id()}".encode() for c in range(self._asked.contenders)]
        created = self._contend([partial(_create, key, b) for b in bodies])
        token = self._settle(key, self.measured.create, "create_winner", created, bodies)
        self._refused(lambda: self._gateway(n).create(key, b"late"))
        newer = [f"{n}/{c}/{self._clock.new_id()}".encode() for c in range(self._asked.contenders)]
        overwritten = self._contend([partial(_overwrite, key, b, token) for b in newer])
        self._settle(key, self.measured.overwrite, "overwrite_winner", overwritten, newer)
        self._refused(lambda: self._gateway(n).overwrite(key, b"stale", token))
        self._gateways[0].delete(key)

    def _gateway(self, n: int) -> Gateway:
        return self._gateways[n % len(self._gateways)]

    def _contend(self, writers: Sequence[Callable[[Gateway], Answer]]) -> list[Answer]:
        """All writers at the same moment, one after the other over the gateways."""
        barrier = Barrier(len(writers))

        def write(n: int) -> Answer:
            barrier.wait(_BARRIER_TIMEOUT_S)
            return writers[n](self._gateway(n))

        with ThreadPoolExecutor(len(writers), thread_name_prefix="contender") as pool:
            return list(pool.map(write, range(len(writers))))

    def _settle(
        self, key: str, races: Races, latency: str, answers: Sequence[Answer], bodies: Sequence[bytes]
    ) -> str:
        """Counts how a race ended, and gives the token of what is there now."""
        winners = [n for n, a in enumerate(answers) if a.outcome is Outcome.COMMIT]
        expected = bodies[winners[0]] if len(winners) == 1 else None
        seen = [g.get(key) for g in self._gateways]
        heads = [g.head(key) for g in self._gateways]
        agreed = all(a.data == expected for a in seen) and all(
            h.token == a.token for h, a in zip(heads, seen, strict=True)
        )
        explained = agreed and len(winners) == 1 and seen[0].token == answers[winners[0]].token
        with self._lock:
            races.rounds += 1
            for a in answers:
                self._count(races, a, explained=explained)
            if expected is not None and not any(a.data == expected for a in seen):
                races.contradicted += 1
            self.measured.reads += len(seen)
            # Without one winner nobody can say what should be read.
            self.measured.mismatches += sum(expected is not None and a.data != expected for a in seen)
            samples = self.measured.latencies_ms
            for n in winners:
                samples.setdefault(latency, []).append(answers[n].took_ms)
            samples.setdefault("get", []).extend(a.took_ms for a in seen)
            samples.setdefault("head", []).extend(a.took_ms for a in heads)
        return seen[0].token or "none"

    def _count(self, races: Races, answer: Answer, *, explained: bool) -> None:
        if answer.outcome is Outcome.COMMIT:
            races.commits += 1
        elif answer.outcome is Outcome.LOSER or (answer.outcome is Outcome.CONFLICT and explained):
            races.losers += 1
        elif answer.outcome is Outcome.CONFLICT:
            races.ambiguous += 1
        elif answer.outcome is Outcome.DENIED:
            races.denied += 1
        else:
            races.unknown += 1

    def _refused(self, write: Callable[[], Answer]) -> None:
        answer = write()
        with self._lock:
            self.measured.stale.tries += 1
            self.measured.stale.refused += answer.outcome is Outcome.LOSER

    def _knock(self, what: str, *doors: Callable[[], Answer]) -> None:
        attempts = self.measured.denials.setdefault(what, Attempts())
        shut = {Outcome.DENIED, Outcome.MISSING} if what == "wrong_bucket" else {Outcome.DENIED}
        for door in doors * DENIAL_TRIES:
            attempts.tries += 1
            answer = door()
            if answer.outcome in shut:
                attempts.refused += 1
            else:
                attempts.said = answer.said

    def _expired(self, gateway: Gateway, key: str) -> None:
        """A signed link past its time."""
        import httpx

        attempts = self.measured.denials.setdefault("expired", Attempts())
        link = gateway.link(key, LINK_LIFETIME_S)
        self._clock.sleep(LINK_LIFETIME_S + LINK_WAIT_S)
        for _ in range(DENIAL_TRIES):
            attempts.tries += 1
            try:
                attempts.refused += httpx.get(link, timeout=10).status_code in (401, 403)
            except httpx.HTTPError:
                continue


def _create(key: str, data: bytes, gateway: Gateway) -> Answer:
    return gateway.create(key, data)


def _overwrite(key: str, data: bytes, token: str, gateway: Gateway) -> Answer:
    return gateway.overwrite(key, data, token)
