#!/bin/sh
# Throw-away SSH hosts on this machine: one sshd, run as you, on three loopback addresses.
#
#   hosts.sh up      makes keys and .hosts/hosts.yaml, and starts the sshd
#   hosts.sh down    stops it by its pid and removes the keys; nodes have to be destroyed before
#
# It needs OpenSSH's server (Debian: openssh-server), and neither root nor a change to your own ~/.ssh.
set -eu
cd "$(dirname "$0")"
HOSTS="$PWD/.hosts"
PORT=${PORT:-2222}

sshd=$(command -v sshd || echo /usr/sbin/sshd)

up() {
  [ -x "$sshd" ] || { echo "hosts.sh: there is no sshd; on Debian or Ubuntu: apt-get install openssh-server" >&2; exit 1; }
  [ ! -e "$HOSTS/sshd.pid" ] || { echo "hosts.sh: the hosts are up already" >&2; exit 1; }
  mkdir -p "$HOSTS"
  chmod 700 "$HOSTS"
  [ -e "$HOSTS/host_key" ] || ssh-keygen -q -t ed25519 -N '' -C 'throw-away host' -f "$HOSTS/host_key"
  [ -e "$HOSTS/user_key" ] || ssh-keygen -q -t ed25519 -N '' -C 'throw-away user' -f "$HOSTS/user_key"
  # As root sshd insists on this folder for its unprivileged half.
  [ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
  cat > "$HOSTS/sshd_config" <<END
Port $PORT
ListenAddress 127.0.0.2
ListenAddress 127.0.0.3
ListenAddress 127.0.0.4
HostKey $HOSTS/host_key
AuthorizedKeysFile $HOSTS/user_key.pub
PidFile $HOSTS/sshd.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
END
  : > "$HOSTS/known_hosts"
  : > "$HOSTS/hosts.yaml"
  key=$(cut -d ' ' -f 1,2 "$HOSTS/host_key.pub")
  for number in 1 2 3; do
    address=127.0.0.$((number + 1))
    echo "[$address]:$PORT $key" >> "$HOSTS/known_hosts"
    cat >> "$HOSTS/hosts.yaml" <<END
---
api_version: fleetctl/v1
kind: Host
name: h$number
# The program listens on this address alone, and the three hosts are one machine.
address: 127.0.0.1
root: $HOSTS/h$number
ssh:
  address: $address
  port: $PORT
  user: $(id -un)
  identity_file: $HOSTS/user_key
  known_hosts: $HOSTS/known_hosts
  config_file: /dev/null
END
  done
  "$sshd" -f "$HOSTS/sshd_config" -E "$HOSTS/sshd.log"
  echo "Three hosts answer on port $PORT: h1 (127.0.0.2), h2 (127.0.0.3), h3 (127.0.0.4)."
}

down() {
  if [ -e "$HOSTS/sshd.pid" ]; then
    kill "$(cat "$HOSTS/sshd.pid")" 2>/dev/null || :
    rm -f "$HOSTS/sshd.pid"
  fi
  rm -rf "$HOSTS"
  echo "The hosts are gone."
}

case ${1:-} in
  up) up ;;
  down) down ;;
  *) echo "usage: hosts.sh up|down" >&2; exit 1 ;;
esac
