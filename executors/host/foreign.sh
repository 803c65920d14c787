# What import asks of a host about one unit; changes nothing. `unit` is assigned before.

main() {
  printf 'fleetctl-foreign 1\n'
  LC_ALL=C systemctl show "$unit" -p Id -p LoadState -p ActiveState -p MainPID -p User -p DynamicUser \
    -p Environment -p EnvironmentFiles -p WorkingDirectory -p FragmentPath -p MemoryMax -p TasksMax 2>/dev/null
  pid=$(LC_ALL=C systemctl show "$unit" -p MainPID 2>/dev/null | sed -n 's/^MainPID=//p')
  case $pid in
  '' | 0) ;;
  *)
    printf 'exe=%s\n' "$(readlink "/proc/$pid/exe" 2>/dev/null)"
    printf 'cmdline=%s\n' "$(od -An -v -tx1 "/proc/$pid/cmdline" 2>/dev/null | tr -d ' \n')"
    { readlink "/proc/$pid/exe"; tr '\000' '\n' <"/proc/$pid/cmdline"; } 2>/dev/null | while IFS= read -r word; do
      case $word in
      /*) [ ! -f "$word" ] || printf 'file=%s\n' "$(sha256sum "$word" 2>/dev/null)" ;;
      esac
    done
    ;;
  esac
  printf 'arch=%s\nend\n' "$(uname -m)"
}
