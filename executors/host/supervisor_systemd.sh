# Supervisor `systemd`: one unit per node, fleetctl-UID.service, written by fleetctl and started by systemd 243 or
# later. A node is restarted when it ends by itself, and comes back after a reboot.
# It is found again by the invocation id of its last start, which `gate` notes in `process` together with the
# operation that started it.

systemd_unit=fleetctl-$uid.service
systemd_folder=/etc/systemd/system

systemd_ready() {
  [ -d /run/systemd/system ] || { sup_error='systemd does not run on this host'; return 1; }
  [ "$(id -u)" = 0 ] || { sup_error='units need root on the host; use become, or the supervisor process'; return 1; }
}

systemd_facts() {
  u_active='' u_sub='' u_pid=0 u_invocation='' instance=''
  u_all=$(systemctl show "$systemd_unit" -p ActiveState -p SubState -p MainPID -p InvocationID 2>/dev/null)
  while IFS= read -r u_line; do
    case $u_line in
    ActiveState=*) u_active=${u_line#*=} ;;
    SubState=*) u_sub=${u_line#*=} ;;
    MainPID=*) u_pid=${u_line#*=} ;;
    InvocationID=*) u_invocation=${u_line#*=} ;;
    esac
  done <<FACTS
$u_all
FACTS
  p_operation=''
  if { read -r _ p_invocation p_boot _ p_operation _ <"$dir/process"; } 2>/dev/null; then
    instance=$p_invocation
  fi
  if [ -n "$u_invocation" ]; then instance=$u_invocation; fi
}

systemd_alive() {
  systemd_facts
  case $u_active in
  active | reloading | deactivating) return 0 ;;
  activating) [ "$u_sub" != auto-restart ] ;;
  *) return 1 ;;
  esac
}

systemd_leftovers() { # it has ended, and systemd is about to start it again
  [ "$u_active" = activating ] && [ "$u_sub" = auto-restart ]
}

systemd_ending() { # systemd itself will see the stop through
  [ "$u_active" = deactivating ]
}

systemd_signal() {
  case $1 in
  KILL) systemctl kill -s KILL "$systemd_unit" 2>/dev/null ;;
  *) systemctl stop --no-block "$systemd_unit" 2>/dev/null ;;
  esac
  rm -f "$systemd_folder/multi-user.target.wants/$systemd_unit"
}

systemd_clear() { # nothing of an earlier start is to come back
  systemctl stop "$systemd_unit" 2>/dev/null
  systemctl reset-failed "$systemd_unit" 2>/dev/null
  u_active=inactive u_sub=dead
}

systemd_reload() {
  [ "$u_pid" -gt 1 ] 2>/dev/null && kill -s "$1" "$u_pid" 2>/dev/null
}

systemd_exit() { # what ExecStopPost has noted of this very start
  exit_code=''
  [ -n "${instance-}" ] || return 0
  for _ in 1 2 3 4 5; do
    if { read -r exit_instance exit_status _ <"$dir/exit"; } 2>/dev/null && [ "$exit_instance" = "$instance" ]; then
      exit_code=$exit_status
      return 0
    fi
    nap 0.02
  done
}

systemd_install() {
  mkdir -p "$systemd_folder/multi-user.target.wants" &&
    systemctl daemon-reload || { sup_error='systemd did not take the unit'; return 1; }
}

systemd_remove() {
  rm -f "$systemd_folder/multi-user.target.wants/$systemd_unit"
  rm -f "$systemd_folder/$systemd_unit" || { sup_error="the unit $systemd_unit cannot be removed"; return 1; }
  systemctl daemon-reload
  systemctl reset-failed "$systemd_unit" 2>/dev/null
  return 0
}

# `gate` claims the token by renaming it before the program runs; without one, and without a start that was
# claimed before, it lets nothing run.
systemd_start() {
  sup_code=host.not_started sup_error='systemd did not start the unit'
  rm -f "$dir/process" "$dir/exit" "$dir/token.claimed"
  printf '%s\n' "$operation" >"$dir/token" || return 1
  said=$(systemctl start "$systemd_unit" 2>&1)
  status=$?
  if ! sup_started "$operation"; then
    rm "$dir/token" 2>/dev/null
    sup_error="systemd did not start the unit: $(printf '%s' "$said" | tr '\n' ' ')"
    systemd_clear
    return 1
  fi
  ln -sf "../$systemd_unit" "$systemd_folder/multi-user.target.wants/$systemd_unit"
  [ "$status" = 0 ] || systemd_facts
}

systemd_abandon() { # a start that failed is not tried again behind everybody's back
  rm -f "$systemd_folder/multi-user.target.wants/$systemd_unit"
  systemd_clear
}

systemd_started() {
  systemd_facts
  [ "$p_operation" = "$1" ] && return 0
  [ "${action-}" = lookup ] || return 1
  if rm "$dir/token" 2>/dev/null; then return 1; fi
  [ "$u_active" != activating ] || return 2
  return 1
}

systemd_log() {
  journalctl -u "$systemd_unit" -n 20 -o cat --no-pager --no-hostname 2>/dev/null
}
