"""GitHub as far as our workflow needs it: events, jobs in their order, each on a machine of its own, approvals.

The workflow is read from the commit that the event is about, as GitHub reads it. What a file says that this runner
does not know is a failure, and so is a name in an expression that does not exist.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.pipelines import actions
from tests.acceptance.pipelines.actions import Place
from tests.acceptance.pipelines.expressions import event_of, filled, filled_all, holds
from tests.acceptance.pipelines.forge import Forge
from tests.acceptance.pipelines.project import Project
from tests.acceptance.pipelines.repository import Repository, git
from tests.acceptance.pipelines.runner import Runner

FILE = ".github/workflows/fleet.yml"
REPOSITORY = "acme/fleet"
WORKFLOW_KEYS = {"name", "on", "permissions", "env", "jobs"}
JOB_KEYS = {
    "concurrency",
    "env",
    "environment",
    "if",
    "needs",
    "outputs",
    "permissions",
    "runs-on",
    "steps",
}
STEP_KEYS = {"id", "if", "name", "uses", "with"}
SCOPES = {"contents", "pull-requests"}


@dataclass(frozen=True)
class Event:
    """What happened: the commit and ref that it is about, the branch that filters see, and the files that changed."""

    name: str
    sha: str
    ref: str
    branch: str
    changed: list[str]
    payload: Mapping[str, Any]


@dataclass
class Job:
    """How a job went: `success`, `failure` or `skipped`; what its steps said, and its outputs."""

    result: str = "skipped"
    log: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.result}\n{self.log}\n--- summary\n{self.summary}\n--- outputs\n{self.outputs}"


@dataclass
class Run:
    """A run of the workflow: its jobs by name, in their order, and its artifacts."""

    artifacts: Path
    jobs: dict[str, Job] = field(default_factory=dict)

    @property
    def results(self) -> dict[str, str]:
        return {name: job.result for name, job in self.jobs.items()}

    def __str__(self) -> str:
        return "\n".join(f"=== {name}: {job}" for name, job in self.jobs.items())


@dataclass
class GitHub:
    """A forge with one repository and its settings.

    `project` is what the workflow's own action is fetched from, `secrets` are the repository's, `environments` what
    is approved by whom: a reviewer gets the run so far and says yes or no. `machine` has the runners' variables.
    """

    folder: Path
    repository: Repository
    forge: Forge
    project: Project
    secrets: Mapping[str, str] = field(default_factory=dict)
    environments: dict[str, Callable[[Run], bool]] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = count(1)
        self.groups: dict[str, threading.Lock] = {}
        self.waiting: list[str] = []
        served = self.folder / "served"
        (served / REPOSITORY).parent.mkdir(parents=True)
        (served / REPOSITORY).symlink_to(self.repository.path / ".git")
        self.forge.served = served

    def push(self, before: str, after: str, branch: str = "main") -> Run | None:
        """A push to a branch; None when the workflow is not for it."""
        ref = f"refs/heads/{branch}"
        payload = {"ref": ref, "before": before, "after": after}
        changed = self.repository.changed(before, after)
        return self._run(Event("push", after, ref, branch, changed, payload))

    def pull_request(self, number: int, base: str, head: str, action: str = "opened") -> Run | None:
        """A pull request to main that was opened, or got another head (`synchronize`)."""
        merge = self.repository.pull(number, base, head)
        pull = {"number": number, "base": {"ref": "main", "sha": base}, "head": {"ref": "work", "sha": head}}
        payload = {"action": action, "number": number, "pull_request": pull}
        changed = self.repository.changed(base, head)
        return self._run(Event("pull_request", merge, f"refs/pull/{number}/merge", "main", changed, payload))

    def _run(self, event: Event) -> Run | None:
        # All values as texts, so that `on` is a word and not a truth.
        text = git(self.repository.path, "show", f"{event.sha}:{FILE}")
        document = yaml.load(text, Loader=yaml.BaseLoader)
        known(document, WORKFLOW_KEYS)
        if event.name not in document["on"] or not wanted(document["on"][event.name], event):
            return None
        run = Run(self.folder / f"artifacts-{next(self.numbers)}")
        jobs = document["jobs"]
        for name, job in jobs.items():
            known(job, JOB_KEYS)
            assert set(needs(job)) <= jobs.keys(), f"{name} needs a job that there is not"
        while waiting := [n for n in jobs if n not in run.jobs]:
            name = next((n for n in waiting if set(needs(jobs[n])) <= run.jobs.keys()), None)
            assert name is not None, f"{waiting} wait for each other"
            run.jobs[name] = Job()
            self._job(document, jobs[name], event, run, run.jobs[name])
        return run

    def _job(
        self, document: Mapping[str, Any], job: Mapping[str, Any], event: Event, run: Run, done: Job
    ) -> None:
        earlier = {n: run.jobs[n] for n in needs(job)}
        github = {
            "event": event_of(event.payload),
            "event_name": event.name,
            "ref": event.ref,
            "repository": REPOSITORY,
            "sha": event.sha,
        }
        contexts: dict[str, Any] = {
            "github": github,
            "needs": {n: {"outputs": j.outputs, "result": j.result} for n, j in earlier.items()},
        }
        # What outputs there are is known of a job that never ran, too.
        done.outputs = dict.fromkeys(job.get("outputs", {}), "")
        held = "if" not in job or holds(job["if"], contexts)
        if not held or any(j.result != "success" for j in earlier.values()):
            return
        if "environment" in job and not self.environments[job["environment"]](run):
            done.result, done.log = "failure", "rejected by a reviewer"
            return
        contexts["secrets"] = self.secrets
        done.env = filled_all({**document.get("env", {}), **job.get("env", {})}, contexts)
        with (
            self._turn(job.get("concurrency"), contexts),
            self.forge.token(permissions(document, job)) as token,
        ):
            github["token"] = token
            self._steps(job, event, run, done, {**contexts, "env": done.env, "steps": {}})

    def _steps(
        self, job: Mapping[str, Any], event: Event, run: Run, done: Job, contexts: dict[str, Any]
    ) -> None:
        folder = self.folder / f"machine-{next(self.numbers)}"
        workspace = folder / "workspace"
        workspace.mkdir(parents=True)
        place = Place(
            workspace=workspace,
            artifacts=run.artifacts,
            server=self.forge.url,
            repository=REPOSITORY,
            ref=event.ref,
            sha=event.sha,
            token=contexts["github"]["token"],
        )
        done.result = "success"
        for number, step in enumerate(job["steps"]):
            known(step, STEP_KEYS)
            given = filled_all(step.get("with", {}), contexts)
            outputs: Mapping[str, str] = dict.fromkeys(self._declared(step["uses"]), "")
            if done.result == "success" and ("if" not in step or holds(step["if"], contexts)):
                outputs = {
                    **outputs,
                    **self._step(step["uses"], given, place, event, done, folder / str(number)),
                }
            if "id" in step:
                contexts["steps"][step["id"]] = {"outputs": outputs}
        done.outputs = filled_all(job.get("outputs", {}), contexts)

    def _declared(self, uses: str) -> set[str]:
        """The outputs that an action has."""
        if uses in actions.KNOWN:
            return set(actions.KNOWN[uses].outputs)
        assert uses == self.own, f"an action that this runner does not know: {uses}"
        return set(yaml.safe_load((self.project.path / "action.yml").read_text())["outputs"])

    @property
    def own(self) -> str:
        """How a workflow names our action at the commit that it trusts."""
        return f"acme/fleetctl@{self.project.commit}"

    def _step(
        self, uses: str, given: Mapping[str, str], place: Place, event: Event, done: Job, folder: Path
    ) -> dict[str, str]:
        if uses == self.own:
            source = self.project.unpacked(folder / "_actions" / uses)
            env = {**self.machine, "GITHUB_API_URL": self.forge.url, **done.env}
            machine = Runner(folder / "temp", env, source=source, token=place.token)
            ran = machine.action(place.workspace, {**event.payload, "name": event.name}, **given)
            done.log += ran.log
            done.summary += ran.summary
            if ran.code:
                done.result = "failure"
                done.log += f"exit {ran.code}\n"
            return ran.results
        step = actions.KNOWN[uses]
        assert given.keys() <= step.inputs, f"{uses} has not all of the inputs {sorted(given)}"
        try:
            done.log += step.run(place, given)
        except RuntimeError as error:
            done.result = "failure"
            done.log += f"{error}\n"
        return {}

    @contextmanager
    def _turn(self, concurrency: Mapping[str, str] | None, contexts: Mapping[str, Any]) -> Iterator[None]:
        """One job of a group at a time; the next waits until it ended."""
        if concurrency is None:
            yield
            return
        assert concurrency.keys() == {"group", "cancel-in-progress"}
        assert concurrency["cancel-in-progress"] == "false", "this runner does not cancel"
        group = filled(concurrency["group"], contexts)
        lock = self.groups.setdefault(group, threading.Lock())
        if not lock.acquire(blocking=False):
            self.waiting.append(group)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def known(given: Mapping[str, Any], keys: set[str]) -> None:
    assert given.keys() <= keys, f"this runner does not know {sorted(given.keys() - keys)}"


def needs(job: Mapping[str, Any]) -> list[str]:
    """The jobs that one waits for."""
    named = job.get("needs", [])
    return [named] if isinstance(named, str) else list(named)


def permissions(document: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """What a job's token may do: what is not named it may not."""
    named = job.get("permissions", document.get("permissions"))
    assert isinstance(named, Mapping), "permissions are named, one by one"
    known(named, SCOPES)
    assert set(named.values()) <= {"read", "write", "none"}
    return dict(named)


def wanted(filters: Mapping[str, list[str]], event: Event) -> bool:
    """Whether a workflow's filters let an event through."""
    known(filters, {"branches", "paths"})
    if "branches" in filters and not any(fits(p, event.branch) for p in filters["branches"]):
        return False
    return "paths" not in filters or any(fits(p, f) for p in filters["paths"] for f in event.changed)


def fits(pattern: str, name: str) -> bool:
    """Whether a filter's pattern fits: `*` within a folder, `**` over all of them."""
    assert not set(pattern) & set("?+[]!"), f"a pattern that this runner does not know: {pattern}"
    parts = [
        ".*" if p == "**" else "[^/]*" if p == "*" else re.escape(p) for p in re.split(r"(\*+)", pattern)
    ]
    return re.fullmatch("".join(parts), name) is not None
