"""Nodes that are recorded or seen and that the manifest does not have (any more)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from manifests.schema.release import Substrate
from planner.chain import calls, chain
from planner.change import Action, Change, Reason
from planner.losses import losses
from planner.recorded import RecordedNode
from planner.sight import Seen, unseen
from planner.situation import Findings, Situation
from planner.spec import ArtifactPin, NodeSpec, ReleaseIdentity
from planner.trust import damaged, foreign
from planner.work import Work

Identity = Callable[[str, str], ReleaseIdentity]


class Leaving:
    """Finds them and says what becomes of each. `left_out`: names by host that cannot be reached."""

    def __init__(
        self, situation: Situation, findings: Findings, identity: Identity, left_out: dict[str, list[str]]
    ) -> None:
        self.situation = situation
        self.findings = findings
        self.left_out = left_out
        self._identity = identity

    def works(self, placed: set[str]) -> list[Work]:
        """One work for each; none for a node that is gone already. `placed` are the uids that are wanted."""
        situation = self.situation
        works = []
        names = {}
        for recorded in situation.recorded.nodes.values():
            if recorded.destroyed or recorded.uid in placed:
                continue
            names[recorded.uid] = recorded.name
            seen = situation.sight.by_uid.get(recorded.uid)
            substrate = recorded.spec.substrate if recorded.spec else "host"
            covered = situation.options.covers(situation.name, recorded.group, recorded.name, recorded.host)
            if not covered:
                works.append(self._staying(recorded, seen))
            elif unseen(situation.places, recorded.host, substrate) is not None:
                self.left_out[recorded.host].append(recorded.name)
                works.append(self._staying(recorded, seen))
            elif situation.options.drain:
                works.append(self._staying(recorded, seen))
            elif seen is not None:
                works += self._destroy(recorded, seen)
        for uid, seen in situation.sight.by_uid.items():
            known = uid in placed or uid in situation.recorded.nodes or uid in names
            if not known and not situation.options.drain:
                works += self._destroy(None, seen)
        return works

    def _destroy(self, recorded: RecordedNode | None, seen: Seen) -> Iterator[Work]:
        node, situation = seen.node, self.situation
        group = recorded.group if recorded else ""
        if not situation.options.covers(situation.name, group, node.name, seen.host):
            return
        adopts = foreign(situation, self.findings, node, recorded, node.name, seen.host, ())
        if adopts is None or damaged(self.findings, node, node.name, seen.host):
            return
        spec = (recorded.spec if recorded else None) or spec_as_seen(seen, situation.fleet.release.product)
        retained = spec.data is None or spec.data.retain
        live = node.live
        own = calls(spec, serves=node.available)
        links = chain(Action.DESTROY, spec.substrate, running=live, places=False, adopts=adopts, own=own)
        reason = Reason(code="destroy" if situation.options.destroy else "not-declared")
        change = Change(
            action=Action.DESTROY,
            available=node.available,
            before=self._identity(node.version, node.digest),
            counted=False,
            data_lost=not retained,
            generation=node.generation,
            group=group,
            host=seen.host,
            live=live,
            losses=losses(node, [link.kind for link in links], data_lost=not retained),
            node=node.name,
            reasons=(reason,),
            uid=node.uid,
        )
        key = f"{node.name}@{node.uid}"
        yield Work(change, spec, key, node, change.live, False, node.version, None, links)

    def _staying(self, recorded: RecordedNode, seen: Seen | None) -> Work:
        """A node that would go and is not touched now: its version stays live."""
        node = seen.node if seen else None
        before = recorded.spec.identity if recorded.spec else None
        if node is not None:
            before = self._identity(node.version, node.digest)
        running = node is not None and node.live
        change = Change(
            action=Action.NOOP,
            after=before,
            available=node is not None and node.available,
            before=before,
            counted=False,
            generation=recorded.generation,
            group=recorded.group,
            host=recorded.host,
            live=running or node is None,
            node=recorded.name,
            reasons=(Reason(code="not-declared"),),
            uid=recorded.uid,
        )
        version = before.version if before else None
        return Work(change, recorded.spec, recorded.name, node, running, False, version, version)


def spec_as_seen(seen: Seen, product: str) -> NodeSpec:
    """As much of a specification as destroying a node needs, from what was seen of it."""
    node = seen.node
    return NodeSpec(
        address=node.address or "127.0.0.1",
        artifact=ArtifactPin(digest=node.digest, name="artifact", source=""),
        command=tuple(node.fields.get("command", "").split("\x00")),
        host=seen.host,
        port=node.port,
        product=product,
        substrate=_substrate(seen),
        version=node.version,
    )


def _substrate(seen: Seen) -> Substrate:
    return "docker" if seen.substrate == "docker" else "qemu" if seen.substrate == "qemu" else "host"
