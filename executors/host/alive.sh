# Whether the start `wanted` of the node `uid` still lives; small, since every probe asks. Changes nothing.

say() { # state code detail [log lines]
  printf 'fleetctl-result 1\nstate=%s\ncode=%s\ndetail=%s\n%send\n' "$1" "$2" "$3" "${log_lines-}"
  exit 0
}

unit_alive() { # sets instance
  found=$(systemctl show -p ActiveState -p SubState -p InvocationID "fleetctl-$uid.service" 2>/dev/null)
  case $found in
  *InvocationID=?*)
    instance=${found#*InvocationID=}
    instance=${instance%%[!0-9a-f]*}
    ;;
  esac
  case $found in
  *SubState=auto-restart*) return 1 ;;
  *ActiveState=active* | *ActiveState=activating* | *ActiveState=reloading* | *ActiveState=deactivating*) ;;
  *) return 1 ;;
  esac
}

process_alive() { # pid start boot
  read -r now </proc/sys/kernel/random/boot_id
  [ "$3" = "$now" ] || return 1
  { read -r stat </proc/"$1"/stat; } 2>/dev/null || return 1
  begun=$2
  # shellcheck disable=SC2086 # split on purpose; after the name come state and 18 numbers, then the start time
  set -- ${stat##*) }
  [ "${20}" = "$begun" ] && [ "$1" != Z ] && [ "$1" != X ]
}

main() {
  cd "$root/nodes/$uid" 2>/dev/null || say failed host.absent "there is no such node on the host"
  { read -r pid start boot _ <process; } 2>/dev/null || say failed process.exited "no start of it is recorded"
  if [ "$pid" = unit ]; then
    instance=$start
    unit_alive && alive=1 || alive=0
  else
    instance=$pid.$start.$boot
    process_alive "$pid" "$start" "$boot" && alive=1 || alive=0
  fi
  [ "$instance" = "$wanted" ] || say failed process.replaced "another start of the node is there: $instance"
  [ "$alive" = 0 ] || say succeeded alive ''
  status=unknown
  for _ in 1 2 3 4 5; do
    { read -r ended code _ <exit; } 2>/dev/null && [ "$ended" = "$instance" ] && status=$code && break
    sleep 0.02 2>/dev/null || break
  done
  if [ "$pid" = unit ]; then
    said=$(journalctl -u "fleetctl-$uid.service" -n 20 -o cat --no-pager 2>/dev/null)
  else
    said=$(tail -n 20 log/current 2>/dev/null)
  fi
  log_lines=$(printf '%s' "$said" | tail -c 4000 | tr -d '\000' | sed 's/^/log=/')
  [ -z "$log_lines" ] || log_lines="$log_lines
"
  say failed process.exited "it has ended (exit status $status)"
}
