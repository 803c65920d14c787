#!/bin/busybox sh
# Process 1 of a guest of the laboratory: busybox, the kernel's modules, and node.sh as the daemon. The kernel's
# command line says what it is:
#   lab.address=A/N   static address; without it DHCP        lab.gateway=A   default route
#   lab.data=DEV      data disk, formatted when blank, seen as /data (DATA_DIR of the node)
#   lab.image=DEV     disk whose file /version says the node's version
#   node.NAME=VALUE   environment of node.sh
# A disk labelled `cidata` (NoCloud seed) is shown below /seed/. The power button drains the node and turns off.
/bin/busybox mkdir -p /proc /sys /dev /tmp /data /image /run /var/run
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
export PATH=/bin
while read -r module; do insmod "$module" 2>/dev/null; done </modules

# Busybox's findfs passes over whole disks where another disk has partitions; then the label of an ISO is read.
seed_disk() {
    findfs LABEL=cidata 2>/dev/null && return
    for disk in /dev/vd?; do
        [ "$(dd if="$disk" bs=1 skip=32808 count=6 2>/dev/null)" != cidata ] || { echo "$disk"; return; }
    done
    false
}

image='' data='' address='' gateway=''
for word in $(cat /proc/cmdline); do
    case $word in
        lab.address=*) address=${word#*=} ;;
        lab.gateway=*) gateway=${word#*=} ;;
        lab.data=*) data=${word#*=} ;;
        lab.image=*) image=${word#*=} ;;
        node.*) export "${word#node.}" ;;
    esac
done

ip link set lo up
if [ -e /sys/class/net/eth0 ]; then
    ip link set eth0 up
    if [ -n "$address" ]; then
        ip address add "$address" dev eth0
        [ -z "$gateway" ] || ip route add default via "$gateway"
    else
        udhcpc -i eth0 -b -q -s /etc/udhcpc.sh
    fi
fi
if [ -n "$image" ] && mount -o ro "$image" /image; then
    VERSION=$(cat /image/version)
    export VERSION
fi
if [ -n "$data" ]; then
    mount -t ext4 "$data" /data 2>/dev/null || { mke2fs "$data" >/dev/null && mount -t ext4 "$data" /data; }
    export DATA_DIR=/data
fi
export WWW=/tmp/www
if seed=$(seed_disk) && mkdir -p /seed $WWW && mount -o ro "$seed" /seed; then
    cp -r /seed $WWW/seed
fi
[ ! -x /agent/start ] || /agent/start &

acpid -d -l /dev/null >/dev/null 2>&1 &
/bin/node &
node=$!
echo "$node" >/run/node.pid
while kill -0 $node 2>/dev/null; do wait $node; done
umount /data 2>/dev/null
sync
echo "guest: node ended, power off"
poweroff -f
