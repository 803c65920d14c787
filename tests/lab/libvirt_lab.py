"""A private libvirt with QEMU: own sockets, own state, own network, beside whatever the machine itself runs.

libvirtd of root keeps its state in fixed directories. Here it runs in a mount namespace where those are directories
of the test, so that two can run side by side and nothing of the machine's is touched; and in a pid namespace, so that
no guest outlives it. Guests are emulated (TCG).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import types
from collections.abc import Iterator
from pathlib import Path

from tests.lab.cache import cache_dir
from tests.lab.guest_image import GuestImage, guest_image
from tests.lab.network import Slot, take_slot
from tests.lab.process import Daemon, LabError, descendants, find, missing_programs, missing_root, run
from tests.lab.workdir import make_work_directory, remove_work_directory

START_TIMEOUT_S = 30.0
COMMAND_TIMEOUT_S = 60.0
DIRECTORIES = {
    "run": "/run/libvirt",
    "etc": "/etc/libvirt",
    "lib": "/var/lib/libvirt",
    "log": "/var/log/libvirt",
    "cache": "/var/cache/libvirt",
}
"""Directories of the test, and those of the machine that they stand for in the namespace.

`cache` is kept from run to run: libvirt writes there what QEMU can do, which costs a second or more to find out.
"""

LIBVIRTD_CONF = """\
unix_sock_rw_perms = "0777"
unix_sock_dir = "/run/libvirt"
auth_unix_ro = "none"
auth_unix_rw = "none"
"""
QEMU_CONF = """\
security_driver = "none"
cgroup_controllers = []
remember_owner = 0
namespaces = []
stdio_handler = "logd"
"""
GUEST_MEMORY_MIB = 256
KVM = Path("/dev/kvm")
FIREWALL_PROGRAMS = ("iptables", "ip6tables", "ebtables")


def missing() -> str | None:
    """Why no libvirt can be had here, in one line, or None."""
    programs = ("libvirtd", "virtlogd", "virsh", "qemu-system-x86_64", "unshare", "nsenter", "ip")
    return missing_programs(*programs, package_set="libvirt") or missing_root()


class LibvirtLab:
    """One `libvirtd` with its `virtlogd`; use as a context manager, or `start()` and `stop()`."""

    def __init__(self) -> None:
        """Describe it; nothing runs before `start()`."""
        self._directory: Path | None = None
        self._holder: Daemon | None = None
        self._virtlogd: Daemon | None = None
        self._libvirtd: Daemon | None = None
        self._slot: Slot | None = None
        self._guest: GuestImage | None = None
        self.start_took_s = 0.0

    @property
    def directory(self) -> Path:
        """Private directory, also good for images and volumes (guests can read it); gone after `stop()`."""
        if self._directory is None:
            raise LabError("this libvirt is not started")
        return self._directory

    @property
    def slot(self) -> Slot:
        """The network: `.bridge` for `<interface type='bridge'>`, `.gateway` the machine's address on it."""
        if self._slot is None:
            raise LabError("this libvirt is not started")
        return self._slot

    @property
    def guest(self) -> GuestImage:
        """Kernel and initramfs for direct kernel boot, in a place that guests may read."""
        if self._guest is None:
            raise LabError("this libvirt is not started")
        return self._guest

    @property
    def socket(self) -> Path:
        """The socket as this machine sees it; inside the namespace it is at its usual place."""
        return self.directory / "run" / "libvirt-sock"

    @property
    def uri(self) -> str:
        """Connection URI from this machine."""
        return f"qemu+unix:///system?socket={self.socket}"

    @property
    def holder_pid(self) -> int:
        """A process in the namespaces: `LoopbackSshd(mounts_of=…)` makes logins that see a plain `qemu:///system`."""
        if self._holder is None:
            raise LabError("this libvirt is not started")
        return descendants(self._holder.pid)[0]

    def address(self, number: int) -> str:
        """The `number`-th guest address on the network (1 to 120), reachable from this machine."""
        return f"198.18.{self.slot.number}.{number + 1}"

    def start(self) -> LibvirtLab:
        """Start everything and wait until libvirt answers; all is taken back when that fails."""
        try:
            self._directory = make_work_directory("libvirt", mode=0o755)
            self._slot = take_slot()
            self._copy_guest()
            self._enter_namespace()
            self._virtlogd = self._daemon("virtlogd")
            self._virtlogd.wait_ready(
                (self.directory / "run/virtlogd-sock").exists, timeout_s=START_TIMEOUT_S
            )
            self.start_libvirtd()
        except BaseException:
            self.stop()
            raise
        return self

    def start_libvirtd(self) -> None:
        """Start libvirtd (again) and wait until it answers; running guests are found again."""
        self._libvirtd = self._daemon("libvirtd")
        self.start_took_s = self._libvirtd.wait_ready(self.is_up, timeout_s=START_TIMEOUT_S)

    def is_up(self) -> bool:
        """True when libvirt answers."""
        return self.socket.exists() and self.virsh("version", check=False).returncode == 0

    def virsh(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        """Run virsh against this libvirt."""
        argv = [find("virsh") or "virsh", "--quiet", "--connect", self.uri, *words]
        return run(argv, timeout_s=COMMAND_TIMEOUT_S, check=check)

    def out(self, *words: str) -> str:
        """Standard output of a virsh command that must succeed, stripped."""
        return self.virsh(*words).stdout.decode().strip()

    def kill_domain(self, name: str) -> None:
        """Kill the domain's QEMU process with SIGKILL, as a crash would."""
        pid = (self.directory / "run/qemu" / f"{name}.pid").read_text()
        run([*self._enter(), "kill", "-KILL", pid])

    def halt_libvirtd(self, *, kill: bool = False) -> None:
        """End libvirtd alone, with SIGKILL if so asked; guests go on."""
        if self._libvirtd is None:
            return
        for pid in descendants(self._libvirtd.pid)[:1]:
            os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        # What was started here is the nsenter in front of libvirtd; it ends with it.
        self._libvirtd.reap()
        self._libvirtd = None

    def stop(self) -> None:
        """End all guests, both daemons and the namespaces, and remove every file. Twice is harmless."""
        if self._holder is not None:
            # The end of the first process of a pid namespace is the end of every process in it.
            self._holder.stop()
        for daemon in (self._libvirtd, self._virtlogd):
            if daemon is not None:
                daemon.stop()
        self._libvirtd = self._virtlogd = self._holder = None
        if self._slot is not None:
            self._slot.close()
            self._slot = None
        if self._directory is not None:
            remove_work_directory(self._directory)
            self._directory = None

    def domain_xml(
        self, name: str, number: int, *, arguments: str = "node.VERSION=1.0.0", disks: str = ""
    ) -> str:
        """A small domain with a static address (the `number`-th) that serves node.sh on port 8080.

        Args:
            name: the domain's name.
            number: which guest address it gets.
            arguments: further words of the kernel's command line (see guest-init.sh).
            disks: XML of disks.
        """
        line = f"console=ttyS0 panic=-1 lab.address={self.address(number)}/25 {arguments}"
        return f"""<domain type='qemu'>
  <name>{name}</name><memory unit='MiB'>{GUEST_MEMORY_MIB}</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{self.guest.kernel}</kernel><initrd>{self.guest.initramfs}</initrd><cmdline>{line}</cmdline></os>
  <features><acpi/></features>
  <devices>{disks}
    <interface type='bridge'><source bridge='{self.slot.bridge}'/><model type='virtio'/></interface>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <serial type='file'><source path='{self.directory}/log/{name}-console.log'/></serial>
  </devices>
</domain>"""

    def define(self, xml: str) -> None:
        """Define a domain from its XML."""
        path = self.directory / "domain.xml"
        path.write_text(xml)
        self.virsh("define", str(path))

    @contextlib.contextmanager
    def network(self, name: str) -> Iterator[str]:
        """A network of libvirt's own that gives addresses, as `default` does on a machine of one's own."""
        prefix = self.address(1).rpartition(".")[0]
        path = self.directory / "network.xml"
        # Before it gives an address, dnsmasq would ask for seconds whether somebody has it.
        path.write_text(f"""<network xmlns:dnsmasq='http://libvirt.org/schemas/network/dnsmasq/1.0'>
          <name>{name}</name><bridge name='{self.slot.bridge}-2' stp='off'/>
          <ip address='{prefix}.161' prefix='27'>
            <dhcp><range start='{prefix}.162' end='{prefix}.180'/></dhcp></ip>
          <dnsmasq:options><dnsmasq:option value='no-ping'/></dnsmasq:options></network>""")
        self.virsh("net-create", str(path))
        try:
            yield name
        finally:
            self.virsh("net-destroy", name)

    def _copy_guest(self) -> None:
        """The cache may lie in a home that QEMU's user cannot enter."""
        built = guest_image()
        self._guest = GuestImage(self.directory / "vmlinuz", self.directory / "initramfs")
        shutil.copy(built.kernel, self._guest.kernel)
        shutil.copy(built.initramfs, self._guest.initramfs)

    def _enter_namespace(self) -> None:
        mounts = []
        for own, system in DIRECTORIES.items():
            place = cache_dir() / "libvirt-capabilities" if own == "cache" else self.directory / own
            place.mkdir(mode=0o755, exist_ok=True)
            Path(system).mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --bind {place} {system}")
        (self.directory / "etc/libvirtd.conf").write_text(LIBVIRTD_CONF)
        (self.directory / "etc/qemu.conf").write_text(QEMU_CONF)
        if KVM.exists():
            # libvirt asks QEMU again at every call when KVM works for its probe and not for its guests.
            hidden = self.directory / "no-kvm"
            hidden.touch(mode=0o000)
            mounts.append(f"mount --bind {hidden} {KVM}")
        # libvirt would add its chains to the machine's firewall and leave them there; its networks here need none.
        firewalls = {Path(found).resolve() for found in map(find, FIREWALL_PROGRAMS) if found}
        mounts += [f"mount --bind {find('true')} {program}" for program in sorted(firewalls)]
        ready = self.directory / "ready"
        # The shell must not become the sleep: it also collects ended guests, for which libvirt waits.
        script = f"{' && '.join(mounts)} && touch {ready} && sleep infinity; exit 1"
        argv = ["unshare", "--mount-proc", "--pid", "--fork", "--kill-child=KILL", "--propagation", "private"]
        # unshare ignores SIGTERM while it waits for its child.
        log = self.directory / "holder.log"
        self._holder = Daemon([*argv, "sh", "-c", script], log=log, stop_signal=signal.SIGKILL)
        self._holder.wait_ready(ready.exists, timeout_s=START_TIMEOUT_S)

    def _enter(self) -> list[str]:
        return ["nsenter", "--target", str(self.holder_pid), "--mount", "--pid", "--"]

    def _daemon(self, program: str) -> Daemon:
        # Their usual places for it are shared by everything on this machine.
        own = ["--config", f"/etc/libvirt/{program}.conf", "--pid-file", f"/run/libvirt/{program}.pid"]
        argv = [*self._enter(), find(program) or program, *own]
        (self.directory / "etc" / f"{program}.conf").touch()
        return Daemon(argv, log=self.directory / f"{program}.log")

    def __enter__(self) -> LibvirtLab:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self.stop()
