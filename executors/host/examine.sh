# What doctor asks of a host; changes nothing. `root`, `tools` and `supervisor` are assigned before.

main() {
  printf 'fleetctl-examine 1\nnow=%s\nuser=%s\nuid=%s\narch=%s\n' \
    "$(date +%s)" "$(id -un 2>/dev/null || id -u)" "$(id -u)" "$(uname -m)"
  sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/os=\1/p' /etc/os-release 2>/dev/null
  for tool in $tools; do
    command -v "$tool" >/dev/null 2>&1 || printf 'missing=%s\n' "$tool"
  done
  folder=$root
  while [ ! -d "$folder" ]; do
    folder=${folder%/*}
    [ -n "$folder" ] || folder=/
  done
  printf 'folder=%s\n' "$folder"
  { [ -w "$folder" ] && [ -x "$folder" ]; } || printf 'unwritable=%s\n' "$folder"
  df -Pk "$folder" 2>/dev/null | {
    read -r _
    read -r _ _ _ free _ && printf 'free_kib=%s\n' "$free"
  }
  if [ "$supervisor" = systemd ]; then
    [ ! -d /run/systemd/system ] || printf 'systemd=running\n'
    systemctl --version 2>/dev/null | sed -n '1s/^/systemd_version=/p'
    [ ! -w /etc/systemd/system ] || printf 'units=writable\n'
  fi
  printf 'end\n'
}
