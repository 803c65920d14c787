# Supervisor `process`: the node is a plain process in a session of its own, watched by executors/host/runner.sh.
# It is found again by pid, start time and boot id, so a recycled number is never taken for it.

process_read() { # the last start: p_pid p_start p_boot p_pgrp p_operation p_at
  p_pid='' p_start='' p_boot='' p_pgrp='' p_operation='' p_at=''
  { read -r p_pid p_start p_boot p_pgrp p_operation p_at <"$dir/process"; } 2>/dev/null && [ -n "$p_pgrp" ]
}

process_facts() { # instance, and how it ended if it did
  instance=''
  if process_read; then instance=$p_pid.$p_start.$p_boot; fi
}

process_alive() {
  sup_facts
  [ -n "$instance" ] && is_alive "$p_pid" "$p_start" "$p_boot"
}

process_leftovers() { # the node itself is gone, or not yet reaped, and children are left in its group
  [ -n "$instance" ] && [ "$p_boot" = "$boot" ] && [ "$p_pgrp" = "$p_pid" ] || return 1
  # A number that belongs to another process by now is no group of ours any more.
  if stat_of "$p_pid" && [ "$start" != "$p_start" ]; then return 1; fi
  kill -0 "-$p_pgrp" 2>/dev/null
}

process_signal() { # to the whole group, where the group is the node's own
  # Of the ways to write it, this one is understood by dash, busybox and bash alike.
  if [ "$p_pgrp" = "$p_pid" ]; then
    kill "-$1" "-$p_pgrp" 2>/dev/null
  else
    kill -s "$1" "$p_pid" 2>/dev/null
  fi
}

process_reload() { # the signal goes to the node alone: its children need not know it
  kill -s "$1" "$p_pid" 2>/dev/null
}

process_exit() { # exit_code of the last start, when it was recorded; the recorder may need a moment
  exit_code=''
  [ -n "${instance-}" ] || return 0
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    if { read -r exit_instance exit_status _ <"$dir/exit"; } 2>/dev/null && [ "$exit_instance" = "$instance" ]; then
      exit_code=$exit_status
      return 0
    fi
    [ "$p_boot" = "$boot" ] || return 0
    nap 0.02
  done
}

process_install() { # nothing but its folders
  [ -d "$dir/log" ] || mkdir "$dir/log" || { sup_error="$dir/log cannot be made"; return 1; }
}

process_remove() { :; }

process_ready() { :; }

process_ending() { return 1; } # nobody but the script that was cut off would have killed it

process_clear() { sup_signal KILL; }

process_abandon() { :; }

process_log() { tail -n 20 "$dir/log/current" 2>/dev/null; }

# The runner claims the token by renaming it, right before the node's program runs; whoever takes the token
# away first has excluded the start for good.
process_start() {
  sup_code=host.not_started sup_error='the process could not be started'
  rm -f "$dir/process" "$dir/exit" "$dir/token.claimed"
  printf '%s\n' "$operation" >"$dir/token" || return 1
  if command -v setsid >/dev/null 2>&1; then
    # The first one leads a session, so the second one has to fork: it returns at once, and unlike with
    # `&` the node does not inherit ignored signals.
    setsid setsid sh "$dir/run" main "$dir" "$operation" 9>&- </dev/null >/dev/null 2>&1
  else
    sh "$dir/run" main "$dir" "$operation" 9>&- </dev/null >/dev/null 2>&1 &
  fi
  now_cs
  start_until=$((now + 1000))
  while ! sup_started "$operation"; do
    now_cs
    if [ "$now" -ge "$start_until" ]; then
      rm "$dir/token" 2>/dev/null && return 1
      start_until=$((now + 1000))
    fi
    nap 0.005
  done
}

process_started() { # operation: 0 it was this one that started the last process, 1 it was not, 2 it may still be
  sup_facts
  [ "$p_operation" = "$1" ] && return 0
  [ "${action-}" = lookup ] || return 1
  # A runner may still be on its way: take its token, or wait for the one that claimed it.
  if rm "$dir/token" 2>/dev/null; then return 1; fi
  [ -e "$dir/token.claimed" ] || return 1
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    sup_facts
    [ "$p_operation" = "$1" ] && return 0
    nap 0.05
  done
  # Claimed, and not yet said which process it is: alive it may go on, dead it never will.
  read -r n_pid n_start n_boot _ <"$dir/process.new" 2>/dev/null || return 1
  if is_alive "$n_pid" "$n_start" "$n_boot"; then return 2; fi
  sup_facts
  [ "$p_operation" = "$1" ]
}
