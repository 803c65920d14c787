# Everything about all nodes of a host in one exec; changes nothing. `root` is assigned before.
# Forks once per kind of fact, not per node: records and other small files come as grep's FILE:LINE.

main() {
  cd / || exit 1
  read -r boot </proc/sys/kernel/random/boot_id
  printf 'fleetctl-observe 1\nboot=%s\narch=%s\n' "$boot" "$(uname -m)"
  sed -n 's/^PRETTY_NAME="\{0,1\}\([^"]*\)"\{0,1\}$/os=\1/p' /etc/os-release 2>/dev/null
  if [ ! -d "$root/nodes" ]; then
    # Not there is one thing, and not to be seen by this user is another.
    case $(LC_ALL=C ls -d "$root/nodes" 2>&1) in
    *'ermission denied'*) unreadable ;;
    esac
  else
    cd "$root/nodes" 2>/dev/null && ls >/dev/null 2>&1 || unreadable
    set -- */record
    if [ -e "$1" ]; then observe "$@"; fi
  fi
  printf 'end\n'
}

unreadable() {
  printf 'unreadable=%s\nend\n' "$root/nodes"
  exit 0
}

observe() {
  printf 'section records\n'
  printf '%s\n' "$@"
  printf 'section files\n'
  LC_ALL=C grep '' /dev/null -- */record */fields.json */process */exit */placed 2>/dev/null
  printf 'section processes\n'
  set --
  for file in */process; do
    { read -r pid _ <"$file"; } 2>/dev/null || continue
    case $pid in
    '' | *[!0-9]*) ;;
    *) set -- "$@" "/proc/$pid/stat" ;;
    esac
  done
  [ $# -eq 0 ] || LC_ALL=C grep '' /dev/null "$@" 2>/dev/null
  printf 'section sums\n'
  changed=$(cat -- */sums 2>/dev/null | LC_ALL=C sha256sum -c 2>/dev/null | grep -v ': OK$')
  [ -z "$changed" ] || printf '%s\n' "$changed"
  printf 'section modes\n'
  cat -- */sums 2>/dev/null | cut -c 67- | tr '\n' '\000' | xargs -0 stat -c '%a %n' 2>/dev/null
  set -- /etc/systemd/system/fleetctl-*.service
  if [ -e "$1" ]; then
    printf 'section units\n'
    (
      cd /etc/systemd/system || exit
      systemctl show -p Id -p ActiveState -p SubState -p InvocationID -p DropInPaths -- fleetctl-*.service 2>/dev/null
    )
  fi
  printf 'section artifacts\n'
  stat -c '%s %Y %Z %n' ../artifacts/sha256/*/* 2>/dev/null
  case $changed in
  '') ;;
  *)
    printf 'section changed\n'
    for file in */env; do
      case $changed in
      *"/$file: FAILED"*) changed_env "${file%/env}" ;;
      esac
    done
    printf '%s\n' "$changed" | sed -n 's/: FAILED$//p' | tr '\n' '\000' | xargs -0 sha256sum 2>/dev/null
    ;;
  esac
}

tab=$(printf '\t')
nl='
'

# Which variables differ in an environment that was edited by hand. A secret leaves the host as nothing, a
# plain one as its line. Only nodes that drifted pay for these forks.
changed_env() {
  name=''
  while IFS= read -r line || [ -n "$line" ]; do
    key=${line%%=\"*}
    case $key in
    "$line" | *[!A-Za-z0-9_]* | [0-9]* | '') entry=$entry$nl$line ;;
    *)
      changed_variable "$1"
      name=$key entry=$line
      ;;
    esac
  done <"$1/env"
  changed_variable "$1"
}

changed_variable() { # uid, with name and entry
  [ -n "$name" ] || return 0
  sum=$(printf '%s' "$entry" | sha256sum)
  if grep -q "^env$tab$name${tab}plain$tab${sum%% *}" "$1/placed" ||
    grep -q "^env$tab$name${tab}secret$tab${sum%% *}" "$1/placed"; then
    printf 'env %s %s same\n' "$1" "$name"
  elif grep -q "^env$tab$name${tab}plain$tab" "$1/placed"; then
    printf 'env %s %s plain %s\n' "$1" "$name" "$(printf '%s' "$entry" | tr '\n' '\001')"
  else
    printf 'env %s %s hidden\n' "$1" "$name"
  fi
}
