"""One connection to a libvirt: opened when first needed, and made anew when libvirt was restarted.

libvirt's events come from one loop for the whole process. A new connection registers for them again, and
everything that waits for one looks again: an event that came in between was missed. Who waits for one domain is
woken by that domain's events alone, so that waiting costs next to no calls.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from executors.clock import Clock
from executors.driver import DriverError

T = TypeVar("T")

# A peer that is silent for so long is taken for gone; calls that wait for it end.
KEEPALIVE_S = 5
KEEPALIVE_COUNT = 3
OPEN_TIMEOUT_S = 15.0
# Between two attempts to reach a libvirt that is starting.
RETRY_S = 0.25
# A look that loses its connection so often will not come to its end.
LOOKS_MAX = 5
# A lost connection is noticed after so long by whoever waits for an event; it costs no call.
NOTICE_LOSS_S = 1.0
# Without an event something may still have changed: where they are told, events are only faster.
LOOK_AGAIN_S = 10.0
LOOK_AGAIN_UNTOLD_S = 1.0
INSTALL = "pip install 'fleetctl[libvirt]' (it needs libvirt-dev, pkg-config and a C compiler)"

_loop_lock = threading.Lock()
_loop: threading.Thread | None = None


class Unreachable(DriverError):
    """A libvirt does not answer."""

    code = "libvirt.unreachable"


def library() -> Any:
    """The binding; raises DriverError with the command that installs it."""
    try:
        import libvirt
    except ImportError as e:
        raise DriverError(f"the Python module 'libvirt' cannot be used: {e}: {INSTALL}", hint=INSTALL) from e
    return libvirt


class Connection:
    """Safe for several threads. `uri` is asked anew for each connection: through SSH its socket is another one."""

    def __init__(self, label: str, uri: Callable[[], str], clock: Clock, timeout_s: float) -> None:
        self._label = label
        self._uri = uri
        self.clock = clock
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._made: Any = None
        self._changed = threading.Condition()
        self._closed = False
        self._events: Counter[str] = Counter()
        self._renewed = 0
        self._told = False
        self._arch: tuple[Any, str] = (None, "")
        self.libvirt = library()

    def get(self) -> Any:
        """A connection that is alive. One that was lost is made anew, within the timeout. Raises Unreachable."""
        with self._lock:
            if self._made is not None and not alive(self._made, self.libvirt):
                with contextlib.suppress(self.libvirt.libvirtError):
                    self._made.close()
                self._made = self._open(self._timeout_s)
            elif self._made is None:
                self._made = self._open(0.0)
            return self._made

    def read(self, look: Callable[[Any], T]) -> T:
        """Runs a look; when the connection is lost meanwhile, all of it once more over a new one."""
        for attempt in range(LOOKS_MAX):
            connection = self.get()
            try:
                return look(connection)
            except self.libvirt.libvirtError as e:
                if attempt + 1 == LOOKS_MAX or not self.lost(e, connection):
                    raise
                self._drop(connection)  # `get` makes a new one, and raises when libvirt does not come back
        raise AssertionError("the last look returned or raised")

    def lost(self, error: Any, connection: Any = None) -> bool:
        """Whether the error means that a call has no answer, and not that libvirt refused it."""
        if error.get_error_domain() == self.libvirt.VIR_FROM_RPC:
            return True
        made = connection if connection is not None else self._made
        return made is None or not alive(made, self.libvirt)

    def arch(self, connection: Any) -> str:
        """The host's architecture, asked once per connection. Raises libvirtError."""
        if self._arch[0] is not connection:
            self._arch = (connection, str(connection.getInfo()[0]))
        return self._arch[1]

    def wait(self, uuid: str, done: Callable[[], bool], timeout_s: float) -> bool:
        """Waits until `done`, looking again at every event of this domain, when the connection was lost or made
        anew, and once in a while; False: it did not come.
        """
        deadline = self.clock.monotonic() + timeout_s
        while True:
            with self._changed:
                before = self._mark(uuid)
            if done():
                return True
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return False
            self._until_changed(uuid, before, min(left, LOOK_AGAIN_S if self._told else LOOK_AGAIN_UNTOLD_S))

    def _until_changed(self, uuid: str, before: tuple[int, int], timeout_s: float) -> None:
        until_s = self.clock.monotonic() + timeout_s
        while (left := until_s - self.clock.monotonic()) > 0:
            with self._changed:
                if self._mark(uuid) != before or self._changed.wait_for(
                    lambda: self._mark(uuid) != before, min(left, NOTICE_LOSS_S)
                ):
                    return
            made = self._made
            if made is None or not alive(made, self.libvirt):
                return

    def _mark(self, uuid: str) -> tuple[int, int]:
        """Another one after each event of this domain, and after each new connection."""
        return self._events[uuid], self._renewed

    def close(self) -> None:
        """Ends it; it is not used again."""
        with self._lock:
            self._closed = True
            if self._made is not None:
                with contextlib.suppress(self.libvirt.libvirtError):
                    self._made.close()
                self._made = None

    def _drop(self, connection: Any) -> None:
        """Takes this connection for lost, unless another thread has made a new one meanwhile."""
        with self._lock:
            if self._made is connection:
                with contextlib.suppress(self.libvirt.libvirtError):
                    connection.close()
                self._made = self._open(self._timeout_s)

    def _open(self, timeout_s: float) -> Any:
        if self._closed:
            raise Unreachable(f"{self._label}: the connection was closed")
        _start_loop(self.libvirt)
        deadline = self.clock.monotonic() + timeout_s
        while True:
            uri = self._uri()
            try:
                made = self._opened(uri)
            except self.libvirt.libvirtError as e:
                if self.clock.monotonic() >= deadline:
                    raise Unreachable(
                        f"{self._label}: libvirt at {uri} does not answer: {e}", hint=_hint(str(e))
                    ) from e
                self.clock.sleep(RETRY_S)
                continue
            self._register(made)
            return made

    def _opened(self, uri: str) -> Any:
        """Opens within OPEN_TIMEOUT_S: libvirt itself waits for ever for a peer that accepts and says nothing."""
        made: list[Any] = []
        errors: list[Exception] = []

        def work() -> None:
            try:
                made.append(self.libvirt.open(uri))
            except self.libvirt.libvirtError as e:
                errors.append(e)

        opener = threading.Thread(target=work, name="libvirt-open", daemon=True)
        opener.start()
        opener.join(OPEN_TIMEOUT_S)
        if errors:
            raise errors[0]
        if not made:
            raise Unreachable(
                f"{self._label}: libvirt at {uri} accepts connections and does not answer within {OPEN_TIMEOUT_S:g} s"
            )
        return made[0]

    def _register(self, made: Any) -> None:
        with contextlib.suppress(self.libvirt.libvirtError):
            made.setKeepAlive(KEEPALIVE_S, KEEPALIVE_COUNT)
        kind = self.libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE
        try:
            made.domainEventRegisterAny(None, kind, self._on_event, None)
            self._told = True
        except self.libvirt.libvirtError:
            self._told = False  # who waits looks more often
        with self._changed:
            self._renewed += 1
            self._changed.notify_all()

    def _on_event(self, _connection: object, domain: Any, *_: object) -> None:
        with self._changed:
            self._events[domain.UUIDString()] += 1
            self._changed.notify_all()


def alive(connection: Any, libvirt: Any) -> bool:
    """Whether libvirt still holds the other end."""
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def _start_loop(libvirt: Any) -> None:
    """Events need a loop that is there before the first connection; one serves the whole process."""
    global _loop
    with _loop_lock:
        if _loop is None:
            # Errors come as exceptions; libvirt would also print them.
            libvirt.registerErrorHandler(lambda *_: None, None)
            libvirt.virEventRegisterDefaultImpl()
            _loop = threading.Thread(target=_run_loop, args=(libvirt,), name="libvirt-events", daemon=True)
            _loop.start()


def _run_loop(libvirt: Any) -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError:
            return


def _hint(why: str) -> str | None:
    if "Permission denied" in why or "authentication" in why:
        return "the user that runs fleetctl needs rights on the socket (group libvirt)"
    if "No such file" in why or "Connection refused" in why:
        return "start libvirtd, or name its socket: libvirt: {uri: 'qemu+unix:///system?socket=PATH'}"
    return None
