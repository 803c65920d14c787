#!/bin/sh
# build-host-tree.sh SUITE WORK [MIRROR]: makes WORK/host.tar, the tree of a host as operators have them:
# systemd, dbus, sshd, sudo, procps, python3, no editor, no compiler.
# Two users, both with /bin/sh: `ops` may sudo without a password, `careful` must give one.
set -eu
suite=$1 work=$2 mirror=${3:-}
tree=$work/tree

packages=systemd,systemd-sysv,dbus,openssh-server,sudo,procps,iproute2,python3,busybox-static
# shellcheck disable=SC2086 # no mirror means no argument
debootstrap --variant=minbase --include=$packages "$suite" "$tree" $mirror >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; exit 1; }

rm -rf "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/usr/share/doc/* \
    "$tree"/usr/share/man/* "$tree"/usr/share/locale/* "$tree"/var/log/* "$tree"/etc/ssh/ssh_host_*
# Every host draws its own identity at its first boot.
: >"$tree/etc/machine-id"

for user in ops careful; do
    chroot "$tree" useradd --create-home --shell /bin/sh --password '*' "$user"
    mkdir -m 0700 "$tree/home/$user/.ssh"
    chroot "$tree" chown "$user:$user" "/home/$user/.ssh"
done
printf 'ops ALL=(ALL:ALL) NOPASSWD: ALL\ncareful ALL=(ALL:ALL) ALL\n' >"$tree/etc/sudoers.d/lab"
chmod 0440 "$tree/etc/sudoers.d/lab"

mkdir -p "$tree/etc/ssh/sshd_config.d" "$tree/etc/systemd/system/ssh.service.d"
printf 'UseDNS no\nPasswordAuthentication no\nMaxStartups 100:30:200\nMaxSessions 50\n' \
    >"$tree/etc/ssh/sshd_config.d/lab.conf"
# A killed sshd stays dead until the test starts it again.
printf '[Service]\nRestart=no\n' >"$tree/etc/systemd/system/ssh.service.d/lab.conf"

# The password that `careful` gives to sudo is put in place with the host's keys, and set before anyone logs in.
cat >"$tree/etc/systemd/system/lab-password.service" <<'UNIT'
[Unit]
Before=ssh.service
ConditionPathExists=/etc/lab-password
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'chpasswd -e </etc/lab-password'
[Install]
WantedBy=multi-user.target
UNIT
chroot "$tree" systemctl enable -q lab-password.service

# What a container has no use for, or what would wake up in the middle of a measurement.
for unit in getty.target console-getty.service systemd-logind.service systemd-networkd.service \
    systemd-resolved.service systemd-timesyncd.service systemd-udevd.service systemd-remount-fs.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer \
    systemd-tmpfiles-clean.timer sys-kernel-debug.mount sys-kernel-tracing.mount dev-hugepages.mount; do
    ln -sf /dev/null "$tree/etc/systemd/system/$unit"
done
ln -sf /lib/systemd/system/multi-user.target "$tree/etc/systemd/system/default.target"

tar -C "$tree" --numeric-owner --one-file-system -cf "$work/host.tar" .
