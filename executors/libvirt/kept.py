"""What libvirt keeps with a domain and refuses to lose unasked: in words for a plan, as flags for its end. Pure but
for the questions at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from planner.observed import Loss

SAVED = "its saved state"
# More names than this in one text are counted instead.
NAMES_MAX = 5


@dataclass(frozen=True, slots=True)
class Kept:
    """What is there: a saved state, snapshots and checkpoints by name, and what the definition says is kept."""

    saved: bool = False
    snapshots: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()
    firmware: bool = False
    tpm: bool = False


def defined(root: ET.Element) -> Kept:
    """What a definition alone tells: a file of the firmware's variables, and an emulated TPM."""
    backends = [b.get("type") for b in root.findall("devices/tpm/backend")]
    return Kept(firmware=root.find("os/nvram") is not None, tpm="emulator" in backends)


def losses(kept: Kept) -> tuple[Loss, ...]:
    """What would go, and by what. A start boots anew, and lets a saved state go."""
    out = [Loss(by="start", what=SAVED)] if kept.saved else []
    for words, found in (("snapshot", kept.snapshots), ("checkpoint", kept.checkpoints)):
        if found:
            out.append(Loss(by="removal", what=_counted(words, found)))
    for there, what in ((kept.firmware, "its firmware's variables"), (kept.tpm, "what its TPM holds")):
        if there:
            out.append(Loss(by="end", what=what))
    return tuple(out)


def flags(kept: Kept, lib: Any, *, retain: bool) -> int:
    """For `virDomainUndefineFlags`. What goes with the data stays for the next generation where data is retained."""
    wanted = [
        (kept.saved, lib.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE),
        (bool(kept.snapshots), lib.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA),
        (bool(kept.checkpoints), lib.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA),
        (kept.firmware, lib.VIR_DOMAIN_UNDEFINE_KEEP_NVRAM if retain else lib.VIR_DOMAIN_UNDEFINE_NVRAM),
        (kept.tpm, lib.VIR_DOMAIN_UNDEFINE_KEEP_TPM if retain else lib.VIR_DOMAIN_UNDEFINE_TPM),
    ]
    return sum(flag for there, flag in wanted if there)


def asked(domain: Any, known: Kept) -> Kept:
    """`known` with what only libvirt can tell of a domain. Raises libvirtError."""
    return Kept(
        saved=bool(domain.hasManagedSaveImage(0)),
        snapshots=tuple(domain.snapshotListNames(0)),
        checkpoints=checkpoints(domain),
        firmware=known.firmware,
        tpm=known.tpm,
    )


def checkpoints(domain: Any) -> tuple[str, ...]:
    """The names of a domain's checkpoints."""
    return tuple(c.getName() for c in domain.listAllCheckpoints(0))


def _counted(words: str, found: Iterable[str]) -> str:
    listed = sorted(found)
    shown = ", ".join([*listed[:NAMES_MAX], *(["…"] if len(listed) > NAMES_MAX else [])])
    return f"{len(listed)} {words}{'s' if len(listed) > 1 else ''} ({shown})"
