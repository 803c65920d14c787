"""A runner as far as `action.yml` needs one: inputs, variables, conditions, and bash for each script."""

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

from tests.acceptance.pipelines.expressions import event_of, filled, filled_all, holds
from tests.acceptance.pipelines.forge import KNOWN_TOKEN
from tests.house.sources import ROOT

ACTION = ROOT / "action.yml"
# Where the tests' own fleetctl is: a runner that has it installed already.
BIN = str(Path(sys.executable).parent)
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
# Generous: a loaded machine must not fail a test, and a hang must not stop the suite.
TIMEOUT_S = 300
# What a script may tell its runner as an output.
OUTPUT = re.compile(r'echo "([\w-]+)=')


@dataclass
class Ran:
    """How the steps of a job ended: the code of the first that failed, outputs of all, log and summary.

    `results` are the outputs that an action declares, as the workflow that uses it sees them.
    """

    code: int = 0
    log: str = ""
    summary: str = ""
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.log}\n--- summary\n{self.summary}\n--- outputs\n{self.outputs}"


@dataclass
class Runner:
    """One fresh machine: a folder for temporary files, and the variables that a runner sets.

    `source` is where the action lies there; `path` where programs are looked for; `token` the job's.
    """

    folder: Path
    env: Mapping[str, str]
    source: Path = ROOT
    path: str = f"{BIN}:{SYSTEM_PATH}"
    token: str = KNOWN_TOKEN

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    def action(self, checkout: Path, event: Mapping[str, Any], **inputs: str) -> Ran:
        """Runs the composite action in a checkout; `event` has `name` and the event's payload."""
        document, contexts = self._prepared(event, {k.replace("_", "-"): v for k, v in inputs.items()})
        ran = Ran()
        for number, step in enumerate(document["runs"]["steps"]):
            written: dict[str, str] = {}
            if not ran.code and ("if" not in step or holds(step["if"], contexts)):
                env = filled_all(step.get("env", {}), contexts)
                written = self._step(ran, step, number, checkout, {**self._github(event, checkout), **env})
            if "id" in step:
                # What a script could have said and did not is empty.
                unsaid = dict.fromkeys(OUTPUT.findall(step["run"]), "")
                assert written.keys() <= unsaid.keys()
                contexts["steps"][step["id"]] = {"outputs": {**unsaid, **written}}
                ran.outputs[step["id"]] = written
        declared = {name: output["value"] for name, output in document["outputs"].items()}
        ran.results = filled_all(declared, contexts)
        return ran

    def start(self, checkout: Path, event: Mapping[str, Any], **inputs: str) -> subprocess.Popen[bytes]:
        """Starts the step that runs fleetctl and does not wait for it, in a process group of its own."""
        document, contexts = self._prepared(event, {k.replace("_", "-"): v for k, v in inputs.items()})
        step = next(s for s in document["runs"]["steps"] if s.get("id") == "run")
        env = filled_all(step["env"], contexts)
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

    def bash(self, script: Path, checkout: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs a script to its end; what it says on either way is one log."""
        return subprocess.run(
            bash(script),
            cwd=checkout,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            # Without a terminal, as on a runner: nothing can ask for a password.
            start_new_session=True,
            check=False,
        )

    def base(self) -> dict[str, str]:
        """The variables of every job."""
        return {
            "PATH": self.path,
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_GLOBAL": os.devnull,
            **self.env,
        }

    def _prepared(
        self, event: Mapping[str, Any], inputs: Mapping[str, str]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        document = yaml.safe_load((self.source / ACTION.name).read_text(encoding="utf-8"))
        unknown = set(inputs) - set(document["inputs"])
        assert not unknown, f"the action has no input {unknown}"
        github = {"action_path": str(self.source), "token": self.token, "event": event_of(event)}
        contexts: dict[str, Any] = {"github": github, "steps": {}}
        defaults = {k: filled(str(v.get("default", "")), contexts) for k, v in document["inputs"].items()}
        contexts["inputs"] = {**defaults, **inputs}
        return document, contexts

    def _step(
        self, ran: Ran, step: Mapping[str, Any], number: int, checkout: Path, env: Mapping[str, str]
    ) -> dict[str, str]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "a value inside a script would be run as part of it"
        files = self._files(str(number))
        script = self.folder / f"{number}.sh"
        script.write_text(step["run"])
        done = self.bash(script, checkout, {**env, **files})
        ran.code = done.returncode
        ran.log += done.stdout
        ran.summary += Path(files["GITHUB_STEP_SUMMARY"]).read_text()
        # The last folder that was named is the first to be looked in.
        for folder in Path(files["GITHUB_PATH"]).read_text().splitlines():
            self.path = f"{folder}:{self.path}"
        assert Path(files["GITHUB_ENV"]).read_text() == "", "this runner does not know it"
        return dict(line.split("=", 1) for line in Path(files["GITHUB_OUTPUT"]).read_text().splitlines())

    def _files(self, name: str) -> dict[str, str]:
        """The files through which a step speaks to its runner."""
        found = {}
        for variable in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "GITHUB_PATH", "GITHUB_ENV"):
            path = self.folder / f"{name}.{variable.lower()}"
            path.write_text("")
            found[variable] = str(path)
        return found

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
