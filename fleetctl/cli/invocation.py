"""What one run of the command line carries from the entry point to the command: terminal, clock, timings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from executors.clock import Clock, SystemClock
from fleetctl.cli.terminal import Terminal


class Terminated(BaseException):
    """SIGTERM came while no run was under way."""


@dataclass(slots=True)
class Timings:
    """How long each phase of a command took; printed when asked for, in the order of their start."""

    clock: Clock
    phases_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds what the block takes to the phase `name`."""
        started = self.clock.monotonic()
        try:
            yield
        finally:
            self.phases_s[name] = self.phases_s.get(name, 0.0) + self.clock.monotonic() - started


@dataclass(slots=True)
class Invocation:
    """One call of fleetctl. `debug` shows tracebacks; `accept_new_host_keys` trusts SSH hosts seen for the first time; `state_endpoint` is where the state's bucket is; `events` is where what happens is written for machines, `events_count` how much was; `environ` is the process's environment."""

    terminal: Terminal
    environ: Mapping[str, str]
    clock: Clock
    timings: Timings
    debug: bool = False
    accept_new_host_keys: bool = False
    state_endpoint: str | None = None
    events: str | None = None
    events_count: int = 0

    @classmethod
    def of_process(cls, environ: Mapping[str, str]) -> Invocation:
        """The invocation that this process is."""
        clock = SystemClock()
        return cls(
            terminal=Terminal.of_process(environ),
            environ=environ,
            clock=clock,
            timings=Timings(clock),
            debug=bool(environ.get("FLEETCTL_DEBUG")),
        )

    def print_timings(self) -> None:
        """Writes `timings: load=0.123s …` to stderr when FLEETCTL_TIMINGS is set."""
        if self.environ.get("FLEETCTL_TIMINGS") and self.timings.phases_s:
            shares = " ".join(f"{name}={took:.3f}s" for name, took in self.timings.phases_s.items())
            self.terminal.say(f"timings: {shares}")
