"""Domains of a connection: all of them in one pass, or one node's, in as few calls as it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree as ET

from executors.libvirt import kept, metadata, names, observe
from executors.libvirt.evidence import State
from executors.libvirt.kept import Kept
from executors.libvirt.metadata import Metadata
from executors.libvirt.observe import Seen


@dataclass(frozen=True, slots=True)
class Listed:
    """One domain of a pass: its handle, what was seen of it, and what libvirt says beside its definition."""

    domain: Any
    seen: Seen
    autostart: bool
    kept: Kept


def all_of(connection: Any, libvirt: Any) -> Iterator[Listed]:
    """Every domain of ours, in one pass. One that goes away meanwhile is left out. Raises libvirtError.

    What libvirt can say of all domains at once is asked once: states, and which of them start with their host,
    were saved, or have snapshots or checkpoints.
    """
    stats = connection.getAllDomainStats(libvirt.VIR_DOMAIN_STATS_STATE, 0)

    def those(name: str) -> frozenset[str]:
        flag = getattr(libvirt, f"VIR_CONNECT_LIST_DOMAINS_{name}")
        return frozenset(d.UUIDString() for d in connection.listAllDomains(flag))

    autostart, saved = those("AUTOSTART"), those("MANAGEDSAVE")
    snapshots, checkpoints = those("HAS_SNAPSHOT"), those("HAS_CHECKPOINT")
    for domain, found in stats:
        uuid = domain.UUIDString()
        try:
            seen = _seen(domain, found["state.state"], found["state.reason"], libvirt)
            if not observe.is_ours(seen):
                continue
            told = replace(
                kept.defined(seen.defined),
                saved=uuid in saved,
                snapshots=tuple(domain.snapshotListNames(0)) if uuid in snapshots else (),
                checkpoints=kept.checkpoints(domain) if uuid in checkpoints else (),
            )
        except libvirt.libvirtError as e:
            if e.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                continue
            raise
        yield Listed(domain, seen, uuid in autostart, told)


def _seen(domain: Any, state: int, reason: int, libvirt: Any) -> Seen:
    """What runs beside what is defined."""
    active = state in observe.ACTIVE
    return Seen(
        uuid=domain.UUIDString(),
        state=state,
        reason=reason,
        number=domain.ID() if active else -1,
        defined=parsed(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)),
        live=parsed(domain.XMLDesc(0)) if active else None,
    )


class Held:
    """One node's domain, looked for once per connection. A handle means the UUID, whoever defines it anew."""

    def __init__(self, uid: str, libvirt: Any) -> None:
        self._uid = uid
        self._libvirt = libvirt
        self._found: tuple[Any, Any] = (None, None)

    def domain(self, connection: Any) -> Any:
        """The handle, or None where there is no such domain. Raises libvirtError."""
        if self._found[0] is not connection or self._found[1] is None:
            self._found = (connection, find(connection, self._uid, self._libvirt))
        return self._found[1]

    def hold(self, connection: Any, domain: Any) -> None:
        """This is it: it was just defined."""
        self._found = (connection, domain)

    def look(self, connection: Any) -> State | None:
        """The domain as it is now; None: there is none. Raises libvirtError; ValueError when it is damaged."""
        domain = self.domain(connection)
        if domain is None:
            return None
        try:
            state, reason = domain.state(0)
            # What runs, or else what is defined: the operation is written into both.
            root = parsed(domain.XMLDesc(0))
        except self._libvirt.libvirtError as e:
            self._ensure_gone(e)
            return None
        seen = Seen(domain.UUIDString(), state, reason, self._number(connection, state), root)
        return State(seen, seen.ours)

    def again(self, connection: Any, known: State) -> State | None:
        """Its state now; what it says of itself as it is `known`. Raises libvirtError."""
        domain = self.domain(connection)
        if domain is None:
            return None
        try:
            state, reason = domain.state(0)
        except self._libvirt.libvirtError as e:
            self._ensure_gone(e)
            return None
        number = self._number(connection, state)
        return replace(known, seen=replace(known.seen, state=state, reason=reason, number=number))

    def write(self, connection: Any, ours: Metadata, known: State) -> State | None:
        """Puts this into its metadata, of what runs too; None: it is gone. Writing the same once more is harmless."""
        lib = self._libvirt
        domain = self.domain(connection)
        if domain is None:
            return None
        text, kind = metadata.text(ours), lib.VIR_DOMAIN_METADATA_ELEMENT
        where = lib.VIR_DOMAIN_AFFECT_CONFIG | (lib.VIR_DOMAIN_AFFECT_LIVE if known.seen.active else 0)
        try:
            domain.setMetadata(kind, text, names.KEY, names.XML_NAMESPACE, where)
        except lib.libvirtError as e:
            if e.get_error_code() == lib.VIR_ERR_NO_DOMAIN:
                self._found = (None, None)
                return None
            if e.get_error_code() != lib.VIR_ERR_OPERATION_INVALID or not known.seen.active:
                raise
            # It ended between the look and the call.
            domain.setMetadata(kind, text, names.KEY, names.XML_NAMESPACE, lib.VIR_DOMAIN_AFFECT_CONFIG)
        metadata.put(known.seen.now, ours)
        return replace(known, ours=ours)

    def kill(self, connection: Any) -> None:
        """Turns it off at once; one that ended by itself, or is gone, is off as well. Raises libvirtError."""
        domain = self.domain(connection)
        if domain is None:
            return
        try:
            domain.destroyFlags(0)
        except self._libvirt.libvirtError as e:
            off = (self._libvirt.VIR_ERR_OPERATION_INVALID, self._libvirt.VIR_ERR_NO_DOMAIN)
            if e.get_error_code() not in off:
                raise

    def _number(self, connection: Any, state: int) -> int:
        """The id that libvirt gave this start; a handle that was found before it knows none."""
        if state not in observe.ACTIVE:
            return -1
        try:
            return int(self._found[1].ID())
        except self._libvirt.libvirtError:
            self._found = (connection, find(connection, self._uid, self._libvirt))
        return -1 if self._found[1] is None else int(self._found[1].ID())

    def _ensure_gone(self, error: Any) -> None:
        """Raises the error again unless it says that the domain went away meanwhile."""
        if error.get_error_code() != self._libvirt.VIR_ERR_NO_DOMAIN:
            raise error
        self._found = (None, None)


def find(connection: Any, uid: str, libvirt: Any) -> Any:
    """The node's domain, or None. Raises libvirtError."""
    try:
        return connection.lookupByUUIDString(names.domain_uuid(uid))
    except libvirt.libvirtError as e:
        if e.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def used(connection: Any, libvirt: Any) -> frozenset[str]:
    """The volumes that some domain, anybody's, boots from or has as a disk."""
    out: set[str] = set()
    for domain in connection.listAllDomains(0):
        root = parsed(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        paths = [root.findtext(f"os/{part}") or "" for part in ("kernel", "initrd")]
        paths += [source.get("file") or "" for source in root.findall("devices/disk/source")]
        out |= {path.rpartition("/")[2] for path in paths}
    return frozenset(out)


def parsed(xml: str) -> ET.Element:
    """libvirt's own answer as a tree."""
    return ET.fromstring(xml)  # noqa: S314 - expat bounds what entities may become
