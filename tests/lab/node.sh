#!/bin/sh
# A small versioned daemon of the laboratory, on busybox alone. It serves over HTTP, as plain files:
#   /health   "ok" while it is ready       /version  $VERSION
#   /config   the file $CONFIG_FILE        /reloads  how often HUP made it read that file again
#   /boot     differs from start to start  /env      the value of $GREETING
#   /starts   how often it was started over the same $DATA_DIR (only where that is set)
# TERM: /health goes, then after $DRAIN_S seconds it ends with 0. HUP: reads its configuration again.
# START_DELAY_S postpones /health; HEALTH=fail never shows it; STUBBORN=1 ignores TERM; EXIT_AT_START ends it at once.
port=${PORT:-8080}
www=${WWW:-/tmp/www-$port}
reloads=0
mkdir -p "$www"
rm -f "$www/health"
[ -z "${EXIT_AT_START:-}" ] || exit "$EXIT_AT_START"

show_config() {
    if [ -f "${CONFIG_FILE:-/etc/node/config}" ]; then
        cat "${CONFIG_FILE:-/etc/node/config}" >"$www/config.new"
    else
        : >"$www/config.new"
    fi
    mv "$www/config.new" "$www/config"
    echo "$reloads" >"$www/reloads"
}
reload() {
    reloads=$((reloads + 1))
    show_config
    echo "node: reloaded $reloads"
}
finish() {
    rm -f "$www/health"
    echo "node: draining"
    [ "${DRAIN_S:-0}" = 0 ] || sleep "$DRAIN_S"
    kill "$server" 2>/dev/null
    exit 0
}

echo "${VERSION:-unversioned}" >"$www/version"
echo "${GREETING:-}" >"$www/env"
cat /proc/sys/kernel/random/uuid >"$www/boot"
if [ -n "${DATA_DIR:-}" ]; then
    echo start >>"$DATA_DIR/starts"
    grep -c start "$DATA_DIR/starts" >"$www/starts"
fi
show_config
busybox httpd -f -p "$port" -h "$www" &
server=$!
trap reload HUP
if [ -n "${STUBBORN:-}" ]; then trap '' TERM; else trap finish TERM INT; fi
[ "${START_DELAY_S:-0}" = 0 ] || sleep "$START_DELAY_S"
[ "${HEALTH:-ok}" = fail ] || echo ok >"$www/health"
echo "node: ${VERSION:-unversioned} serves port $port"
# `wait` returns at each signal; only the server's own end ends the loop.
while kill -0 "$server" 2>/dev/null; do wait "$server"; done
exit 1
