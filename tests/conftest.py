"""What every test may rely on: an environment that neither the developer's shell nor a terminal colours."""

from __future__ import annotations

import signal

import pytest

# Real systems, started on first use and stopped at the end of the run.
pytest_plugins = ["tests.lab.fixtures"]

# Variables of the caller's shell that would change what the command line prints or where it looks.
FOREIGN_VARIABLES = (
    "FORCE_COLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "FLEETCTL_STATE",
    "FLEETCTL_STATE_ENDPOINT",
    "FLEETCTL_DEBUG",
)


def pytest_configure() -> None:
    """A run in the background ignores some signals, and what it starts would inherit that."""
    for number in (signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test sees the same environment, on a desk and in CI."""
    for name in FOREIGN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
