"""known_hosts: each unusable line costs only itself, and a revoked or changed key is never accepted (S3)."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from executors.transports.ssh.known_hosts import Line, Verdict, fingerprint, load, parse_line
from tests.lab.process import missing_programs, run


def _blob(seed: int, key_type: str = "ssh-ed25519") -> bytes:
    name = key_type.encode()
    return len(name).to_bytes(4, "big") + name + (32).to_bytes(4, "big") + bytes([seed]) * 32


def _b64(blob: bytes) -> str:
    return base64.b64encode(blob).decode()


GOOD = _blob(1)
OTHER = _blob(2)
UNUSABLE = {
    "certificate authority": f"@cert-authority *.lan ssh-ed25519 {_b64(OTHER)}",
    "unknown marker": f"@trusted h ssh-ed25519 {_b64(OTHER)}",
    "truncated base64": f"h ssh-ed25519 {_b64(OTHER)[:-7]}",
    "no key": "h ssh-ed25519",
    "type does not match the key": f"h ssh-rsa {_b64(OTHER)}",
    "not text": "\udcff\udcfe h",
}


@pytest.mark.parametrize("line", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_line_is_named_and_the_next_one_still_counts(line: str, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(f"{line}\nh ssh-ed25519 {_b64(GOOD)}\n".encode("utf-8", "surrogateescape"))
    known = load([file])
    assert known.check("h", 22, "ssh-ed25519", GOOD)[0] is Verdict.KNOWN
    assert [w.split(": ")[0] for w in known.warnings] == [f"{file}:1"]


def _known(tmp_path: Path, *lines: str) -> Path:
    file = tmp_path / "known_hosts"
    file.write_text("\r\n".join(lines) + "\r\n")
    return file


@pytest.mark.parametrize(
    ("hosts", "name", "port", "verdict"),
    [
        ("web1.lan", "web1.lan", 22, Verdict.KNOWN),
        ("Web1.Lan", "web1.lan", 22, Verdict.KNOWN),
        ("web1.lan", "WEB1.LAN", 22, Verdict.KNOWN),
        ("*.lan", "web1.lan", 22, Verdict.KNOWN),
        ("web?.lan", "web1.lan", 22, Verdict.KNOWN),
        ("*.lan,!web1.lan", "web1.lan", 22, Verdict.UNKNOWN),
        ("web1.lan", "web1.lan", 2222, Verdict.UNKNOWN),
        ("[web1.lan]:2222", "web1.lan", 2222, Verdict.KNOWN),
        ("[web1.lan]:2222", "web1.lan", 22, Verdict.UNKNOWN),
        ("[fe80::1]:2222", "fe80::1", 2222, Verdict.KNOWN),
        ("10.0.0.1,web1.lan", "10.0.0.1", 22, Verdict.KNOWN),
    ],
)
def test_host_patterns(hosts: str, name: str, port: int, verdict: Verdict, tmp_path: Path) -> None:
    known = load([_known(tmp_path, f"{hosts} ssh-ed25519 {_b64(GOOD)} a comment")])
    assert known.check(name, port, "ssh-ed25519", GOOD)[0] is verdict


def test_a_key_of_another_type_is_changed_and_not_unknown(tmp_path: Path) -> None:
    file = _known(tmp_path, f"h ssh-ed25519 {_b64(GOOD)}")
    rsa = _blob(3, "ssh-rsa")
    assert load([file]).check("h", 22, "ssh-rsa", rsa) == (Verdict.CHANGED, (f"{file}:1",))


def test_a_revoked_key_is_never_accepted_even_when_another_line_knows_it(tmp_path: Path) -> None:
    file = _known(tmp_path, f"h ssh-ed25519 {_b64(GOOD)}", f"@revoked * ssh-ed25519 {_b64(GOOD)}")
    assert load([file]).check("h", 22, "ssh-ed25519", GOOD) == (Verdict.REVOKED, (f"{file}:2",))


def test_every_hashed_line_of_a_host_counts(tmp_path: Path) -> None:
    """Two hashed lines for one host: the second key is found too. Hashed by ssh-keygen itself."""
    if reason := missing_programs("ssh-keygen"):
        pytest.skip(reason)
    file = tmp_path / "known_hosts"
    file.write_text(f"h ssh-ed25519 {_b64(GOOD)}\nh ssh-ed25519 {_b64(OTHER)}\n")
    run(["ssh-keygen", "-q", "-H", "-f", str(file)])
    assert "|1|" in file.read_text()
    for blob in (GOOD, OTHER):
        assert load([file]).check("h", 22, "ssh-ed25519", blob)[0] is Verdict.KNOWN
    assert load([file]).check("i", 22, "ssh-ed25519", GOOD)[0] is Verdict.UNKNOWN


def test_a_missing_file_says_nothing_and_an_unreadable_one_warns(tmp_path: Path) -> None:
    known = load([tmp_path / "missing", tmp_path])
    assert known.lines == ()
    assert len(known.warnings) == 1


def test_security_keys_are_kept(tmp_path: Path) -> None:
    """sk-ssh-ed25519 cannot be verified here, but as a known type it makes another key `changed`."""
    blob = _blob(4, "sk-ssh-ed25519@openssh.com")
    assert isinstance(parse_line(f"h sk-ssh-ed25519@openssh.com {_b64(blob)}", "f:1"), Line)
    file = _known(tmp_path, f"h sk-ssh-ed25519@openssh.com {_b64(blob)}")
    assert load([file]).check("h", 22, "ssh-ed25519", GOOD)[0] is Verdict.CHANGED


def test_the_fingerprint_is_the_one_ssh_prints(tmp_path: Path) -> None:
    if reason := missing_programs("ssh-keygen"):
        pytest.skip(reason)
    key = tmp_path / "k"
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)])
    blob = base64.b64decode((tmp_path / "k.pub").read_text().split()[1])
    assert fingerprint(blob) in run(["ssh-keygen", "-l", "-f", str(key)]).stdout.decode()
