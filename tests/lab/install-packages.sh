#!/bin/sh
# Installs the Debian packages from which the tests start real systems.
#
#   install-packages.sh [SET...]      SET: base (default), libvirt, postgres, browser, all
#   install-packages.sh --check [SET...]   exits 0 when nothing is missing, else 3 with the names on stdout
#
# Nothing is started: a policy-rc.d that forbids it is in place while apt runs, and the one that was there
# before comes back afterwards. A second run finds everything in place and asks no package archive.
set -eu

PROGRAM=install-packages.sh
POLICY=/usr/sbin/policy-rc.d
SAVED_POLICY=$POLICY.before-$PROGRAM
LOCK=/run/lock/$PROGRAM.lock
LOCK_TIMEOUT_S=600

BASE="docker.io iptables iproute2 openssh-server openssh-client sudo debootstrap busybox-static docker-registry openssl strace util-linux zsh fish curl jq git"
LIBVIRT="libvirt-daemon-system libvirt-clients qemu-system-x86 qemu-utils libvirt-dev pkg-config gcc kmod dnsmasq-base netcat-openbsd e2fsprogs"
POSTGRES="postgresql postgresql-client"
BROWSER="chromium chromium-driver"

say() { printf '%s: %s\n' "$PROGRAM" "$*" >&2; }
fail() { say "$1"; exit "${2:-1}"; }

packages_of() {
    case $1 in
        base) echo "$BASE" ;;
        libvirt) echo "$LIBVIRT" ;;
        postgres) echo "$POSTGRES" ;;
        browser) echo "$BROWSER" ;;
        all) echo "$BASE $LIBVIRT $POSTGRES $BROWSER" ;;
        *) fail "unknown set '$1'; the sets are: base libvirt postgres browser all" 2 ;;
    esac
}

# One dpkg-query for all names: a name it does not know goes to stderr and simply stays out of the list.
missing_of() {
    # shellcheck disable=SC2086 # the list is meant to be split
    installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' $1 2>/dev/null || true)"
    for package in $1; do
        case $installed in
            *" installed:$package "*) ;;
            *) printf '%s ' "$package" ;;
        esac
    done
}

forbid_service_starts() {
    if [ -e "$POLICY" ] && [ ! -e "$SAVED_POLICY" ]; then
        mv "$POLICY" "$SAVED_POLICY"
    fi
    printf '#!/bin/sh\n# placed by %s while it runs\nexit 101\n' "$PROGRAM" >"$POLICY"
    chmod 0755 "$POLICY"
}

restore_service_starts() {
    if [ -e "$SAVED_POLICY" ]; then
        mv "$SAVED_POLICY" "$POLICY"
    else
        rm -f "$POLICY"
    fi
}

check_only=no
if [ "${1:-}" = --check ]; then
    check_only=yes
    shift
fi
[ $# -gt 0 ] || set -- base

command -v dpkg-query >/dev/null 2>&1 ||
    fail "this is not a Debian or Ubuntu machine (no dpkg-query): tests that need real systems will be skipped" 4

wanted=""
for set_name in "$@"; do
    wanted="$wanted $(packages_of "$set_name")"
done
missing=$(missing_of "$wanted")

if [ -z "$missing" ]; then
    [ "$check_only" = yes ] || say "all packages of '$*' are in place"
    exit 0
fi
if [ "$check_only" = yes ]; then
    echo "$missing"
    exit 3
fi
[ "$(id -u)" = 0 ] || fail "must run as root to install: $missing(try: sudo sh tests/lab/$PROGRAM $*)" 5

exec 9>"$LOCK"
flock -w "$LOCK_TIMEOUT_S" 9 || fail "another run has held $LOCK for $LOCK_TIMEOUT_S s" 6
# The one that held the lock may have installed everything.
missing=$(missing_of "$wanted")
if [ -z "$missing" ]; then
    say "all packages of '$*' are in place"
    exit 0
fi

say "will install, starting no service: $missing"
trap restore_service_starts EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
forbid_service_starts

export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the list is meant to be split
install() {
    apt-get -q -y -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
        install --no-install-recommends $missing </dev/null 9>&-
}

# Fresh lists are needed where there are none, or where what they name has gone from the archive.
if ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1 && install; then
    :
else
    say "refreshing the package lists, then trying again"
    apt-get -q -y -o Acquire::Retries=3 update </dev/null 9>&- ||
        say "some package lists could not be refreshed; trying with what there is"
    install
fi

left=$(missing_of "$wanted")
[ -z "$left" ] || fail "apt-get ended well, yet these are still missing: $left"
say "installed: $missing"
