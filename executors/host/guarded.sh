# One effect on one node, at most once: lock, read the record, refuse or replay, mark begun, act, mark done.
#
# Runs in one exec, read from standard input after assignments that executors/host/commands.py writes:
#   root uid fleet node lineage epoch generation operation attempt effect request
#   version digest config artifact signal drain_cs settle_s retain_data data_path lock_cs
#   pre pre_generation pre_version pre_digest pre_config supervisor
# and before the supervisors (executors/host/supervisor_*.sh) and `place`, which writes the node's files.
# Everything is inside functions and `main` is called in the last line, so a script cut off on its way does
# nothing. POSIX sh with coreutils or busybox; /proc tells about processes. Exactly one result is printed.

set -u
umask 077
nl='
'
# How many earlier operations a record remembers, so that a late repeat of one is answered, not performed.
past_max=12

answer() { # state code detail [evidence lines]
  printf 'fleetctl-result 1\nstate=%s\ncode=%s\ndetail=%s\ninstance=%s\nexit_code=%s\n%send\n' \
    "$1" "$2" "$3" "${instance-}" "${exit_code-}" "${log_lines-}"
  exit 0
}

now_cs() { # centiseconds since boot, without a fork
  read -r up _ </proc/uptime
  now=${up%.*}${up#*.}
}

nap() { # a moment; whole seconds where sleep knows no fractions
  sleep "$1" 2>/dev/null || sleep 1
}

# --- the lock ---------------------------------------------------------------------------------------------

lock() { # 0 when this script alone may act on the node
  now_cs
  lock_until=$((now + lock_cs))
  if command -v flock >/dev/null 2>&1; then
    exec 9>"$dir/lock" || return 1
    while :; do
      flock -n 9 2>/dev/null
      case $? in
      0) return 0 ;;
      1) lock_wait || return 1 ;;
      *) break ;; # it is not what its name says: do without it
      esac
    done
  fi
  # Without flock: a link that names its owner, which appears whole or not at all.
  stat_of $$
  lock_me=$$.$start.$boot
  until ln -s "$lock_me" "$dir/lock.link" 2>/dev/null; do
    lock_owner=$(readlink "$dir/lock.link" 2>/dev/null) || continue
    lock_pid=${lock_owner%%.*}
    lock_rest=${lock_owner#*.}
    if ! is_alive "$lock_pid" "${lock_rest%%.*}" "${lock_rest#*.}"; then
      # Its owner is dead. Only one heir wins this folder, and it looks again before it takes the lock away.
      if mkdir "$dir/lock.heir" 2>/dev/null; then
        [ "$(readlink "$dir/lock.link")" != "$lock_owner" ] || rm -f "$dir/lock.link"
        rmdir "$dir/lock.heir"
        continue
      fi
    fi
    lock_wait || return 1
  done
  trap 'rm -f "$dir/lock.link"' EXIT
}

lock_wait() {
  now_cs
  [ "$now" -lt "$lock_until" ] && nap 0.02
}

# --- processes --------------------------------------------------------------------------------------------

stat_of() { # pid -> start (ticks since boot), pstate, pgrp; false when there is no such process
  { read -r stat_line </proc/"$1"/stat; } 2>/dev/null || return 1
  # The name in parentheses may hold anything; what follows its last parenthesis is numbers.
  stat_words "${stat_line##*) }"
}

stat_words() {
  # shellcheck disable=SC2086 # split on purpose
  set -- $1
  pstate=$1 pgrp=$3 start=${20}
}

is_alive() { # pid start boot: the very same process, never one that got its number later
  [ "$3" = "$boot" ] && stat_of "$1" && [ "$start" = "$2" ] && [ "$pstate" != Z ] && [ "$pstate" != X ]
}

# --- the supervisor ---------------------------------------------------------------------------------------

# sup_X is X of the supervisor that the node's record names, or of the wanted one for a new node.
sup_ready() { "${supervisor}_ready"; }
sup_facts() { "${sup}_facts"; }
sup_alive() { "${sup}_alive"; }
sup_leftovers() { "${sup}_leftovers"; }
sup_ending() { "${sup}_ending"; }
sup_clear() { "${sup}_clear"; }
sup_install() { "${sup}_install"; }
sup_start() { "${sup}_start"; }
sup_abandon() { "${sup}_abandon"; }
sup_started() { "${sup}_started" "$1"; }
sup_signal() { "${sup}_signal" "$1"; }
sup_reload() { "${sup}_reload" "$1"; }
sup_exit() { "${sup}_exit"; }
sup_log() { "${sup}_log"; }
sup_remove() { "${sup}_remove"; }

sup_of_record() {
  case ${r_supervisor:-$supervisor} in
  process | systemd) sup=${r_supervisor:-$supervisor} ;;
  *) answer rejected host.supervisor "the node is kept by ${r_supervisor:-$supervisor}, which is not known here" ;;
  esac
}

# --- the record -------------------------------------------------------------------------------------------

read_record() { # 0 whole, 1 there is none, 2 damaged
  r_uid='' r_fleet='' r_node='' r_lineage='' r_epoch=0 r_generation=0 r_version='' r_digest='' r_config=''
  r_operation='' r_attempt=0 r_effect='' r_request='' r_phase='' r_state='' r_code='' r_want='' r_placed=''
  r_destroyed='' r_past='' r_past_lineage='' r_past_epoch=0 r_supervisor='' r_artifact_stat='' r_detail=''
  r_artifact='' r_format='' r_end=''
  [ -e "$dir/record" ] || return 1
  while IFS= read -r record_line; do
    record_value=${record_line#*=}
    case $record_line in
    format=*) r_format=$record_value ;;
    uid=*) r_uid=$record_value ;;
    fleet=*) r_fleet=$record_value ;;
    node=*) r_node=$record_value ;;
    lineage=*) r_lineage=$record_value ;;
    epoch=*) r_epoch=$record_value ;;
    generation=*) r_generation=$record_value ;;
    version=*) r_version=$record_value ;;
    digest=*) r_digest=$record_value ;;
    config=*) r_config=$record_value ;;
    artifact=*) r_artifact=$record_value ;;
    artifact_stat=*) r_artifact_stat=$record_value ;;
    supervisor=*) r_supervisor=$record_value ;;
    want=*) r_want=$record_value ;;
    placed=*) r_placed=$record_value ;;
    destroyed=*) r_destroyed=$record_value ;;
    operation=*) r_operation=$record_value ;;
    attempt=*) r_attempt=$record_value ;;
    effect=*) r_effect=$record_value ;;
    request=*) r_request=$record_value ;;
    phase=*) r_phase=$record_value ;;
    state=*) r_state=$record_value ;;
    code=*) r_code=$record_value ;;
    detail=*) r_detail=$record_value ;;
    past=*) r_past=$record_value ;;
    past_lineage=*) r_past_lineage=$record_value ;;
    past_epoch=*) r_past_epoch=$record_value ;;
    end=1) r_end=1 ;;
    esac
  done <"$dir/record"
  [ "$r_format" = 1 ] && [ "$r_end" = 1 ] && [ "$r_uid" = "$uid" ] || return 2
  case $r_epoch$r_generation$r_attempt$r_past_epoch in
  *[!0-9]*) return 2 ;;
  esac
}

write_record() { # the new record appears whole and is on disk when this returns
  printf '%s=%s\n' format 1 uid "$r_uid" fleet "$r_fleet" node "$r_node" lineage "$r_lineage" \
    epoch "$r_epoch" generation "$r_generation" version "$r_version" digest "$r_digest" config "$r_config" \
    artifact "$r_artifact" artifact_stat "$r_artifact_stat" supervisor "$r_supervisor" want "$r_want" \
    placed "$r_placed" destroyed "$r_destroyed" operation "$r_operation" attempt "$r_attempt" \
    effect "$r_effect" request "$r_request" phase "$r_phase" state "$r_state" code "$r_code" \
    detail "$r_detail" past "$r_past" past_lineage "$r_past_lineage" past_epoch "$r_past_epoch" end 1 \
    >"$dir/record.new" || return 1
  sync "$dir/record.new" && mv -f "$dir/record.new" "$dir/record" && sync "$dir"
}

begin() { # the operation is under way from here on; without this on disk nothing happens
  if [ -n "$r_operation" ]; then
    case $r_phase in
    done) past_mark=${r_state} ;;
    *) past_mark=interrupted ;;
    esac
    if [ "$r_operation" != "$operation" ]; then
      r_past="$r_past $r_operation:$r_attempt:$past_mark:$r_code"
      # shellcheck disable=SC2086 # counted on purpose
      set -- $r_past
      while [ $# -gt $past_max ]; do shift; done
      r_past=$*
    fi
  fi
  r_operation=$operation r_attempt=$attempt r_effect=$effect r_request=$request r_phase=begun
  r_state='' r_code='' r_detail='' r_epoch=$epoch r_lineage=$lineage
  write_record || answer failed host.record "the node's record cannot be written in $dir (disk full?)"
}

finish() { # state code detail: the outcome is on disk before anybody hears of it
  r_phase=done r_state=$1 r_code=$2 r_detail=$3
  write_record || answer unknown host.record "the outcome ($1) could not be recorded in $dir (disk full?)"
  answer "$@"
}

# --- refusals ---------------------------------------------------------------------------------------------

in_past() { # operation -> past_attempt, past_state, past_code of an operation before the last one
  case " $r_past" in
  *" $1:"*)
    past_entry=${r_past##*"$1":}
    past_entry=${past_entry%% *}
    past_attempt=${past_entry%%:*}
    past_entry=${past_entry#*:}
    past_state=${past_entry%%:*}
    past_code=${past_entry#*:}
    ;;
  *) return 1 ;;
  esac
}

is_barred() { # a lookup has found this attempt not performed, and promised that it never will be
  [ -e "$dir/barred" ] || return 1
  while read -r barred_operation barred_attempt; do
    [ "$barred_operation" = "$operation" ] && [ "$attempt" -le "$barred_attempt" ] && return 0
  done <"$dir/barred"
  return 1
}

replay() { # the recorded answer for what was already done
  if [ "$r_operation" = "$operation" ]; then
    [ "$r_request" = "$request" ] ||
      answer rejected host.other_request "operation $operation was another request"
    [ "$attempt" -ge "$r_attempt" ] ||
      answer rejected host.stale_attempt "attempt $r_attempt of this operation came before"
    if [ "$r_phase" = done ]; then
      if [ "$attempt" = "$r_attempt" ] || [ "$r_state" = succeeded ]; then
        sup_facts
        answer "$r_state" "$r_code" "$r_detail"
      fi
    elif [ "$attempt" = "$r_attempt" ]; then
      answer unknown host.interrupted "this attempt was begun before and cut off; look it up"
    fi
  elif in_past "$operation"; then
    if [ "$past_state" = interrupted ]; then
      [ "$attempt" -gt "$past_attempt" ] ||
        answer rejected host.superseded "this attempt was cut off, and another operation came after it"
    elif [ "$attempt" -le "$past_attempt" ] || [ "$past_state" = succeeded ]; then
      answer "$past_state" "$past_code" "recorded before the node's last operation"
    fi
  fi
}

guard() { # refuse before anything happens
  if [ "$have" = 2 ]; then
    answer rejected host.damaged "the record $dir/record cannot be read; nobody may guess what runs here"
  fi
  if [ "$have" = 0 ] && [ "$effect$pre" = createabsent ] && [ -n "$r_destroyed" ] && [ "$r_lineage" != "$lineage" ]; then
    # What another state has destroyed is over: a state that begins anew may place a node of that name here.
    have=1 r_past_lineage=$r_lineage r_past_epoch=$r_epoch
    r_generation=0 r_placed='' r_destroyed='' r_operation='' r_past=''
    return 0
  fi
  if [ "$pre" = absent ] && [ "$have" = 0 ] && [ "$r_operation" != "$operation" ]; then
    answer rejected host.precondition "a record of this node exists (generation $r_generation)"
  fi
  if [ "$have" = 1 ]; then
    [ "$pre" != record ] || answer rejected host.precondition "there is no record of this node on the host"
    return 0
  fi
  guard_identity
  guard_precondition
  if [ -n "$r_destroyed" ] && [ "$effect" != destroy ]; then
    answer rejected host.destroyed "this node was destroyed; its uid is not used again"
  fi
}

guard_identity() {
  if [ "$r_lineage" != "$lineage" ]; then
    [ "$effect" = adopt ] ||
      answer rejected host.other_lineage "the node belongs to the state $r_lineage of fleet $r_fleet, not to $lineage"
    if [ "$r_past_lineage" = "$lineage" ] && [ "$epoch" -le "$r_past_epoch" ]; then
      answer rejected host.stale_epoch "epoch $epoch is not above $r_past_epoch, where the node was taken over"
    fi
  elif [ "$epoch" -lt "$r_epoch" ]; then
    answer rejected host.stale_epoch "epoch $epoch is older than $r_epoch, which the node has seen"
  fi
  [ "$generation" -ge "$r_generation" ] || [ "$effect" = adopt ] ||
    answer rejected host.stale_generation "generation $generation is older than $r_generation, which is placed"
}

guard_precondition() { # an operation that was begun before has itself changed what it required
  [ "$pre" = record ] && [ "$r_operation" != "$operation" ] || return 0
  [ "$pre_generation" = "$r_generation" ] ||
    answer rejected host.precondition "generation $r_generation is placed, $pre_generation was expected"
  if [ -n "$pre_digest" ] && [ "$pre_version $pre_digest" != "$r_version $r_digest" ]; then
    answer rejected host.precondition "$r_version ($r_digest) is placed, $pre_version ($pre_digest) was expected"
  fi
  if [ -n "$pre_config" ] && [ "$pre_config" != "$r_config" ]; then
    answer rejected host.precondition "the node's configuration is not the one that was expected"
  fi
}

# --- the node's files --------------------------------------------------------------------------------------

# A file is written beside its place, synced, and renamed: nobody ever sees half of one. `place` is made by
# executors/host/commands.py out of calls of these.

place_begin() {
  place_error='a folder cannot be made'
  [ ! -e "$dir/new" ] || rm -rf "$dir/new" || return 1
  mkdir "$dir/new" || return 1
  place_paths=$nl
}

place_data() { # path user
  place_error="the data folder $1 cannot be made"
  if [ ! -d "$dir/$1" ]; then
    umask 022
    mkdir -p -m 700 "$dir/$1" || return 1
    umask 077
  fi
  place_owner "$dir/$1" "$2"
}

place_owner() { # path user
  [ -z "$2" ] || [ "$(id -u)" != 0 ] || chown "$2" "$1"
}

place_own() { # name text
  place_error="$1 (disk full?)"
  printf '%s' "$2" >"$dir/new/$1"
}

place_text() { # path mode user text
  place_room "$1" && printf '%s' "$4" >"$1.fleetctl-new" && place_moved "$1" "$2" "$3"
}

place_bytes() { # path mode user octal
  place_room "$1" && printf '%b' "$4" >"$1.fleetctl-new" && place_moved "$1" "$2" "$3"
}

place_room() { # path: its folder is there, and no rest of a script that was cut off
  place_error="$1 (disk full?)"
  place_folder "$1" || return 1
  [ ! -e "$1.fleetctl-new" ] || rm -f "$1.fleetctl-new"
}

place_folder() {
  [ -d "${1%/*}" ] || { umask 022; mkdir -p "${1%/*}" || return 1; umask 077; }
  [ ! -d "$1" ] || { place_error="$1 is a folder"; return 1; }
}

place_moved() {
  # What was just written has mode 0600.
  [ "$2" = 0600 ] || chmod "$2" "$1.fleetctl-new" || return 1
  place_owner "$1.fleetctl-new" "$3" || return 1
  sync "$1.fleetctl-new" && mv -f "$1.fleetctl-new" "$1" || return 1
  place_paths=$place_paths$1$nl
}

place_end() { # forget the files of the generation before, then show the new one
  place_error="$dir (disk full?)"
  if [ -e "$dir/placed" ]; then
    while IFS="$tab" read -r kind _ _ _ path; do
      if [ "$kind" = file ]; then
        case $place_paths in
        *"$nl$path$nl"*) ;;
        *) rm -f "$path" ;;
        esac
      fi
    done <"$dir/placed"
  fi
  sync "$dir/new"/* && mv -f "$dir/new"/* "$dir/" && rmdir "$dir/new"
}

# --- effects ----------------------------------------------------------------------------------------------

take_identity() { # the record now speaks of this generation
  r_uid=$uid r_fleet=$fleet r_node=$node r_generation=$generation r_version=$version r_digest=$digest
  r_config=$config r_artifact=$artifact r_artifact_stat='' r_supervisor=$supervisor
}

do_create() {
  if [ "$r_operation" != "$operation" ] && [ "$r_generation" = "$generation" ] && [ -n "$r_placed" ]; then
    answer rejected host.stale_generation "generation $generation was placed by another operation"
  fi
  sup_ready || answer rejected host.supervisor "$sup_error"
  ! sup_alive || answer rejected host.running "the node runs ($instance); stop it first"
  former=$sup
  take_identity
  r_want=stopped r_placed=''
  begin
  end_leftovers
  if [ "$former" != "$supervisor" ]; then
    sup_remove || finish failed host.remove "$sup_error"
    rm -f "$dir/process" "$dir/exit"
    sup=$supervisor
  fi
  place || finish failed host.place "the node's files cannot be written in $dir: $place_error"
  sup_install || finish failed host.install "$sup_error"
  r_placed=1
  instance=''
  finish succeeded '' ''
}

do_start() {
  [ -n "$r_placed" ] || answer rejected host.not_placed "nothing is placed here; create comes first"
  [ "$r_generation" = "$generation" ] ||
    answer rejected host.other_generation "generation $r_generation is placed, not $generation"
  ! sup_alive || answer rejected host.running "the node runs already ($instance)"
  was=$r_want
  r_want=running
  begin
  end_leftovers
  instance=''
  verify_artifact
  sup_start || start_failed "$sup_code" "$sup_error"
  if [ "$settle_s" != 0 ]; then nap "$settle_s"; fi
  if sup_alive; then finish succeeded '' ''; fi
  sup_exit
  tail_log
  sup_abandon
  finish failed process.exited "it ended at once with exit status ${exit_code:-unknown}"
}

end_leftovers() { # children that the last start left behind would keep its port from this one
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sup_leftovers || return 0
    sup_clear
    nap 0.05
  done
}

start_failed() { # code detail: nothing runs, so what was meant before is still meant
  r_want=$was
  finish failed "$@"
}

verify_artifact() { # the bytes that run are the pinned ones, right before they run
  [ -r "$r_artifact" ] || start_failed artifact.missing "$r_artifact is not there"
  found=$(sha256sum <"$r_artifact") || start_failed artifact.unreadable "$r_artifact cannot be read"
  found=sha256:${found%% *}
  [ "$found" = "$r_digest" ] ||
    start_failed artifact.digest_mismatch "$r_artifact has $found, and $r_digest is pinned"
  r_artifact_stat=$(stat -c '%s %Y %Z' "$r_artifact" 2>/dev/null)
}

do_stop() {
  sup_alive || sup_leftovers || {
    was=$r_want
    r_want=stopped
    begin
    sup_exit
    [ "$was" = stopped ] || exit_detail="it had ended before (exit status ${exit_code:-unknown})"
    finish succeeded host.already_stopped "${exit_detail-}"
  }
  r_want=stopped
  begin
  ended=drained
  ask_to_stop
  stop_until=$((now + drain_cs))
  while sup_alive; do
    now_cs
    if [ "$now" -ge "$stop_until" ]; then
      [ "$ended" = drained ] || finish failed host.unkillable "it is still there after SIGKILL"
      ended=killed
      sup_signal KILL
      stop_until=$((now + 1000))
    fi
    nap 0.02
  done
  end_leftovers
  sup_exit
  if [ "$ended" = killed ]; then
    finish succeeded host.killed "it did not end within its drain timeout and was killed"
  fi
  finish succeeded host.drained "it ended after SIG$signal (exit status ${exit_code:-unknown})"
}

ask_to_stop() { # noted first, so that a lookup knows whether the signal may be out, and since when
  now_cs
  printf '%s %s\n' "$operation" "$now" >"$dir/stopping" ||
    finish failed host.record "$dir/stopping cannot be written (disk full?); the node was not asked to stop"
  sup_signal "$signal"
}

do_reload() {
  [ -n "$r_placed" ] || answer rejected host.not_placed "nothing is placed here; create comes first"
  sup_alive || answer rejected host.not_running "the node does not run; a reload needs a running one"
  [ "$sup" = "$supervisor" ] ||
    answer rejected host.supervisor "the node is kept by $sup; another supervisor needs a restart"
  kept_stat=$r_artifact_stat
  take_identity
  r_artifact_stat=$kept_stat
  begin
  place || finish failed host.place "the node's files cannot be written in $dir: $place_error"
  sup_install || finish failed host.install "$sup_error"
  sup_reload "$signal" || finish failed host.reload "the node could not be signalled"
  finish succeeded '' ''
}

do_destroy() {
  ! sup_alive || answer rejected host.running "the node runs ($instance); stop it first"
  sup_exit
  r_want=stopped
  begin
  end_leftovers
  instance=''
  sup_remove || finish failed host.remove "$sup_error"
  if [ -e "$dir/placed" ]; then
    while IFS="$tab" read -r kind _ _ _ path; do
      if [ "$kind" = file ]; then rm -f "$path"; fi
    done <"$dir/placed"
  fi
  for entry in "$dir"/* "$dir"/.[!.]*; do
    case ${entry##*/} in
    record | lock | lock.* | barred | '*' | '.[!.]*') ;;
    *)
      if [ "$retain_data" = 1 ] && [ -n "$data_path" ] && [ "$entry" = "$dir/${data_path%%/*}" ]; then
        continue
      fi
      rm -rf "$entry" || finish failed host.remove "$entry cannot be removed"
      ;;
    esac
  done
  r_destroyed=1 r_placed=''
  finish succeeded '' ''
}

do_adopt() {
  if [ "$r_lineage" != "$lineage" ]; then
    r_past_lineage=$r_lineage r_past_epoch=$r_epoch
  fi
  r_fleet=$fleet r_node=$node
  sup_facts
  begin
  finish succeeded '' "taken over from ${r_past_lineage:-the same state}"
}

# --- lookup -----------------------------------------------------------------------------------------------

# Only from evidence. An attempt that left no trace is barred first, so that it cannot arrive late.
do_lookup() {
  if [ "$have" = 2 ]; then answer unknown host.damaged "the record $dir/record cannot be read"; fi
  if [ "$have" = 0 ] && [ "$r_operation" = "$operation" ] && [ "$r_attempt" = "$attempt" ]; then
    sup_facts
    [ "$r_phase" != done ] || answer "$r_state" "$r_code" "$r_detail"
    lookup_begun
  fi
  if [ "$have" = 0 ] && [ "$r_operation" = "$operation" ] && [ "$r_attempt" -gt "$attempt" ]; then
    answer failed host.superseded "attempt $r_attempt came after it"
  fi
  if [ "$have" = 0 ] && in_past "$operation" && [ "$past_attempt" = "$attempt" ]; then
    [ "$past_state" = interrupted ] || answer "$past_state" "$past_code" "recorded before the last operation"
    answer unknown host.superseded "it was cut off, and operation $r_operation came after it"
  fi
  printf '%s %s\n' "$operation" "$attempt" >>"$dir/barred" && sync "$dir/barred" ||
    answer unknown host.record "$dir/barred cannot be written, so a late arrival is not excluded"
  answer failed host.not_performed "the host has no trace of it, and will refuse it from now on"
}

lookup_begun() {
  case $r_effect in
  start)
    started=0
    sup_started "$operation" || started=$?
    if [ "$started" = 0 ]; then
      ! sup_alive || answer succeeded host.found "the process that it started runs"
      sup_exit
      tail_log
      answer failed process.exited "it was started, and ended with exit status ${exit_code:-unknown}"
    fi
    [ "$started" = 1 ] || answer unknown host.starting "its process is about to run the program; look again"
    answer failed host.not_started "it was cut off before anything was started, and cannot go on"
    ;;
  stop)
    sup_alive || sup_leftovers || answer succeeded host.found "the process has ended"
    ! sup_ending || answer unknown host.stopping "it was cut off, and its supervisor is ending the process; look again"
    { read -r asked_by asked_at <"$dir/stopping"; } 2>/dev/null || asked_by=''
    [ "$asked_by" = "$operation" ] || answer failed host.still_running "it was cut off before the node was asked to stop"
    now_cs
    [ "$now" -ge $((asked_at + drain_cs)) ] ||
      answer unknown host.stopping "it was cut off; the node was asked to stop and may still be draining; look again"
    answer failed host.still_running "it was asked to stop, did not within its drain timeout, and nobody will kill it"
    ;;
  create) answer failed host.incomplete "it was cut off while files were written; repeating it is harmless" ;;
  reload) answer unknown host.interrupted "it was cut off; whether the signal was sent left no trace" ;;
  destroy) answer failed host.incomplete "it was cut off while files were removed; repeating it is harmless" ;;
  adopt) answer failed host.incomplete "it was cut off; the node still has its former owner's record" ;;
  *) answer unknown host.interrupted "effect $r_effect was cut off" ;;
  esac
}

tail_log() { # the last lines of the node's output, as evidence
  log_lines=$(sup_log | tail -c 4000 | tr -d '\000' | sed 's/^/log=/')
  [ -z "$log_lines" ] || log_lines=$log_lines$nl
}

main() {
  # Handlers, not ignored signals: a process started here gets them as they were.
  trap : HUP PIPE INT TERM
  tab=$(printf '\t')
  read -r boot </proc/sys/kernel/random/boot_id
  dir=$root/nodes/$uid
  action=$1
  if [ "$effect" = create ] || [ "$action" = lookup ]; then
    umask 022
    mkdir -p "$dir" 2>/dev/null || answer failed host.unwritable "$dir cannot be made"
    umask 077
  elif [ ! -d "$dir" ]; then
    [ "$effect" != destroy ] || answer succeeded host.already_absent "there is no such node on the host"
    answer rejected host.absent "there is no such node on the host"
  fi
  lock || answer unknown host.busy "another operation holds the node's lock"
  have=0
  read_record || have=$?
  [ "$have" != 2 ] || r_supervisor=$supervisor
  sup_of_record
  [ "$action" != lookup ] || do_lookup
  [ "$have" != 0 ] || replay
  ! is_barred || answer rejected host.barred "a lookup found it not performed; a new attempt is needed"
  guard
  case $effect in
  create) do_create ;;
  destroy) [ "$have" = 0 ] && [ -z "$r_destroyed" ] || answer succeeded host.already_absent "it is gone already" ;;
  esac
  [ "$have" = 0 ] || answer rejected host.absent "there is no record of this node on the host"
  "do_$effect"
}
