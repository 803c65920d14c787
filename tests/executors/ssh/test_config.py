"""ssh_config: the same host, port, user and jumps that `ssh -G` gives, or a clear refusal (S7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from executors.transports.ssh.config import HostConfig, lookup
from executors.transports.ssh.errors import SshConfigError
from tests.lab.process import missing_programs, run

CASES = {
    "plain": "Host web\n  HostName 10.0.0.7\n  Port 2222\n  User ops\n",
    "first value wins": "Host web\n  Port 1\nHost *\n  Port 2\n  User all\n",
    "negation": "Host * !web\n  Port 9\nHost web\n  Port 8\n",
    "equals sign and quotes": 'Host="web"\nPort = 2200\nUser="ops"\n',
    "comment after a value": "Host web # the web host\n  Port 44 # forty-four\n",
    "host name token": "Host web\n  HostName %h.example\n",
    "match host": "Host web\n  HostName web.lan\nMatch host *.lan\n  Port 77\n",
    "match originalhost and user": "Match originalhost web user ops\n  Port 5\nHost web\n  User ops\n",
    "match negated": "Match !host other\n  Port 6\n",
    "match all": "Match all\n  Port 7\n",
    "match final": "Host web\n  HostName web.lan\nMatch final host web.lan\n  Port 88\n",
    "proxy jump": "Host web\n  ProxyJump ops@a:2200,b\n",
    "proxy jump none": "Host web\n  ProxyJump none\nHost *\n  ProxyJump a\n",
    "tab and case": "hOsT\tweb\n\tpOrT\t4\n",
}


def _by_ssh(config: Path, name: str) -> HostConfig:
    said: dict[str, str] = {}
    for line in run(["ssh", "-G", "-F", str(config), name]).stdout.decode().splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key, value)
    jump = said.get("proxyjump", "none")
    return HostConfig(
        hostname=said["hostname"],
        port=int(said["port"]),
        user=said["user"],
        proxy_jump=() if jump == "none" else tuple(jump.split(",")),
    )


@pytest.mark.parametrize("text", CASES.values(), ids=CASES)
def test_it_leads_to_where_ssh_itself_goes(text: str, tmp_path: Path) -> None:
    if reason := missing_programs("ssh"):
        pytest.skip(reason)
    config = tmp_path / "config"
    config.write_text(text)
    expected, found = _by_ssh(config, "web"), lookup(config, "web")
    assert (found.hostname, found.port or 22) == (expected.hostname, expected.port)
    assert found.user in (None, expected.user)
    assert found.proxy_jump == expected.proxy_jump


def test_include_is_followed_inside_the_block_that_holds_it(tmp_path: Path) -> None:
    """An Include below a Host counts for that host only, and what follows it belongs to the outer block again."""
    if reason := missing_programs("ssh"):
        pytest.skip(reason)
    parts = tmp_path / "conf.d"
    parts.mkdir()
    (parts / "10-web.conf").write_text("Host web\n  Port 2022\nHost db\n  Port 2023\n")
    (parts / "20-more.conf").write_text("User included\n")
    config = tmp_path / "config"
    config.write_text(f"Host web db\n  Include {parts}/*.conf\n  HostName inner\nHost *\n  User outer\n")
    for name in ("web", "db", "other"):
        expected, found = _by_ssh(config, name), lookup(config, name)
        assert (found.hostname, found.port or 22, found.user) == (
            expected.hostname,
            expected.port,
            expected.user,
        )


def test_a_byte_order_mark_is_no_error(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_bytes(b"\xef\xbb\xbfHost web\n  Port 23\n")
    assert lookup(config, "web").port == 23


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('Match exec "test -f /x"\n  Port 1\n', ":1"),
        ("Host web\n  ProxyCommand nc %h %p\n", ":2"),
        ("CanonicalizeHostname yes\n", ":1"),
        ("Host web\n  Port many\n", ":2"),
        ('Host "web\n', ":1"),
        ("Host web\n  Port\n", ":2"),
    ],
)
def test_what_cannot_be_honoured_is_refused_with_its_line(text: str, place: str, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    with pytest.raises(SshConfigError, match=f"{config}{place}"):
        lookup(config, "web")


def test_a_match_exec_that_cannot_apply_is_no_error(tmp_path: Path) -> None:
    """Criteria are judged in order, as ssh does: a host that does not match never reaches the exec."""
    config = tmp_path / "config"
    config.write_text('Match host other exec "false"\n  Port 1\nHost web\n  Port 2\n')
    assert lookup(config, "web").port == 2


def test_an_include_cycle_ends_with_an_error(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(f"Include {config}\n")
    with pytest.raises(SshConfigError, match="deeper than 16 levels"):
        lookup(config, "web")


def test_no_file_says_nothing(tmp_path: Path) -> None:
    assert lookup(tmp_path / "none", "web") == HostConfig(hostname="web")
