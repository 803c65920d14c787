"""Desired against observed and recorded: one piece of work per node, each with its reasons.

Unseen is not absent: a host that did not answer leaves its nodes as they are. A node that is gone from a
host that did answer is made again, under its next generation.
"""

from __future__ import annotations

from collections import defaultdict

from manifests.schema.fleet import OnChange
from planner.chain import calls, chain
from planner.change import Action, Change, Reason
from planner.compare import consequence, differing, heavier, release_reasons
from planner.desired import Desired
from planner.frame import ROOT_DEFAULT
from planner.leaving import Leaving
from planner.losses import losses
from planner.observed import HealthState, NodeState, ObservedNode
from planner.ordered import built
from planner.recorded import RecordedNode
from planner.sight import unseen, withdrawn
from planner.situation import Findings, Situation
from planner.spec import NodeSpec, ReleaseIdentity, fields
from planner.trust import damaged, foreign
from planner.work import Work

# Looking a member up on its class costs a call, and 10,000 nodes look up many.
_NOOP, _REPLACE, _RESTART, _RELOAD = Action.NOOP, Action.REPLACE, Action.RESTART, Action.RELOAD
_PAUSED = NodeState.PAUSED
_DEAD = (NodeState.EXITED, NodeState.STOPPED, NodeState.RESTARTING)
_ACTION = {"reload": Action.RELOAD, "restart": Action.RESTART, "replace": Action.REPLACE}
# Names listed in one message before it says how many more there are.
NAMES_MAX = 5


class Diff:
    """Compares one fleet's nodes; `left_out` has those that need a change and cannot be reached, `unseen` those
    that need none as far as anybody knows.
    """

    def __init__(self, situation: Situation, findings: Findings) -> None:
        self.situation = situation
        self.findings = findings
        self.left_out: dict[str, list[str]] = defaultdict(list)
        self.unseen: dict[str, list[str]] = defaultdict(list)
        self._unhealthy: list[str] = []
        self._kept_out = situation.recorded.cordoned | {situation.options.drain}
        self._waiting: dict[str, list[str]] = defaultdict(list)
        self._identities: dict[tuple[str, str], ReleaseIdentity] = {}
        self._release: dict[tuple[str, str, str, str], tuple[Reason, ...]] = {}

    def compare(self, desired: list[Desired], placed: set[str]) -> list[Work]:
        """The work of every node: the desired ones in the manifest's order, then those that go."""
        works = [self._judge(d) for d in desired]
        works += Leaving(self.situation, self.findings, self._identity, self.left_out).works(placed)
        self._say_unhealthy()
        self._say_unreachable()
        for host, names in self._waiting.items():
            self.findings.warn(
                f"host {host} is cordoned: {_names(names)} stay as they are until it is uncordoned"
            )
        return works

    def _judge(self, desired: Desired) -> Work:
        placed, spec = desired.placed, desired.spec
        situation = self.situation
        recorded = placed.recorded
        seen = situation.sight.by_uid.get(placed.uid)
        node = seen.node if seen else None
        covered = situation.options.covers(situation.name, placed.group.name, placed.name, placed.host)
        if unseen(situation.places, placed.host, spec.substrate) is not None:
            return self._unreachable(desired, recorded, covered)
        if placed.host in self._kept_out:
            return self._keep_out(desired, node, recorded, covered)
        if node is None:
            if not covered:
                return self._work(desired, _NOOP, 0, (), None, before=None)
            return self._create(desired, recorded)
        identity = self._identity(node.version, node.digest)
        if not covered:
            return self._work(desired, _NOOP, node.generation, (), node, before=identity)
        adopts = foreign(situation, self.findings, node, recorded, placed.name, placed.host, placed.path)
        if adopts is None or damaged(self.findings, node, placed.name, placed.host):
            return self._work(desired, _NOOP, node.generation, (), node, before=identity)
        return self._compare(desired, node, recorded, identity, adopts)

    def _keep_out(
        self, desired: Desired, node: ObservedNode | None, recorded: RecordedNode | None, covered: bool
    ) -> Work:
        """A node of a host where nothing may start: it is left alone, or stopped where its host is drained."""
        placed, situation = desired.placed, self.situation
        generation = recorded.generation if recorded else 0
        before = None
        if node is not None:
            before, generation = self._identity(node.version, node.digest), node.generation
        if placed.host != situation.options.drain:
            well = node is not None and node.available and before == desired.spec.identity
            if covered and not (well and node is not None and node.fields == desired.fields):
                self._waiting[placed.host].append(placed.name)
            return self._work(desired, _NOOP, generation, (Reason(code="cordoned"),), node, before=before)
        reason = (Reason(code="drain"),)
        if node is None or not node.live:
            return self._work(desired, _NOOP, generation, reason, node, before=before)
        adopts = foreign(situation, self.findings, node, recorded, placed.name, placed.host, placed.path)
        if adopts or adopts is None or damaged(self.findings, node, placed.name, placed.host):
            return self._work(desired, _NOOP, generation, reason, node, before=before)
        return self._work(desired, Action.STOP, generation, reason, node, before=before)

    def _compare(
        self,
        desired: Desired,
        node: ObservedNode,
        recorded: RecordedNode | None,
        identity: ReleaseIdentity,
        adopts: bool,
    ) -> Work:
        """A node that is there: what differs decides what happens, and whether it runs decides how."""
        known = recorded.spec if recorded else None
        wanted = self._identity(desired.spec.version, desired.spec.artifact.digest)
        reasons: tuple[Reason, ...] = ()
        action: Action = _NOOP
        drift = False
        if identity is not wanted:
            action = _REPLACE
            reasons = self._release_reasons(identity, wanted)
            drift = known is not None and (known.version, known.artifact.digest) == (
                wanted.version,
                wanted.digest,
            )
        if node.fields != desired.fields:
            found, weight = self._fields(desired, node, known)
            if found:
                action = _ACTION[weight] if action is _NOOP else action
                drift = drift or self._drifted(found, desired, known)
                reasons += tuple(found)
        places = True
        if node.state in _DEAD:
            reasons += (Reason(code="not-running", field="state", before=_state(node), after="running"),)
            places = action is not _NOOP
            action = _REPLACE if action is _REPLACE else _RESTART
        elif node.state is _PAUSED and action is _RELOAD:
            action = _RESTART  # a paused process reads nothing
        elif action in (_NOOP, _RELOAD) and withdrawn(recorded.withdrawn_at if recorded else None, node):
            # A run ended between its drain and its stop: it runs, and nothing else would have it serve again.
            reasons += (Reason(code="drained", field="state", before="drained", after="running"),)
            places = action is not _NOOP
            action = _RESTART
        elif action is _NOOP and not node.available:
            self._unhealthy.append(f"{desired.name} ({_state(node)})")
        generation = node.generation
        if action is _REPLACE or (action is _RESTART and places):
            generation = max(generation, recorded.generation if recorded else 0) + 1
        if adopts:
            reasons = (Reason(code="lineage", field="lineage", before=node.lineage or None), *reasons)
            action = Action.ADOPT if action is _NOOP else action
        return self._work(
            desired,
            action,
            generation,
            reasons,
            node,
            before=identity,
            drift=drift,
            places=places,
            adopts=adopts,
        )

    def _fields(
        self, desired: Desired, node: ObservedNode, known: NodeSpec | None
    ) -> tuple[list[Reason], OnChange]:
        """The fields that differ, and the heaviest of what they lead to."""
        spec = desired.spec
        root = self.situation.manifests.hosts[desired.placed.host].root or ROOT_DEFAULT
        found, unchecked = differing(desired.fields, node, spec, known, root)
        if unchecked:
            self.findings.warn(f"{desired.name}: not checked: {', '.join(unchecked)}")
        weight: OnChange = "reload"
        for reason in found:
            weight = heavier(weight, consequence(reason.field, spec))
        return found, weight

    def _drifted(self, found: list[Reason], desired: Desired, known: NodeSpec | None) -> bool:
        """Whether some field differs that was declared all along: somebody else has changed it."""
        if known is None:
            return False
        declared = fields(known, self.situation.secrets)
        return any(declared.get(r.field) == desired.fields.get(r.field) for r in found)

    def _create(self, desired: Desired, recorded: RecordedNode | None) -> Work:
        if recorded is None:
            return self._work(desired, Action.CREATE, 1, (Reason(code="new"),), None, before=None)
        before = recorded.spec.identity if recorded.spec else None
        reasons: tuple[Reason, ...] = (Reason(code="gone"),)
        if before is not None and before != desired.spec.identity:
            reasons += release_reasons(before, desired.spec.identity)
        return self._work(desired, Action.CREATE, recorded.generation + 1, reasons, None, before=before)

    def _unreachable(self, desired: Desired, recorded: RecordedNode | None, covered: bool) -> Work:
        """Nothing is known of it now. It may be running, so its recorded version counts as live."""
        known = recorded.spec if recorded else None
        if covered and (known is None or fields(known, self.situation.secrets) != desired.fields):
            self.left_out[desired.placed.host].append(desired.name)
        elif covered:
            self.unseen[desired.placed.host].append(desired.name)
        before = known.identity if known else None
        reason = (Reason(code="unreachable"),)
        generation = recorded.generation if recorded else 0
        return self._work(desired, _NOOP, generation, reason, None, before=before, live=True)

    def _work(
        self,
        desired: Desired,
        action: Action,
        generation: int,
        reasons: tuple[Reason, ...],
        node: ObservedNode | None,
        *,
        before: ReleaseIdentity | None,
        drift: bool = False,
        live: bool = False,
        places: bool = False,
        adopts: bool = False,
    ) -> Work:
        placed, spec = desired.placed, desired.spec
        running = node is not None and node.live
        live = running or (live and before is not None)
        after = before if action is _NOOP else self._identity(spec.version, spec.artifact.digest)
        if action is Action.STOP:
            after = None
        own = calls(spec, serves=node is not None and node.available)
        links = chain(action, spec.substrate, running=running, places=places, adopts=adopts, own=own)
        change = built(
            Change,
            {
                "action": action,
                "after": after,
                "available": node is not None and node.available,
                "before": before,
                "counted": True,
                "data_lost": False,
                "drift": drift,
                "generation": generation,
                "group": placed.group.name,
                "host": placed.host,
                "live": live,
                "losses": losses(node, [link.kind for link in links], data_lost=False),
                "node": placed.name,
                "reasons": reasons,
                "uid": placed.uid,
            },
        )
        return Work(
            change,
            spec,
            placed.name,
            node,
            running,
            True,
            before.version if before else None,
            after.version if after else None,
            links,
            placed.path,
            desired.fields,
        )

    def _say_unhealthy(self) -> None:
        if self._unhealthy:
            self.findings.warn(
                f"as declared, and not available: {_names(self._unhealthy)}; nothing here changes that"
            )

    def _say_unreachable(self) -> None:
        situation = self.situation
        for host, names in self.unseen.items():
            self.findings.warn(
                f"host {host} cannot be reached ({self._why_unseen(host)}): nobody knows how {_names(names)} "
                f"{'is' if len(names) == 1 else 'are'} now"
            )
        count = sum(map(len, self.left_out.values()))
        allowed = situation.fleet.rollout.max_failures
        for host, names in self.left_out.items():
            why = self._why_unseen(host)
            if count <= allowed:
                self.findings.warn(f"host {host} cannot be reached ({why}): {_names(names)} stay as they are")
                continue
            self.findings.refuse(
                "host.unreachable",
                "A host that needs a change cannot be reached",
                f"{host}: {why}; {_names(names)} would have to change",
                place=situation.place_in(("Host", host), ()),
                hint=f"make {host} reachable; or leave its nodes out with --target, or let a rollout go on "
                f"without them with max_failures: {count}",
            )

    def _why_unseen(self, host: str) -> str:
        """What its places said, of those that were asked."""
        reasons = {unseen(self.situation.places, host, s) for s in ("host", "docker", "qemu")} - {None}
        return " or ".join(sorted(r for r in reasons if r and r != "it was not asked")) or "it was not asked"

    def _identity(self, version: str, digest: str) -> ReleaseIdentity:
        """One object per release, so that identities compare by `is`, and are written down once."""
        key = (version, digest)
        found = self._identities.get(key)
        if found is None:
            found = self._identities[key] = ReleaseIdentity(digest=digest, version=version)
        return found

    def _release_reasons(self, before: ReleaseIdentity, after: ReleaseIdentity) -> tuple[Reason, ...]:
        key = (before.version, before.digest, after.version, after.digest)
        found = self._release.get(key)
        if found is None:
            found = self._release[key] = release_reasons(before, after)
        return found


def _state(node: ObservedNode) -> str:
    if node.state is NodeState.RUNNING:
        text = {HealthState.FAILING: "running, health checks fail"}.get(
            node.health, "running, health not known"
        )
    else:
        text = node.state.value
    if node.exit_code is not None and node.state in (NodeState.EXITED, NodeState.RESTARTING):
        text += f" with {node.exit_code}"
    return f"{text}: {node.detail}" if node.detail else text


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    more = len(names) - NAMES_MAX
    return f"{shown} and {more} more" if more > 0 else shown
