"""What versions demand beside their pairs: an environment they can start with, and bytes that stay theirs."""

from __future__ import annotations

from collections.abc import Iterable

from manifests.schema.compatibility import Environment
from manifests.version import Direction, direction
from planner.chain import starts
from planner.situation import Findings, Situation
from planner.work import Work

Rules = list[tuple[Environment, str | None]]


def environment(situation: Situation, findings: Findings, works: Iterable[Work]) -> None:
    """Refuses to start a node with variables that its version refuses, misses, or knows by another name."""
    rules: dict[str, Rules] = {}
    told: set[tuple[str, str, str]] = set()
    for work in works:
        if work.spec is None or work.new is None or not starts(work.links):
            continue
        version = work.new
        known = rules.get(version)
        if known is None:
            known = rules[version] = _rules(situation, work.spec.product, version)
        if not known:
            continue
        for rule, place in known:
            for code, name, says, hint in _violations(rule, work.spec.env):
                # A group's nodes share their process: one of them stands for all.
                if (work.change.group, name, version) in told:
                    continue
                told.add((work.change.group, name, version))
                findings.refuse(
                    f"environment.{code}",
                    "The version does not take this environment",
                    f"{work.spec.product} {version} {says} {name} (group {work.change.group}, first {work.name}"
                    + (f"; {place})" if place else ")"),
                    place=_place(situation, work, name),
                    hint=hint,
                )


def _rules(situation: Situation, product: str, version: str) -> Rules:
    found: Rules = []
    for n, doc in enumerate(d for d in situation.manifests.compatibility if d.product == product):
        for i, rule in enumerate(doc.environment):
            since = direction(rule.since, version) is not Direction.DOWNGRADE
            until = rule.until is None or direction(version, rule.until) is Direction.UPGRADE
            if since and until:
                key = ("Compatibility", f"{product}#{n}")
                found.append((rule, situation.place_in(key, ("environment", i))))
    return found


def _violations(rule: Environment, env: Iterable[str]) -> Iterable[tuple[str, str, str, str]]:
    names = set(env)
    for name in rule.refuses:
        if name in names:
            yield "refused", name, "does not start with", f"remove {name}"
    for old, new in rule.renamed.items():
        if old in names:
            yield "renamed", old, f"knows by the name {new} what was", f"write {new} in its place"
    for name in rule.requires:
        if name not in names:
            yield "required", name, "does not start without", f"set {name}"


def _place(situation: Situation, work: Work, name: str) -> str | None:
    if work.path is None:
        return None
    return situation.place(*work.path[:2], "process", "env", name)


def ports(situation: Situation, findings: Findings, works: list[Work]) -> None:
    """Refuses to start a node on a port that another one still holds, in a plan that stops them one by one."""
    held = {
        (w.change.host, w.seen.port): w
        for w in works
        if w.running and w.seen is not None and w.seen.port is not None and w.new is not None
    }
    for work in works:
        if work.spec is None or work.spec.port is None or not starts(work.links):
            continue
        holder = held.get((work.change.host, work.spec.port))
        if holder is not None and holder is not work:
            findings.refuse(
                "port.held",
                "A port is still held by another node",
                f"{work.name} would start on port {work.spec.port} of {work.change.host}, and {holder.name} listens "
                "there until it is changed itself",
                place=None if work.path is None else situation.place(*work.path, "port"),
                hint="go over a port that is free, in two plans, or accept downtime with --accept-downtime",
            )


def rebuilds(situation: Situation, findings: Findings, works: Iterable[Work]) -> None:
    """Refuses other bytes under the same version's name, unless the rollout allows it."""
    if situation.fleet.rollout.allow_rebuild:
        return
    for work in works:
        before, after = work.change.before, work.change.after
        if not work.links or before is None or after is None or before is after:
            continue
        if before.version == after.version and before.digest != after.digest:
            findings.refuse(
                "release.rebuild",
                "The same version has other bytes",
                f"{work.name} runs {before.version} with {before.digest[:19]}…, and the release of that name "
                f"is {after.digest[:19]}… now",
                place=situation.place("release", "version"),
                hint="give the new bytes a version of their own, or write rollout: {allow_rebuild: true}",
            )
            return
