#!/bin/sh
# Makes the two small images of this example from this machine's own busybox, and their Release documents:
# .images/node-1.0.0.tar and .images/releases.yaml, pinned by the digest of the files. Nothing is pulled.
# It needs busybox (Debian: busybox-static), and no Docker: these are root file systems.
set -eu
cd "$(dirname "$0")"
OUT="$PWD/.images"

busybox=$(command -v busybox) || { echo "images.sh: on Debian or Ubuntu: apt-get install busybox-static" >&2; exit 1; }
rm -rf "$OUT"
mkdir -p "$OUT"

printf 'api_version: fleetctl/v1\nkind: Compatibility\nproduct: page\npairs:\n  - {from: "1.0.0", to: "1.1.0", mode: rolling, reverse: rolling}\n' > "$OUT/releases.yaml"
for version in 1.0.0 1.1.0; do
  tree="$OUT/tree-$version"
  mkdir -p "$tree/bin" "$tree/tmp" "$tree/www"
  cp "$busybox" "$tree/bin/busybox"
  for name in sh httpd kill; do ln -s busybox "$tree/bin/$name"; done
  echo ok > "$tree/www/health"
  echo "$version" > "$tree/www/version"
  # Sorted, without owners and times, so that the same content is the same file.
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$tree" -cf "$OUT/page-$version.tar" .
  rm -rf "$tree"
  digest=$(sha256sum "$OUT/page-$version.tar" | cut -c1-64)
  cat >> "$OUT/releases.yaml" <<END
---
api_version: fleetctl/v1
kind: Release
product: page
version: "$version"
artifacts:
  - {substrate: docker, source: ./page-$version.tar, digest: "sha256:$digest"}
END
done
echo "Two images are in .images/, with their releases."
