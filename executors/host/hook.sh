# One run of a hook, at most once: whoever makes its folder runs it, and its exit is recorded there.
#
# Runs in one exec, read from standard input after assignments that executors/host/hooks.py writes:
#   root operation uid epoch folder limit_s limit_cs
# and a function `program` that runs it. Everything is inside functions and `main` is called in the last line, so a
# script cut off on its way does nothing. A hang-up of the connection ends neither it nor the program.

set -u
umask 077
keep_days=30

answer() { # state code detail
  printf 'fleetctl-result 1\nstate=%s\ncode=%s\ndetail=%s\nexit_code=%s\n%send\n' \
    "$1" "$2" "$3" "${status-}" "${log_lines-}"
  exit 0
}

now_cs() { # centiseconds since boot, without a fork
  read -r up _ </proc/uptime
  now=${up%.*}${up#*.}
}

process_start() { # pid -> start time in ticks since boot
  { read -r stat_line </proc/"$1"/stat; } 2>/dev/null || return 1
  # shellcheck disable=SC2086 # split on purpose
  set -- ${stat_line##*) }
  printf %s "${20}"
}

report() { # from its recorded exit
  read -r status took_cs <"$dir/exit"
  log_lines=$(tail -c 4000 "$dir/output" 2>/dev/null | tr -d '\000' | sed 's/^/log=/')
  [ -z "$log_lines" ] || log_lines="$log_lines
"
  [ "$status" != 0 ] || answer succeeded hook.done ''
  # Each toolbox's `timeout` has its own exit status for it.
  [ "$took_cs" -lt "$limit_cs" ] || answer failed hook.timeout "it did not end within $limit_s s"
  answer failed hook.failed "it ended with exit status $status"
}

settle() { # what its folder tells
  [ ! -e "$dir/exit" ] || report
  [ ! -e "$dir/barred" ] || answer "$1" hook.not_performed "it was never begun, and will not be"
  if { read -r pid begun of_boot <"$dir/runner"; } 2>/dev/null; then
    [ "$of_boot" = "$boot" ] && [ "$(process_start "$pid")" = "$begun" ] &&
      answer unknown hook.running "it still runs (pid $pid); look again"
    # It may have ended between the two looks.
    [ ! -e "$dir/exit" ] || report
  fi
  answer unknown hook.no_exit "it was begun, and no exit of it is recorded in $dir"
}

current() { # no newer epoch has acted on the node
  [ -n "$uid" ] && [ -r "$root/nodes/$uid/record" ] || return 0
  newest=$(sed -n 's/^epoch=//p' "$root/nodes/$uid/record")
  [ "${newest:-0}" -le "$epoch" ] || answer rejected hook.stale_epoch "epoch $epoch is fenced by $newest"
}

do_perform() {
  current
  mkdir "$dir" 2>/dev/null || settle rejected
  printf '%s %s %s\n' $$ "$(process_start $$)" "$boot" >"$dir/runner" && sync "$dir/runner" ||
    answer failed hook.record "$dir/runner cannot be written (disk full?); the hook was not run"
  now_cs
  begun_cs=$now
  [ -z "$folder" ] || cd "$folder" || done_with 126
  program >"$dir/output" 2>&1 </dev/null
  done_with $?
}

done_with() {
  now_cs
  printf '%s %s\n' "$1" $((now - begun_cs)) >"$dir/exit.new" && sync "$dir/exit.new" && mv "$dir/exit.new" "$dir/exit" && sync "$dir" ||
    answer unknown hook.record "it ended with exit status $1, and $dir/exit cannot be written"
  find "$root/hooks" -mindepth 1 -maxdepth 1 -type d -mtime +$keep_days -exec rm -rf {} + 2>/dev/null
  report
}

do_lookup() {
  if mkdir "$dir" 2>/dev/null; then
    : >"$dir/barred" && sync "$dir" || answer unknown hook.record "$dir/barred cannot be written"
  fi
  settle failed
}

bounded() { # runs it with its time limit
  if command -v timeout >/dev/null 2>&1; then
    timeout -k 5 "$limit_s" "$@"
  else
    "$@"
  fi
}

main() {
  # Handlers, not ignored signals: the program gets them as they were.
  trap : HUP PIPE INT TERM
  read -r boot </proc/sys/kernel/random/boot_id
  dir=$root/hooks/$operation
  mkdir -p "$root/hooks" 2>/dev/null || answer rejected hook.unwritable "$root/hooks cannot be made"
  "do_$1"
}
