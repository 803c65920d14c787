"""Stopping a guest: asked by its power button or its agent until the drain's timeout, then turned off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from executors.driver import Operation
from executors.libvirt import observe
from executors.libvirt.connection import Connection
from executors.libvirt.definition import domain_of
from executors.libvirt.domains import Held
from executors.libvirt.evidence import State, settled
from executors.outcome import Outcome, succeeded

# Between two presses of the power button: a guest that still boots does not hear the first one.
PRESS_AGAIN_S = 5.0
# How long QEMU may take to end once it is killed.
KILL_S = 10.0


class Stopping:
    """One stop of one node."""

    def __init__(self, connection: Connection, operation: Operation, held: Held) -> None:
        self._connection = connection
        self._libvirt = connection.libvirt
        self._clock = connection.clock
        self._operation = operation
        self._held = held
        self._state: State | None = None

    def stop(self, state: State | None) -> Outcome:
        """Drains it and turns it off; `state` is the last that was seen, None when it is gone."""
        self._state = state
        drain_s = self._operation.spec.drain.timeout / 1000
        # A guest that stands still hears nothing.
        drained = not self._is_paused() and self._drained(drain_s)
        if not drained:
            # Killing what is dead already is an answer too, so this may be asked again over a new connection.
            self._connection.read(self._held.kill)
            self._wait(KILL_S)
        outcome = settled(self._operation, self._state)
        if outcome.code != "libvirt.stopped":
            return outcome
        if drained:
            return succeeded("libvirt.drained")
        return succeeded("libvirt.killed", f"it did not shut down within {drain_s:g} s, and was turned off")

    def _drained(self, drain_s: float) -> bool:
        """Asks the guest to shut down, and again, until it is off; False: it did not in time."""
        until_s = self._clock.monotonic() + drain_s
        while (left_s := until_s - self._clock.monotonic()) > 0:
            self._connection.read(self._press)
            if self._wait(min(PRESS_AGAIN_S, left_s)):
                return True
        return False

    def _is_paused(self) -> bool:
        return self._state is not None and self._state.seen.state == observe.PAUSED

    def _wait(self, timeout_s: float) -> bool:
        """Until it is off, as libvirt's events tell, within this time."""
        uuid = "" if self._state is None else self._state.seen.uuid
        return self._connection.wait(uuid, self._is_off, timeout_s)

    def _is_off(self) -> bool:
        known = self._state
        if known is not None:
            self._state = self._connection.read(lambda connection: self._held.again(connection, known))
        return self._state is None or not self._state.seen.active

    def _press(self, connection: Any) -> None:
        """Asks the guest to shut down, by its agent where that is wanted and answers, else by the power button."""
        domain = self._held.domain(connection)
        if domain is None or self._state is None:
            return
        lib = self._libvirt
        ways = [lib.VIR_DOMAIN_SHUTDOWN_ACPI_POWER_BTN]
        if domain_of(self._operation.spec).shutdown == "agent":
            ways.insert(0, lib.VIR_DOMAIN_SHUTDOWN_GUEST_AGENT)
        if self._state.seen.state == observe.PMSUSPENDED:
            self._tried(connection, partial(domain.pMWakeup, 0))  # asleep it hears nothing
        for way in (*ways, 0):  # 0: whatever this hypervisor has
            if self._tried(connection, partial(domain.shutdownFlags, way)):
                return

    def _tried(self, connection: Any, call: Callable[[], object]) -> bool:
        """Whether nothing else has to be tried. It may have ended by itself, or have no agent (yet): the next look,
        or the next way, tells.
        """
        try:
            call()
        except self._libvirt.libvirtError as e:
            if self._connection.lost(e, connection):
                raise
            return bool(e.get_error_code() == self._libvirt.VIR_ERR_OPERATION_INVALID)
        return True
