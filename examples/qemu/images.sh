#!/bin/sh
# Makes a small guest in two versions, and their releases: Debian's kernel for clouds, and an initramfs of busybox.
# Everything goes to .images/; nothing is installed. It needs Debian or Ubuntu, with busybox-static and kmod.
set -eu
cd "$(dirname "$0")"
IMAGES="$PWD/.images"
PACKAGE=linux-image-cloud-amd64
MODULES="virtio_pci virtio_net virtio_blk evdev button"

for program in apt-get dpkg depmod modprobe busybox python3; do
  command -v "$program" >/dev/null || PATH="$PATH:/usr/sbin:/sbin"
  command -v "$program" >/dev/null ||
    { echo "images.sh: $program is missing; apt-get install busybox-static kmod" >&2; exit 1; }
done

mkdir -p "$IMAGES"
if [ ! -e "$IMAGES/vmlinuz" ]; then
  # The package with the lasting name depends on the one that holds the kernel.
  kernel=$(apt-cache depends "$PACKAGE" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
  [ -n "$kernel" ] || { echo "images.sh: $PACKAGE is in no package list; apt-get update" >&2; exit 1; }
  echo "Downloading $kernel ..."
  rm -rf "$IMAGES/kernel" && mkdir "$IMAGES/kernel"
  (cd "$IMAGES/kernel" && apt-get -q -o APT::Sandbox::User=root download "$kernel" && dpkg -x ./*.deb tree) >/dev/null
  cp "$IMAGES"/kernel/tree/boot/vmlinuz-* "$IMAGES/vmlinuz"
fi
tree="$IMAGES/kernel/tree"
version=$(basename "$tree"/lib/modules/*)
depmod -b "$tree" "$version"
# In the order in which they can be loaded, each once.
drivers=$(for module in $MODULES; do
  modprobe -d "$tree" -S "$version" --show-depends "$module" | sed -n 's/^insmod \(\S*\).*/\1/p'
done | awk '!seen[$0]++')

pin() { echo "sha256:$(sha256sum "$1" | cut -d ' ' -f 1)"; }

: >"$IMAGES/releases.yaml"
for number in 1.0.0 1.1.0; do
  # shellcheck disable=SC2086 # the list is meant to be split
  python3 initramfs.py "$IMAGES/guest-$number" "$number" guest "$(command -v busybox)" $drivers
  cat >>"$IMAGES/releases.yaml" <<END
---
api_version: fleetctl/v1
kind: Release
product: guest
version: "$number"
artifacts:
  - {substrate: qemu, arch: x86_64, source: ./guest-$number, digest: "$(pin "$IMAGES/guest-$number")"}
END
done
# Laid over the fleet: the kernel beside the release's initramfs, pinned as well.
cat >>"$IMAGES/releases.yaml" <<END
---
api_version: fleetctl/v1
kind: Compatibility
product: guest
pairs:
  - {from: "1.0.0", to: "1.1.0", mode: rolling, reverse: rolling}
---
api_version: fleetctl/v1
kind: Fleet
name: guests
groups:
  - name: web
    domain:
      boot:
        kernel: {source: ./vmlinuz, digest: "$(pin "$IMAGES/vmlinuz")"}
END
echo "Two versions of a guest and their releases are in .images/."
