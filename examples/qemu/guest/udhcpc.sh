#!/bin/sh
[ "$1" = bound ] || exit 0
ip address add "$ip/$mask" dev "$interface"
[ -z "$router" ] || ip route add default via "${router%% *}"
