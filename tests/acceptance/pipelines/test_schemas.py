"""What the shipped pipelines are written in: the published schemas of the forges, and pre-commit's own check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.pipelines.gitlab import TEMPLATE
from tests.acceptance.pipelines.runner import ACTION
from tests.acceptance.pipelines.test_workflow import EXAMPLE
from tests.house.sources import ROOT

BIN = Path(sys.executable).parent
HOOKS = ROOT / ".pre-commit-hooks.yaml"
ACTION_SCHEMA = "vendor.github-actions"
WORKFLOW_SCHEMA = "vendor.github-workflows"
GITLAB_SCHEMA = "vendor.gitlab-ci"


def checked(schema: str, file: Path) -> subprocess.CompletedProcess[str]:
    """What the check says of a file; the schemas ship with it, and it asks nobody."""
    return said(str(BIN / "check-jsonschema"), "--builtin-schema", schema, str(file))


def said(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("schema", "file", "old", "new"),
    [
        (ACTION_SCHEMA, ACTION, "using: composite", "using: compost"),
        (WORKFLOW_SCHEMA, EXAMPLE, "cancel-in-progress: false", "cancel-in-progres: false"),
        (GITLAB_SCHEMA, TEMPLATE, "access: developer", "access: developers"),
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_a_pipeline_is_what_its_forge_reads(
    schema: str, file: Path, old: str, new: str, tmp_path: Path
) -> None:
    good = checked(schema, file)
    assert good.returncode == 0, good.stdout
    text = file.read_text(encoding="utf-8")
    assert old in text
    slip = tmp_path / file.name
    slip.write_text(text.replace(old, new))
    assert checked(schema, slip).returncode == 1


def test_the_hooks_are_what_pre_commit_reads(tmp_path: Path) -> None:
    validate = (str(BIN / "pre-commit"), "validate-manifest")
    good = said(*validate, str(HOOKS))
    assert good.returncode == 0, good.stdout
    slip = tmp_path / HOOKS.name
    slip.write_text(HOOKS.read_text(encoding="utf-8").replace("entry:", "enter:"))
    assert said(*validate, str(slip)).returncode == 1
