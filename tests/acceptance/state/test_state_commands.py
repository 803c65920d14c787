"""fleetctl state through the real command: move, prove, save, bring back, compact."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.acceptance.cli import Result
from tests.acceptance.client import ask
from tests.acceptance.state.conftest import BUCKET, Folder, Shared

CANARY = "canary-93bd20a6f1"


def local(folder: Folder) -> dict[str, str]:
    """The environment of a folder that does not use the bucket yet."""
    return {"FLEETCTL_STATE": ""}


@pytest.mark.timeout(300)  # a dozen commands and four rollouts, on a machine that may be busy
def test_a_state_goes_to_the_bucket_is_saved_compacted_and_brought_back(shared: Shared) -> None:
    folder = shared.folder("first")
    folder.ok("apply", ".", "--auto-approve", env=local(folder))
    unasked = folder.run("state", "migrate", ".fleetctl", shared.state)
    assert (unasked.code, shared.objects()) == (1, {}), "nobody approved it"
    moved = folder.ok("state", "migrate", ".fleetctl", shared.state, "--auto-approve")
    assert "The state is in s3://" in moved.out

    # The old place is closed, and says where to go; the new one goes on.
    folder.fleet("1.1.0")
    closed = folder.run("apply", ".", "--auto-approve", env=local(folder))
    assert closed.code == 6, str(closed)
    assert shared.state in closed.err
    folder.apply()
    assert [ask(p) for p in folder.ports] == ["1.1.0"] * 3

    before = folder.ok("state", "verify", "--format", "json").json
    assert before["whole"]
    assert before["fleets"][0]["runs"] == 2
    sealed = folder.ok("state", "compact")
    assert "in 1 segments" in sealed.out, str(sealed)
    after = folder.ok("state", "verify", "--format", "json").json
    assert after["fleets"] == before["fleets"]
    assert "whole" in folder.ok("audit", "verify").out
    assert folder.ok("plan", ".").out.startswith("No changes.")

    folder.ok("state", "backup", "b.db")
    assert (folder.path / "b.db").stat().st_mode & 0o077 == 0
    assert folder.run("state", "backup", "b.db").code == 1, "a backup replaces nothing"

    # The fleet goes on, and then the bucket is lost: the backup is behind what the hosts have seen.
    folder.fleet("1.0.0")
    folder.apply()
    refused = folder.run("state", "restore", "b.db", "--auto-approve")
    assert refused.code == 1, str(refused)
    assert "is not empty" in refused.err
    elsewhere = {"FLEETCTL_STATE": str(folder.path / "restored")}
    folder.ok("state", "restore", "b.db", "--auto-approve", env=elsewhere)
    folder.fleet("1.1.0")
    folder.ok("apply", ".", "--auto-approve", env=elsewhere)
    assert [ask(p) for p in folder.ports] == ["1.1.0"] * 3

    # Damage in the bucket is found and named.
    name = f"{shared.prefix}/fleets/hello/segments/000000000001"
    shared.server.client().put_object(Bucket=BUCKET, Key=name, Body=b"x" * 200)
    found = folder.run("state", "verify")
    assert found.code == 1, str(found)
    assert "fleets/hello/segments/000000000001 is damaged" in found.err


def test_a_value_of_a_program_is_in_the_node_and_in_no_byte_of_the_state_or_the_output(
    shared: Shared,
) -> None:
    folder = shared.folder("first")
    (folder.path / "vault").write_text(f"print('{CANARY[:8]}' + '{CANARY[8:]}')")
    program = shlex.join([sys.executable, str(folder.path / "vault")])
    folder.fleet(env='{GREETING: {secret: "command:' + program + '"}}')
    results: list[Result] = [
        folder.ok("plan", ".", "--out", "s.plan"),
        folder.ok("apply", "s.plan", "--auto-approve"),
        folder.ok("audit", "export"),
        folder.ok("plan", "."),
    ]
    assert [ask(p, "/greeting") for p in folder.ports] == [CANARY] * 3
    assert results[-1].out.startswith("No changes.")
    assert all(CANARY not in r.out + r.err for r in results)
    assert [n for n, data in shared.objects().items() if CANARY.encode() in data] == []
    written = [p for p in folder.path.rglob("*") if p.is_file() and CANARY.encode() in p.read_bytes()]
    assert written == []
