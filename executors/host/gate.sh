# Run by systemd as root around a node of supervisor `systemd`: before its program (ExecCondition), and after it
# has ended (ExecStopPost). Notes which start this is, and how it ended.

umask 077
cd "$2" || exit 255

case $1 in
before)
  # A first start needs the token of its operation. A restart by systemd needs that it was claimed before.
  if mv token token.claimed 2>/dev/null; then
    :
  elif [ ! -e token.claimed ]; then
    echo "this start was called off" >&2
    exit 1
  fi
  read -r operation <token.claimed
  read -r boot </proc/sys/kernel/random/boot_id
  printf 'unit %s %s - %s %s\n' "$INVOCATION_ID" "$boot" "$operation" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >process.new
  mv -f process.new process
  # A dynamic user gets another number one day: what is to be its own is given to it before each start.
  if [ -n "${RUNTIME_DIRECTORY-}" ] && [ -n "$3" ]; then
    owner=$(stat -c %u:%g "$RUNTIME_DIRECTORY")
    while IFS= read -r path; do
      if [ "$(stat -c %u:%g "$path" 2>/dev/null)" != "$owner" ]; then chown -R "$owner" "$path"; fi
    done <"$3"
  fi
  ;;
after)
  case ${EXIT_CODE-} in
  exited) status=$EXIT_STATUS ;;
  killed | dumped)
    case ${EXIT_STATUS#SIG} in
    HUP) status=129 ;;
    INT) status=130 ;;
    QUIT) status=131 ;;
    ILL) status=132 ;;
    ABRT) status=134 ;;
    BUS) status=135 ;;
    FPE) status=136 ;;
    KILL) status=137 ;;
    USR1) status=138 ;;
    SEGV) status=139 ;;
    USR2) status=140 ;;
    PIPE) status=141 ;;
    ALRM) status=142 ;;
    TERM) status=143 ;;
    *) status=128 ;;
    esac
    ;;
  *) exit 0 ;;
  esac
  printf '%s %s %s\n' "$INVOCATION_ID" "$status" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" >exit.new
  mv -f exit.new exit
  ;;
esac
exit 0
