#!/bin/sh
# The quickstart, from nothing to a rollout to a refusal and back to nothing; `make demo` runs it.
# It takes under a minute and leaves nothing running, also when it fails or you press Ctrl-C.
set -eu
cd "$(dirname "$0")"

URLS="http://127.0.0.1:18080 http://127.0.0.1:18081 http://127.0.0.1:18082"
LOG=.fleetctl/watch.log
client=

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold='\033[1m' plain='\033[0m'; else bold='' plain=''; fi

say() { printf "\n${bold}%s${plain}\n" "$*"; }

fleet() {
  printf "\n${bold}\$ fleetctl %s${plain}\n" "$*"
  fleetctl "$@"
}

# What is still there is taken down on every way out. A first Ctrl-C has reached fleetctl too, which
# settles the step under way; a second one must not keep the nodes alive, so it is ignored here.
leave() {
  code=$?
  trap '' INT TERM HUP
  trap - EXIT
  [ -z "$client" ] || kill "$client" 2>/dev/null || :
  if [ "$code" -ne 0 ]; then
    say "The demo was cut off (exit $code): removing its nodes."
    { fleetctl recover . --auto-approve || :; fleetctl destroy . --auto-approve; } >&2 || :
    python3 watch.py gone $URLS || say "Some node still answers: see 'fleetctl status' in $(pwd)."
  fi
  exit "$code"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

python3 watch.py gone $URLS || {
  say "Ports 18080 to 18082 are in use, perhaps by a demo that was killed: removing what it left."
  fleetctl recover . --auto-approve || :
  fleetctl destroy . --auto-approve
  python3 watch.py gone $URLS || { say "Another program holds them; the demo cannot run."; exit 1; }
}
mkdir -p .fleetctl

say "1. Three nodes are wanted (fleet.yaml), none is there. The plan says what will happen, and apply does it."
fleet apply . --auto-approve
fleet status .

say "2. A client starts asking all three nodes, about twenty times a second. Under its eyes, 1.1.0 rolls out."
python3 watch.py ask $LOG $URLS &
client=$!
fleet apply . --var version=1.1.0 --auto-approve
sleep 1
kill "$client" && wait "$client"
client=

say "3. What the client saw, from its own log: every moment at which an answer changed, one column a node."
python3 watch.py report $LOG

say "4. Nobody declared a way to 2.0.0, so the plan refuses to go there, and says what would allow it."
refused=0
fleet plan . --var version=2.0.0 || refused=$?
[ "$refused" -eq 3 ] || { say "Expected exit 3, got $refused."; exit 1; }
say "(exit 3: refused; nothing was touched)"

say "5. The same manifests once more: everything is as declared."
fleet apply . --var version=1.1.0 --auto-approve

say "6. And away again."
fleet destroy . --auto-approve
python3 watch.py gone $URLS || { say "A node still answers after destroy."; exit 1; }

say "Nothing is left running. Read examples/quickstart/README.md, then make it yours."
