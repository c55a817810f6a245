#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Records over a network that loses, duplicates, reorders and damages packets, goes
# down and up, and drops long packets, and with hardly any memory for TCP. Both ends
# check every octet, and that none is missing.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
port=5045
records=${MPA_NETEM_RECORDS:-1-300,64768x3,1442x150,1024x150,20000x5}

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v tc ip ethtool >/dev/null || skip_all "needs ethtool and iproute2"
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

mem=$(sysctl -n net.ipv4.tcp_mem)

cleanup() {
	jobs_end
	sysctl -qw net.ipv4.tcp_mem="$mem"
	hosts_down
}
trap cleanup EXIT

fresh_hosts() {
	hosts_down
	hosts_up 1500
	# Send long segments, too.
	ip netns exec alpha ethtool -K va tso on gso on gro on >/dev/null
	ip netns exec beta ethtool -K vb tso on gso on gro on >/dev/null
}

# transfer MARKERS: from alpha to beta and back; prints the ends' output
transfer() {
	local rc=0 said=0 fd pid line

	exec {fd}< <(exec timeout 100 ip netns exec beta "$bin/mpa_transfer" \
		listen 10.5.4.2 $port "$1" "$records" 2>&1)
	pid=$!
	until read -r -u "$fd" line && [[ $line = listening ]]; do
		kill -0 $pid || return 1
	done
	timeout 100 ip netns exec alpha "$bin/mpa_transfer" connect 10.5.4.2 \
		$port "$1" "$records" || rc=$?
	wait $pid || said=$?
	cat <&"$fd"
	exec {fd}<&-
	[[ $rc -eq 0 && $said -eq 0 ]] || echo "ended with $rc and $said"
	[[ $rc -eq 0 && $said -eq 0 ]]
}

# netem NAME WHAT...: transfer in both directions, without and with markers
netem() {
	local name=$1 host dev markers

	shift
	fresh_hosts
	for host in "alpha va" "beta vb"; do
		read -r host dev <<<"$host"
		tc -n "$host" qdisc add dev "$dev" root netem "$@" || {
			tap_ok 0 "$name # SKIP no netem"
			return
		}
	done
	for markers in 0 1; do
		tap_run "${name}_markers_$markers" transfer $markers
	done
}

connected() {
	ip netns exec beta ss -Htn state established "sport = :$port" |
		grep -q .
}

# Begin once there is a connection: connect(2) could fail, which is not MPA's fault. Use
# a wire so slow that the transfer still runs then.
away_and_back() {
	local pid rc=0 times=0

	tc -n alpha qdisc add dev va root netem rate 4mbit
	tc -n beta qdisc add dev vb root netem rate 4mbit
	transfer "$1" &
	pid=$!
	until connected || ! kill -0 $pid 2>/dev/null; do sleep 0.01; done
	while kill -0 $pid 2>/dev/null; do
		for dev in "beta vb" "alpha va"; do
			read -r host dev <<<"$dev"
			ip -n "$host" link set "$dev" down
			ip -n "$host" link set "$dev" up
			# Pause, so that some packets get through.
			sleep 0.2
		done
		times=$((times + 1))
	done
	wait $pid || rc=$?
	echo "away $times times"
	[[ $rc -eq 0 && $times -gt 0 ]]
}

# Beta announces a large MSS, and its end of the wire drops long packets.
swallow_long_packets() {
	fresh_hosts
	ip -n alpha link set va mtu 3000
	ip -n alpha route change 10.5.4.0/24 dev va src 10.5.4.1
	ip -n beta route change 10.5.4.0/24 dev vb src 10.5.4.2 advmss 2900
	ip netns exec alpha ethtool -K va tso off gso off >/dev/null
	ip netns exec alpha sysctl -qw net.ipv4.tcp_mtu_probing=1
	# Add a queue: TCP takes an immediate drop for local congestion.
	tc -n alpha qdisc add dev va root netem delay 1ms
}

netem loss loss 3%
netem duplicate duplicate 10%
netem reorder delay 2ms reorder 25% 50%
netem damage corrupt 3%
netem late delay 5ms 4ms distribution normal
netem slow rate 20mbit limit 20
netem everything delay 3ms 2ms loss 1% duplicate 2% corrupt 1% reorder 10% 50%

for markers in 0 1; do
	fresh_hosts
	tap_run "interface_down_and_up_markers_$markers" away_and_back $markers
	swallow_long_packets
	tap_run "black_hole_markers_$markers" transfer $markers
	fresh_hosts
	sysctl -qw net.ipv4.tcp_mem="24 48 96"
	tap_run "memory_pressure_markers_$markers" transfer $markers
	sysctl -qw net.ipv4.tcp_mem="$mem"
done
tap_end
