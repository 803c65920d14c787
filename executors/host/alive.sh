# Whether the start `wanted` of the node `uid` still lives. Read after guarded.sh and the supervisors.

main() {
  read -r boot </proc/sys/kernel/random/boot_id
  dir=$root/nodes/$uid
  supervisor=process
  read_record || answer failed host.absent "there is no record of this node on the host"
  sup_of_record
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
