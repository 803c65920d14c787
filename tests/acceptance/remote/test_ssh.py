"""A fleet's life on systemd hosts over SSH: one of them behind a jump host, one where sudo asks for a password.

The nodes of h2, h4 and the hidden host are units of systemd, those of h1, h3 and h5 plain processes.
"""

from __future__ import annotations

import pytest

from tests.acceptance.cli import wait_for
from tests.acceptance.remote.fleet import ROOT, Fleet
from tests.lab.hosts import HostLab
from tests.lab.watcher import page


def test_from_nothing_to_six_nodes_and_no_changes(six: Fleet) -> None:
    """Plan touches no host; apply brings the nodes up on every host, also behind the jump and the password."""
    planned = six.pending()
    assert "Plan: 6 to add, 0 to change, 0 to destroy." in planned
    assert set(six.ask("/version").values()) == {None}
    six.apply()
    assert set(six.ask("/version").values()) == {"1.0.0"}
    assert six.ask("/starts") == dict.fromkeys(six.endpoints, "1")


def test_an_upgrade_keeps_the_floor_as_an_outside_client_sees_it(six: Fleet) -> None:
    six.want(version="1.0.0").settle()
    six.want(version="1.1.0")
    with six.watch() as watch:
        six.apply()
    six.kept(watch)
    assert set(six.ask("/version").values()) == {"1.1.0"}


def test_a_changed_environment_restarts_within_the_floor(six: Fleet) -> None:
    six.want(greeting="hello").settle()
    six.want(greeting="good day")
    assert "env.GREETING: hello -> good day" in six.pending()
    with six.watch() as watch:
        six.apply()
    six.kept(watch)
    assert set(six.ask("/env").values()) == {"good day"}


def test_a_changed_file_is_reloaded_without_a_restart(six: Fleet) -> None:
    six.want(conf="one").settle()
    boots, reloads = six.ask("/boot"), six.ask("/reloads")
    six.want(conf="two").apply()
    assert set(six.ask("/config").values()) == {"two"}
    assert six.ask("/boot") == boots
    assert six.ask("/reloads") == {name: str(int(n or 0) + 1) for name, n in reloads.items()}


def test_a_lost_node_is_repaired_and_no_other_is_touched(six: Fleet, systemd_hosts: HostLab) -> None:
    six.settle()
    boots = six.ask("/boot")
    lost = next(n for n in six.nodes() if n["name"] == "web-2")
    systemd_hosts.exec("h3", f"kill -9 {str(lost['instance']).partition('.')[0]}")
    planned = six.pending()
    assert "node/six/web-2" in planned
    assert all(f"node/six/{name}" not in planned for name in boots if name != "web-2")
    with six.watch() as watch:
        six.apply()
    six.kept(watch, six.count - 1)
    after = six.ask("/boot")
    assert after.pop("web-2") not in (None, boots.pop("web-2"))
    assert after == boots


def test_a_killed_unit_comes_back_by_itself_and_nothing_is_left_to_do(
    six: Fleet, systemd_hosts: HostLab
) -> None:
    six.settle()
    boots = six.ask("/boot")
    systemd_hosts.exec("h4", f"systemctl kill --signal=KILL fleetctl-{six.uid('web-3')}.service")
    address = six.endpoints["web-3"]
    wait_for(lambda: page(*address, "/boot") not in (None, boots["web-3"]), "systemd to start it again", 60.0)
    wait_for(lambda: page(*address, "/health"), "the node to serve", 60.0)
    six.unchanged()


@pytest.mark.parametrize(("node", "host"), [("web-3", "h4"), ("web-4", "h5")])
def test_a_file_and_a_variable_edited_by_hand_show_field_by_field_and_are_undone(
    six: Fleet, systemd_hosts: HostLab, node: str, host: str
) -> None:
    six.want(greeting="declared", conf="declared").settle()
    boots = six.ask("/boot")
    folder = f"{ROOT}/nodes/{six.uid(node)}"
    systemd_hosts.exec(host, f"echo by hand >{folder}/conf; sed -i s/declared/changed/ {folder}/env")
    planned = six.pending()
    assert "Changed outside of fleetctl" in planned
    assert "files.conf" in planned
    assert "env.GREETING: changed -> declared" in planned
    assert planned.count("node/six/") == planned.count(f"node/six/{node}")
    six.apply()
    assert systemd_hosts.exec(host, f"cat {folder}/conf") == "declared"
    after = six.ask("/boot")
    assert after.pop(node) != boots.pop(node)
    assert after == boots


def test_a_lost_host_is_told_and_costs_no_other_node(six: Fleet, systemd_hosts: HostLab) -> None:
    """Its power is gone: what has to change there is refused, or left out on request; the others stay in budget."""
    six.want(greeting="before").settle()
    boots = six.ask("/boot")
    systemd_hosts.power_off("h5")
    try:
        unchanged = six.run("plan", ".", "--detailed-exitcode")
        assert "h5" in unchanged.out + unchanged.err, str(unchanged)
        six.want(greeting="after")
        refused = six.run("apply", ".", "--auto-approve")
        assert refused.code == 3, str(refused)
        assert "h5" in refused.out and "cannot be reached" in refused.out, str(refused)
        alive = {name: boot for name, boot in boots.items() if name != "web-4"}
        assert {name: boot for name, boot in six.ask("/boot").items() if name != "web-4"} == alive
        six.want(rollout={"max_failures": 1})
        with six.watch() as watch:
            done = six.run("apply", ".", "--auto-approve")
        assert done.code == 0, str(done)
        assert "web-4" in done.out
        six.kept(watch, six.floor)  # the lost host is one of the two that may be down
        assert {answer for name, answer in six.ask("/env").items() if name != "web-4"} == {"after"}
    finally:
        systemd_hosts.power_on("h5")
        six.want(rollout={})
    boots = six.ask("/boot")
    assert "node/six/web-4" in six.pending()
    six.apply()
    after = six.ask("/boot")
    assert after.pop("web-4") is not None
    assert set(six.ask("/env").values()) == {"after"}
    boots.pop("web-4")
    assert after == boots
