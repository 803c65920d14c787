"""`fleetctl review` of a real repository: every format against its golden file, its schema and its limits.

Golden files lie in tests/cases/review; `GOLDEN=write` in the environment writes them anew, to be read in the diff.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from fleetctl.cli.views.review_document import schema
from manifests.errors import ExitCode
from tests.acceptance.cli import RUN_TIMEOUT_S, Result
from tests.acceptance.repository import GitRepository

CASES = Path(__file__).parents[1] / "cases" / "review"
SARIF = json.loads((CASES / "sarif.schema.json").read_text(encoding="utf-8"))
FORMATS = {"human": "txt", "json": "json", "markdown": "md", "github": "github", "sarif": "sarif"}


def digest(letter: str) -> str:
    return "sha256:" + letter * 64


def release(version: str, letter: str) -> str:
    return f"""---
api_version: fleetctl/v1
kind: Release
product: hello
version: "{version}"
artifacts:
  - {{substrate: host, source: ./artifacts/hello-{version}.bin, digest: "{digest(letter)}"}}
"""


RELEASES = release("1.0.0", "a") + release("1.1.0", "b") + release("2.0.0", "c")
HOST = """---
api_version: fleetctl/v1
kind: Host
name: localhost
root: /srv/fleet
"""
PAIRS = """---
api_version: fleetctl/v1
kind: Compatibility
product: hello
pairs:
  - {from: "1.0.0", to: "1.1.0", mode: rolling, reverse: rolling}
  - {from: "1.1.0", to: "2.0.0", mode: rolling, reverse: never, reason: "the store's format changes"}
"""


def fleet(
    version: str, *, name: str = "hello", web: int = 3, env: str = "{GREETING: hello}", port: int = 18080
) -> str:
    return f"""---
api_version: fleetctl/v1
kind: Fleet
name: {name}
trust_domain: hello.internal
release: {{product: hello, version: "{version}"}}
groups:
  - name: web
    count: {web}
    substrate: host
    port: {port}
    data: {{path: data, retain: false}}
    process:
      command: [/usr/bin/env, "{{{{ artifact.path }}}}"]
      env: {env}
rollout: {{max_unavailable: 1, reserve: 1}}
"""


OLD = fleet("2.0.0", name="old", port=19080)


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """One commit on main: two fleets at rest, releases without their artifacts."""
    made = GitRepository(tmp_path / "fleet")
    made.commit(
        {
            "fleet.yaml": fleet("1.0.0", web=4),
            "old.yaml": OLD,
            "releases.yaml": RELEASES + HOST + PAIRS,
        },
        "one",
    )
    return made


def upgrade(made: GitRepository) -> None:
    """The second commit: a new release, one node less, a secret, other bytes under a name, a fleet let go."""
    (made.path / "old.yaml").unlink()
    env = '{GREETING: good day, TOKEN: {secret: "env:HELLO_TOKEN"}}'
    text = RELEASES.replace(digest("c"), digest("d")) + HOST + PAIRS
    made.commit({"fleet.yaml": fleet("1.1.0", web=3, env=env), "releases.yaml": text}, "two")


def refused(made: GitRepository) -> None:
    """A second commit that skips a version, and declares another transition than the one it makes."""
    pairs = PAIRS + '  - {from: "0.9.0", to: "2.0.0", mode: rolling}\n'
    made.commit({"fleet.yaml": fleet("2.0.0", web=4), "releases.yaml": RELEASES + HOST + pairs}, "two")


def no_return(made: GitRepository) -> None:
    """Two commits that lead over the edge; the first of them is compared with."""
    made.commit({"fleet.yaml": fleet("1.1.0", web=4)}, "one and a half")
    made.commit({"fleet.yaml": fleet("2.0.0", web=4)}, "two")


def invalid(made: GitRepository) -> None:
    """A second commit with two mistakes."""
    text = fleet("1.1.0", web=4).replace("count: 4", "cuont: 4").replace("reserve: 1", "reserve: lots")
    made.commit({"fleet.yaml": text}, "two")


STORIES = {
    "upgrade": (upgrade, ExitCode.OK),
    "refused": (refused, ExitCode.REFUSED),
    "no-return": (no_return, ExitCode.OK),
    "invalid": (invalid, ExitCode.ERROR),
}


@pytest.mark.parametrize("story", STORIES)
def test_every_format_of_a_review(repository: GitRepository, story: str, tmp_path: Path) -> None:
    """Byte for byte; JSON and SARIF obey their schemas; nothing is created in the repository."""
    make, code = STORIES[story]
    make(repository)
    before = sorted(p for p in repository.path.rglob("*") if ".git" not in p.parts)
    summary = tmp_path / "summary.md"
    for form, ending in FORMATS.items():
        result = repository.run(
            "review", "HEAD~1", "HEAD", "-f", ".", "--format", form, env={"GITHUB_STEP_SUMMARY": str(summary)}
        )
        assert (result.code, result.err) == (code, ""), str(result)
        same(f"{story}.{ending}", result.out)
        if form == "json":
            jsonschema.Draft202012Validator(schema()).validate(result.json)
        if form == "sarif":
            jsonschema.Draft202012Validator(SARIF).validate(result.json)
    same(f"{story}.summary.md", summary.read_text(encoding="utf-8"))
    assert sorted(p for p in repository.path.rglob("*") if ".git" not in p.parts) == before


def same(name: str, text: str) -> None:
    """The golden file's text."""
    path = CASES / name
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} differs; GOLDEN=write writes it anew"


def test_the_schema_in_the_docs_is_the_document_s() -> None:
    """Written by `python -m tests.cli.write_review_schema`."""
    path = Path(__file__).parents[2] / "docs" / "reference" / "review.schema.json"
    assert json.loads(path.read_text(encoding="utf-8")) == schema()


# What is compared


def test_without_arguments_the_working_tree_is_compared_with_where_it_left_main(
    repository: GitRepository,
) -> None:
    """A commit on main after the branch left is not part of the review; files that nobody committed are."""
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.git("checkout", "--quiet", "main")
    repository.commit({"fleet.yaml": fleet("1.0.0", web=5)}, "main goes on")
    repository.git("checkout", "--quiet", "topic")
    repository.write({"fleet.yaml": fleet("1.1.0", web=4)})
    document = repository.run("review", "--format", "json").json
    assert document["head"] == {"name": "the working tree", "commit": None}
    assert document["base"]["commit"] == repository.git("merge-base", "main", "topic")
    assert document["sums"] == {"add": 0, "change": 4, "destroy": 0, "adopt": 0}


def test_a_revision_is_what_was_committed_and_not_what_lies_there(repository: GitRepository) -> None:
    repository.write({"fleet.yaml": fleet("1.1.0", web=4)})
    assert repository.run("review", "main", "main", "--detailed-exitcode").code == 0
    assert repository.run("review", "main", "--detailed-exitcode").code == ExitCode.CHANGES


def test_it_may_be_asked_from_a_folder_below_and_of_a_folder_below(repository: GitRepository) -> None:
    inner = {f"envs/prod/{n}": (repository.path / n).read_text() for n in ("fleet.yaml", "releases.yaml")}
    repository.commit(inner, "below")
    repository.write({"envs/prod/fleet.yaml": fleet("1.1.0", web=4)})
    here = repository.run("review", "main", "--format", "json", "-f", "envs/prod").json
    below = repository.run("review", "main", "--format", "json", cwd=repository.path / "envs" / "prod").json
    assert here["sums"] == below["sums"] == {"add": 0, "change": 4, "destroy": 0, "adopt": 0}
    assert here["remarks"][0]["span"]["file"] == "envs/prod/fleet.yaml"


def test_manifests_that_are_new_are_compared_with_nothing(repository: GitRepository) -> None:
    repository.write({"new/fleet.yaml": fleet("1.0.0") + RELEASES + HOST})
    document = repository.run("review", "main", "-f", "new", "--format", "json").json
    assert document["sums"]["add"] == 3
    assert {d["change"] for d in document["documents"]} == {"added"}


def test_a_folder_that_had_no_manifests_yet_is_new_as_well(repository: GitRepository) -> None:
    repository.commit({"new/README.md": "soon"}, "a folder")
    repository.write({"new/fleet.yaml": fleet("1.0.0") + RELEASES + HOST})
    document = repository.run("review", "main", "-f", "new", "--format", "json").json
    assert document["sums"]["add"] == 3


def test_inside_of_a_hook_the_folder_s_own_repository_is_asked(
    repository: GitRepository, tmp_path: Path
) -> None:
    other = GitRepository(tmp_path / "other")
    env = {"GIT_DIR": str(other.path / ".git"), "GIT_WORK_TREE": str(other.path)}
    assert repository.run("review", "main", env=env).code == 0


def test_two_folders_need_no_git(repository: GitRepository, tmp_path: Path) -> None:
    """The newer folder's places are shown; where the folders lie makes no difference."""
    for name, version in (("then", "1.0.0"), ("now", "1.1.0")):
        folder = tmp_path / "plain" / name
        folder.mkdir(parents=True)
        (folder / "fleet.yaml").write_text(fleet(version) + RELEASES + PAIRS)
    result = repository.run("review", "then", "now", "--format", "json", cwd=tmp_path / "plain")
    assert result.json["sums"] == {"add": 0, "change": 3, "destroy": 0, "adopt": 0}
    assert [r["field"] for r in result.json["fleets"][0]["changes"][0]["reasons"]] == ["release.version"]
    assert result.json["remarks"][0]["span"]["file"] == "now/fleet.yaml"


# Every way to a host and to a secret's value is closed before the command runs.
PROGRAM = """
import sys
from executors import registry, secrets

def closed(*args, **kwargs):
    raise AssertionError("a host or a secret was asked")

registry.driver = registry.reader = secrets.resolve = closed
from fleetctl.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("command", "code"), [("review main", 0), ("plan .", 3)])
def test_no_host_is_asked_and_no_secret(repository: GitRepository, command: str, code: int) -> None:
    """A plan falls into the trap; a review of the same manifests does not."""
    repository.write({f"artifacts/hello-{v}.bin": v for v in ("1.0.0", "1.1.0", "2.0.0")})
    repository.write({"fleet.yaml": fleet("1.1.0", web=4, env='{TOKEN: {secret: "env:NO_SUCH"}}')})
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command.split()],
        cwd=repository.path,
        env=repository.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_TIMEOUT_S,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert ("a host or a secret was asked" in done.stderr) == (code != 0)


# What the fleet as last seen makes of it


def test_a_snapshot_says_what_is_really_there(repository: GitRepository, tmp_path: Path) -> None:
    """Seen is 1.0.0 while main says 1.1.0 and the review goes on to 2.0.0: refused from there, not from main."""
    repository.commit({"fleet.yaml": fleet("1.1.0")}, "main")
    repository.write({"fleet.yaml": fleet("2.0.0")})
    observed = tmp_path / "observed.json"
    observed.write_text(json.dumps(snapshot("1.0.0", "a")), encoding="utf-8")
    result = repository.run("review", "main", "--observed", str(observed), "--format", "json")
    assert result.code == ExitCode.REFUSED, str(result)
    assert [f["refusals"] for f in result.json["fleets"]] == [[], []]
    assert result.json["seen"]["source"] == "observed"
    (seen,) = [f for f in result.json["seen"]["fleets"] if f["refusals"]]
    assert {r["code"] for r in seen["refusals"]} == {"compat.unknown"}
    human = repository.run("review", "main", "--observed", str(observed))
    assert "As last seen (a snapshot of 2030-01-01T00:00:00Z):" in human.out
    page = repository.run("review", "main", "--observed", str(observed), "--format", "markdown")
    assert "**As last seen** (`a snapshot of 2030-01-01T00:00:00Z`)" in page.out


def snapshot(version: str, letter: str) -> dict[str, object]:
    nodes = [
        {
            "uid": f"uid-{n}", "fleet": "hello", "name": f"web-{n}", "lineage": "l1", "epoch": 1,
            "generation": 1, "version": version, "digest": digest(letter), "state": "running",
            "health": "passing", "port": 18080 + n,
        }
        for n in range(3)
    ]  # fmt: skip
    host = {"name": "localhost", "substrate": "host", "reachable": True, "arch": "x86_64", "nodes": nodes}
    return {"format_version": "1.0", "taken_at": "2030-01-01T00:00:00Z", "hosts": [host]}


# What cannot be compared


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["no-such"], "git knows no revision 'no-such'"),
        (["main", "."], "a folder and a revision"),
        (["./no-such"], "there is no folder ./no-such"),
        ([".", "no-such/"], "there is no folder no-such/"),
        (["--upload-pack=x"], "No such option"),
    ],
)
def test_what_is_not_there_is_said(repository: GitRepository, arguments: list[str], says: str) -> None:
    result = repository.run("review", *arguments)
    assert result.code == 1
    assert says in result.err
    assert "Hint:" in result.err


def test_outside_of_a_repository_it_says_what_to_do(repository: GitRepository, tmp_path: Path) -> None:
    result = repository.run(
        "review", "main", cwd=tmp_path, env={"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    )
    assert result.code == 1
    assert "is not inside a git repository" in result.err
    assert "fleetctl review OLD NEW" in result.err


def test_a_name_that_is_a_folder_and_a_branch_is_asked_about(repository: GitRepository) -> None:
    repository.git("branch", "prod")
    (repository.path / "prod").mkdir()
    assert "is a folder here, and a revision" in repository.run("review", "prod").err
    assert repository.run("review", "refs/heads/prod").code == 0


def test_what_is_compared_with_has_to_be_valid_itself(repository: GitRepository) -> None:
    good = (repository.path / "fleet.yaml").read_text()
    repository.commit({"fleet.yaml": good.replace("count", "cuont")}, "broken")
    repository.write({"fleet.yaml": good})
    result = repository.run("review", "main")
    assert result.code == 1
    assert "what is compared with, main, cannot be used" in result.err
    assert "fleet.yaml:" in result.err


@pytest.mark.parametrize("form", ["human", "markdown", "github", "sarif"])
def test_out_writes_the_same_to_a_file(repository: GitRepository, form: str, tmp_path: Path) -> None:
    upgrade(repository)
    arguments = ("review", "HEAD~1", "HEAD", "--format", form)
    file = tmp_path / "out"
    printed = repository.run(*arguments)
    written = repository.run(*arguments, "--out", str(file))
    assert (written.code, written.out) == (printed.code, "")
    assert file.read_text(encoding="utf-8") == printed.out


@pytest.fixture
def shallow(repository: GitRepository, tmp_path: Path) -> Iterator[Result]:
    """A review in a clone of one commit."""
    upgrade(repository)
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.path}", str(clone))
    yield repository.run("review", "HEAD~1", cwd=clone)


def test_a_shallow_clone_is_named_as_the_cause(shallow: Result) -> None:
    assert shallow.code == 1
    assert "fetch-depth: 0" in shallow.err
