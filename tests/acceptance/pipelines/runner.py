"""A runner as far as `action.yml` and `gitlab.yml` need one: inputs, variables, conditions, and bash for each script.

Expressions are looked up, never evaluated: a name in `${{ }}`, and conditions made of `==`, `!=` and `&&`. What a
file uses beyond that is a failure here, so that it does not grow what no test runs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.house.sources import ROOT

ACTION = ROOT / "action.yml"
GITLAB = ROOT / "examples" / "ci" / "gitlab.yml"
EXPRESSION = re.compile(r"\$\{\{\s*([\w.-]+)\s*\}\}")
TERM = re.compile(r"([\w.-]+) (==|!=) '([^']*)'")
# Where the tests' own fleetctl is: a runner that has it installed already.
BIN = str(Path(sys.executable).parent)
# Generous: a loaded machine must not fail a test, and a hang must not stop the suite.
TIMEOUT_S = 300


@dataclass
class Ran:
    """How the steps of a job ended: the code of the first that failed, outputs of all, log and summary."""

    code: int = 0
    log: str = ""
    summary: str = ""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.log}\n--- summary\n{self.summary}\n--- outputs\n{self.outputs}"


@dataclass
class Runner:
    """One fresh machine: a folder for temporary files, and the variables that a runner sets."""

    folder: Path
    env: Mapping[str, str]

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def action(self, checkout: Path, event: Mapping[str, Any], **inputs: str) -> Ran:
        """Runs the composite action in a checkout; `event` has `name` and the event's payload."""
        steps, contexts = self._prepared(event, {k.replace("_", "-"): v for k, v in inputs.items()})
        ran = Ran(outputs={})
        for number, step in enumerate(steps):
            contexts["steps"] = {name: {"outputs": o} for name, o in ran.outputs.items()}
            if "if" in step and not holds(step["if"], contexts):
                continue
            env = {name: filled(str(value), contexts) for name, value in step.get("env", {}).items()}
            self._step(ran, step, number, checkout, {**self._github(event, checkout), **env})
            if ran.code:
                break
        return ran

    def start(self, checkout: Path, event: Mapping[str, Any], **inputs: str) -> subprocess.Popen[bytes]:
        """Starts the step that runs fleetctl and does not wait for it, in a process group of its own."""
        steps, contexts = self._prepared(event, {k.replace("_", "-"): v for k, v in inputs.items()})
        step = next(s for s in steps if s.get("id") == "run")
        env = {name: filled(str(value), contexts) for name, value in step["env"].items()}
        files = self._files("started")
        script = self.folder / "started.sh"
        script.write_text(step["run"])
        with (self.folder / "started.log").open("wb") as log:
            return subprocess.Popen(
                bash(script),
                cwd=checkout,
                env={**self._github(event, checkout), **env, **files},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def gitlab(self, checkout: Path, job: str, variables: Mapping[str, str]) -> Ran:
        """Runs a job of the GitLab template: its `before_script` and `script` in one shell."""
        document = yaml.safe_load(GITLAB.read_text(encoding="utf-8"))
        given = {**document[document[job].get("extends", job)], **document[job]}
        script = self.folder / f"{job}.sh"
        script.write_text("\n".join(["set -eo pipefail", *given.get("before_script", ()), *given["script"]]))
        env = {**self.base(), **document["variables"], "CI": "true", "GITLAB_CI": "true", **variables}
        ran = Ran()
        done = self._bash(script, checkout, env)
        ran.code, ran.log = done.returncode, done.stdout
        return ran

    def _prepared(
        self, event: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        document = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
        unknown = set(inputs) - set(document["inputs"])
        assert not unknown, f"the action has no input {unknown}"
        github = {"action_path": str(ROOT), "token": "the-token", "event": event}
        contexts: dict[str, Any] = {"github": github, "steps": {}}
        defaults = {k: filled(str(v.get("default", "")), contexts) for k, v in document["inputs"].items()}
        contexts["inputs"] = {**defaults, **inputs}
        return document["runs"]["steps"], contexts

    def _step(
        self, ran: Ran, step: Mapping[str, Any], number: int, checkout: Path, env: Mapping[str, str]
    ) -> None:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "a value inside a script would be run as part of it"
        files = self._files(str(number))
        script = self.folder / f"{number}.sh"
        script.write_text(step["run"])
        done = self._bash(script, checkout, {**env, **files})
        ran.code = done.returncode
        ran.log += done.stdout
        ran.summary += Path(files["GITHUB_STEP_SUMMARY"]).read_text()
        assert Path(files["GITHUB_PATH"]).read_text() == "", "fleetctl is installed already"
        lines = Path(files["GITHUB_OUTPUT"]).read_text().splitlines()
        if "id" in step:
            ran.outputs[step["id"]] = dict(line.split("=", 1) for line in lines)

    def _files(self, name: str) -> dict[str, str]:
        """The files through which a step speaks to its runner."""
        found = {}
        for variable in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH", "GITHUB_ENV"):
            path = self.folder / f"{name}.{variable.lower()}"
            path.write_text("")
            found[variable] = str(path)
        return found

    def _bash(self, script: Path, checkout: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            bash(script),
            cwd=checkout,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def base(self) -> dict[str, str]:
        """The variables of every job."""
        return {
            "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **self.env,
        }

    def _github(self, event: Mapping[str, Any], checkout: Path) -> dict[str, str]:
        return {
            **self.base(),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": event["name"],
            "GITHUB_REPOSITORY": "acme/fleet",
            "GITHUB_WORKSPACE": str(checkout),
            "RUNNER_TEMP": str(self.folder),
        }


def bash(script: Path) -> list[str]:
    """How GitHub's runner starts a script with `shell: bash`."""
    return ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)]


def filled(text: str, contexts: Mapping[str, Any]) -> str:
    """A text with its expressions looked up; what is not there is empty."""
    out = EXPRESSION.sub(lambda match: looked_up(match[1], contexts), text)
    assert "${{" not in out, f"an expression that this runner does not know: {text}"
    return out


def holds(condition: str, contexts: Mapping[str, Any]) -> bool:
    """Whether a condition of `==` and `!=` terms holds."""
    terms = [TERM.fullmatch(part.strip()) for part in condition.split("&&")]
    assert all(terms), f"a condition that this runner does not know: {condition}"
    return all((looked_up(t[1], contexts) == t[3]) == (t[2] == "==") for t in terms if t)


def looked_up(name: str, contexts: Mapping[str, Any]) -> str:
    value: Any = contexts
    for part in name.split("."):
        value = value.get(part, "") if isinstance(value, Mapping) else ""
    return str(value)
