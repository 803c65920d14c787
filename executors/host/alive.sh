# Whether the start `wanted` of the node `uid` still lives. Read after guarded.sh and a supervisor.

main() {
  read -r boot </proc/sys/kernel/random/boot_id
  dir=$root/nodes/$uid
  if sup_alive && [ "$instance" = "$wanted" ]; then
    answer succeeded alive ''
  fi
  if [ "$instance" = "$wanted" ]; then
    sup_exit
    tail_log
    answer failed process.exited "it has ended (exit status ${exit_code:-unknown})"
  fi
  answer failed process.replaced "another start of the node runs: ${instance:-none}"
}
