"""GitLab as far as our template needs it: which jobs a pipeline has, in which order, and what each finds.

Every job gets a machine and a checkout of its own, the artifacts of the jobs that it needs, and one shell for its
`before_script` and `script`. What the template says that this runner does not know is a failure.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import yaml

from tests.acceptance.pipelines.expressions import merged
from tests.acceptance.pipelines.repository import Repository
from tests.acceptance.pipelines.runner import BIN, SYSTEM_PATH, Ran, Runner
from tests.house.sources import ROOT

TEMPLATE = ROOT / "examples" / "ci" / "gitlab.yml"
# GitLab's own, where a file names none.
STAGES = ["build", "test", "deploy"]
STAGE = "test"
# How much of the history a runner fetches.
DEPTH = 20
JOB_KEYS = {
    "artifacts",
    "before_script",
    "environment",
    "extends",
    "image",
    "interruptible",
    "needs",
    "resource_group",
    "rules",
    "script",
    "stage",
}
RULE = re.compile(r'\$(\w+) == (?:\$(\w+)|"([^"]*)")')


@dataclass
class Job:
    """A job of a pipeline: what the template says, when it starts, and how it ended."""

    name: str
    said: Mapping[str, Any]
    manual: bool
    allowed_to_fail: bool
    ran: Ran | None = None

    @property
    def stage(self) -> int:
        return STAGES.index(self.said.get("stage", STAGE))

    @property
    def done(self) -> bool:
        return self.ran is not None and self.ran.code == 0


@dataclass
class GitLab:
    """A project: its repository, its CI/CD variables, and what every runner has around it."""

    folder: Path
    repository: Repository
    api: str
    variables: dict[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    path: str = f"{BIN}:{SYSTEM_PATH}"

    def __post_init__(self) -> None:
        self.numbers = count(1)

    def push(self, commit: str, branch: str = "main") -> Pipeline:
        """The pipeline of a push to a branch."""
        return Pipeline(self, commit, {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": branch})

    def merge_request(self, base: str, head: str) -> Pipeline:
        """The pipeline of a merge request; it has no branch."""
        about = {
            "CI_PIPELINE_SOURCE": "merge_request_event",
            "CI_MERGE_REQUEST_IID": "7",
            "CI_MERGE_REQUEST_PROJECT_ID": "12",
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        }
        return Pipeline(self, head, about)


class Pipeline:
    """A pipeline: `jobs` by name are those that the rules let in; those that nobody has to start have run."""

    def __init__(self, gitlab: GitLab, commit: str, about: Mapping[str, str]) -> None:
        self.gitlab, self.commit = gitlab, commit
        self.artifacts = gitlab.folder / f"artifacts-{next(gitlab.numbers)}"
        document = yaml.safe_load(TEMPLATE.read_text(encoding="utf-8"))
        predefined = {
            "CI": "true",
            "GITLAB_CI": "true",
            "CI_API_V4_URL": gitlab.api,
            "CI_COMMIT_SHA": commit,
            "CI_DEFAULT_BRANCH": "main",
            "CI_PROJECT_ID": "12",
        }
        # What is set for the project goes before what the file says.
        self.variables = {**predefined, **about, **document.pop("variables"), **gitlab.variables}
        found = (self._job(name, document) for name in document if not name.startswith("."))
        self.jobs = {job.name: job for job in found if job is not None}
        for job in self.jobs.values():
            assert set(job.said.get("needs", ())) <= self.jobs.keys(), f"{job.name} needs what is not there"
        while ready := [
            j for j in self.jobs.values() if not j.manual and j.ran is None and self.may_start(j)
        ]:
            self._run(ready[0])

    def play(self, name: str) -> Ran:
        """What a person does who starts a manual job; it must wait for nothing."""
        job = self.jobs[name]
        assert job.manual and self.may_start(job), f"{name} cannot be started"
        return self._run(job)

    def may_start(self, job: Job) -> bool:
        """Whether all that a job waits for went well: what it needs, or else the stages before it."""
        return all(earlier.done or earlier.allowed_to_fail for earlier in self._before(job))

    def _before(self, job: Job) -> Iterable[Job]:
        if "needs" in job.said:
            return [self.jobs[name] for name in job.said["needs"]]
        return [earlier for earlier in self.jobs.values() if earlier.stage < job.stage]

    def _job(self, name: str, document: Mapping[str, Any]) -> Job | None:
        said = document[name]
        if "extends" in said:
            said = merged(document[said["extends"]], said)
        assert said.keys() <= JOB_KEYS, f"this runner does not know {said.keys() - JOB_KEYS}"
        for rule in said["rules"]:
            assert rule.keys() <= {"if", "when", "allow_failure"}
            if self._holds(rule["if"]):
                when = rule.get("when", "on_success")
                assert when in ("on_success", "manual")
                return Job(name, said, when == "manual", rule.get("allow_failure", False))
        return None

    def _holds(self, condition: str) -> bool:
        match = RULE.fullmatch(condition)
        assert match, f"a condition that this runner does not know: {condition}"
        right = match[3] if match[2] is None else self.variables.get(match[2])
        return self.variables.get(match[1]) == right

    def _run(self, job: Job) -> Ran:
        folder = self.gitlab.folder / f"machine-{next(self.gitlab.numbers)}"
        checkout = self.gitlab.repository.checkout(folder / "builds", self.commit, DEPTH)
        for earlier in self._before(job):
            if (self.artifacts / earlier.name).is_dir():
                shutil.copytree(self.artifacts / earlier.name, checkout, dirs_exist_ok=True)
        machine = Runner(folder / "temp", {**self.gitlab.machine, **self.variables}, path=self.gitlab.path)
        script = machine.folder / "script.sh"
        lines = ["set -eo pipefail", *job.said.get("before_script", ()), *job.said["script"]]
        script.write_text("\n".join(lines))
        done = machine.bash(script, checkout, machine.base())
        job.ran = Ran(done.returncode, done.stdout)
        self._keep(job, checkout)
        return job.ran

    def _keep(self, job: Job, checkout: Path) -> None:
        """Keeps a job's artifacts; those that are not there are a warning only."""
        artifacts = job.said.get("artifacts", {"paths": []})
        assert artifacts.keys() <= {"access", "expire_in", "paths", "when"}
        if artifacts.get("when", "on_success") == "on_success" and not job.done:
            return
        for name in artifacts["paths"]:
            kept = self.artifacts / job.name / name
            kept.parent.mkdir(parents=True, exist_ok=True)
            if (checkout / name).is_file():
                shutil.copy(checkout / name, kept)
