"""import of nodes whose state is gone: they are taken over untouched, and the state that they had is fenced."""

from __future__ import annotations

from tests.acceptance.cli import Workspace
from tests.acceptance.client import ask


def pids(w: Workspace) -> list[str | None]:
    return [ask(p, "/pid") for p in w.ports]


def epochs(w: Workspace) -> set[int]:
    hosts = w.ok("inventory", "--format", "json").json["hosts"]
    return {n["epoch"] for h in hosts for n in h["nodes"]}


def test_nodes_of_a_lost_state_are_taken_over_untouched(workspace: Workspace) -> None:
    workspace.apply()
    workspace.fleet("1.1.0")
    workspace.apply()  # so that the first state's epoch is above what a new one begins with
    before, old = pids(workspace), max(epochs(workspace))
    (workspace.path / ".fleetctl").rename(workspace.path / "old")
    refused = workspace.run("plan", ".")
    assert refused.code == 3 and "The node belongs to another state" in refused.out

    unapproved = workspace.run("import", "fleet/hello")
    assert unapproved.code == 1 and "--auto-approve" in unapproved.err
    assert not (workspace.path / ".fleetctl" / "state.db").exists()
    done = workspace.ok("import", "fleet/hello", "--auto-approve")
    assert "node/hello/web-0 is as declared, and is taken over untouched" in done.out
    assert pids(workspace) == before
    assert min(epochs(workspace)) > old
    assert workspace.ok("plan", ".", "--detailed-exitcode").out.startswith("No changes.")
    assert workspace.ok("drift", "--detailed-exitcode").code == 0
    workspace.ok("audit", "verify", ".")
    assert workspace.run("plan", ".", "--state", "old").code == 3, "the state that is fenced"
    assert "Nothing is there that could be taken over" in workspace.ok("import", "fleet/hello").out
    workspace.fleet("1.0.0")
    workspace.apply()
    assert [ask(p) for p in workspace.ports] == ["1.0.0"] * 3


def test_a_node_that_is_not_as_declared_is_named_and_left(workspace: Workspace) -> None:
    workspace.apply()
    (workspace.path / ".fleetctl").rename(workspace.path / "old")
    text = (workspace.path / "fleet.yaml").read_text()
    workspace.write("fleet.yaml", text.replace("GREETING: hello", "GREETING: ciao"))
    before = pids(workspace)
    done = workspace.run("import", "fleet/hello", "--auto-approve")
    assert done.code == 3, str(done)
    assert "node/hello/web-0 needs one replacement: it is not as declared (env.GREETING)" in done.out
    assert pids(workspace) == before
    workspace.write("fleet.yaml", text)
    done = workspace.ok("import", "node/hello/web-1", "--auto-approve")
    assert "web-1" in done.out and "web-0" not in done.out
    assert pids(workspace) == before


def test_what_cannot_be_imported_is_said(workspace: Workspace) -> None:
    for args, said in (
        (("container/localhost/x",), "--fleet NAME"),
        (("container/localhost/x", "fleet/hello", "--fleet", "y"), "apart"),
        (("fleet/hello", "--into", "x.yaml"), "for containers and units"),
        (("container/nowhere/x", "--fleet", "y"), "no host is named nowhere"),
        (("unit/localhost", "--fleet", "y"), "names nothing"),
        (("unit/localhost/no-such-unit", "--fleet", "y"), "has no unit no-such-unit.service"),
        (("nothing",), "is not an address"),
    ):
        done = workspace.run("import", *args)
        assert done.code == 1 and said in done.err, (args, str(done))
