# What a node of supervisor `process` runs under. Two roles:
#   main DIR OPERATION   keeps the log, runs the node, records how it ended
#   node DIR OPERATION   claims the start, says which process it is, becomes the node's program
# It does not restart anything: a crashed node stays down until a plan shows it.

role=$1 dir=$2 operation=$3
umask 077
cd "$dir" || exit 126

# A file of the log is turned over past this size, and this many old ones are kept. One dd takes at most
# 128 reads of 8 KiB, so a file never grows past twice this.
log_max_b=1048576
log_keep=3

keep_log() {
  # The group's signals are meant for the node: its last words must still be written.
  trap '' HUP INT QUIT TERM USR1 USR2
  while :; do
    said=$(LC_ALL=C dd bs=8192 count=128 2>&1 >>log/current)
    case $said in
    *'records in'*) ;;
    *) said=$(LC_ALL=C dd bs=8192 count=128 of=/dev/null 2>&1) ;; # the log cannot be opened: the node lives on
    esac
    case $said in
    0+0\ records*) break ;;
    esac
    size=$(wc -c <log/current) 2>/dev/null
    if [ "${size:-0}" -ge "$log_max_b" ]; then
      n=$log_keep
      while [ "$n" -gt 1 ]; do
        mv -f "log/$((n - 1))" "log/$n" 2>/dev/null
        n=$((n - 1))
      done
      mv -f log/current log/1
    fi
  done
}

stat_words() {
  start=${20} pgrp=$3
}

case $role in
main)
  trap : HUP INT QUIT TERM USR1 USR2
  rm -f log/pipe
  mkfifo log/pipe || exit 126
  keep_log <log/pipe >/dev/null 2>&1 &
  exec >log/pipe 2>&1
  if command -v setsid >/dev/null 2>&1; then
    setsid sh ./run node "$dir" "$operation"
  else
    sh ./run node "$dir" "$operation"
  fi
  code=$?
  if read -r pid start boot _ _ _ <process; then
    printf '%s %s %s\n' "$pid.$start.$boot" "$code" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >exit.new
    mv -f exit.new exit
  fi
  ;;
node)
  read -r boot </proc/sys/kernel/random/boot_id
  read -r stat </proc/$$/stat
  # shellcheck disable=SC2086 # split on purpose
  stat_words ${stat##*) }
  printf '%s %s %s %s %s %s\n' $$ "$start" "$boot" "$pgrp" "$operation" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
    >process.new || exit 126
  mv token token.claimed 2>/dev/null || exit 125
  mv -f process.new process || exit 126
  . ./launch
  ;;
esac
