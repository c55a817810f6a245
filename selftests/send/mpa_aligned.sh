#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa_aligned.sh [OPTION]... [CASE...]: check that every segment begins with an FPDU.
# Many kinds of traffic run over a good or bad wire. The capture is at the sender,
# before packets can be lost. The sender's counters, the capture and the case's
# expectation must agree.
#
# MPA_WIRE_DIR keeps the capture, aligned.pcap, and each case's arguments of the judge
# (tools/wire/judge), CASE.judge. If it is not set, the judge runs here.
#
# --long: send ten times as much, as with MPA_LONG=1. --times=N: run each case N times.
# --no-capture: check the counters only. --defaults: use the kernel's default settings,
# with tail loss probes. Segments may then be misaligned: the table has their number.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
judge=$here/../../tools/wire/judge
port=6000	# before the first case's

size=1000000
times=1
captured=1
defaults=
while [[ ${1:-} = --* ]]; do
	case $1 in
	--long) MPA_LONG=1 ;;
	--times=*) times=${1#*=} ;;
	--no-capture) captured= ;;
	--defaults) defaults=1 ;;
	*) skip_all "no option $1" ;;
	esac
	shift
done
[[ -z ${MPA_LONG:-} ]] || size=10000000
small=$((size / 256000 * 64000))	# octets per case with records of 64
usual=$((8 * size))	# default window
[[ ! $defaults ]] || usual=131072
only=("$@")

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v tcpdump ethtool ip tc >/dev/null ||
	skip_all "needs tcpdump, ethtool and iproute2"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
modprobe -q sch_netem || true

# A guest stores packets far faster in memory than on the host's disk.
dir=$(mktemp -d)

cleanup() {
	jobs_end
	path_down
	rm -rf "$dir"
}

# path_up: a router between the two hosts, which loses packets on request
#
#   netns alpha              netns router                     netns beta
#   10.5.3.1    va ------ ra  10.5.3.2  10.5.4.1  rb ------ vb  10.5.4.2
#   fd05:43::1                fd05:43::2  fd05:44::1            fd05:44::2
#
path_up() {
	local host netns end

	modprobe -q veth || true
	for netns in alpha router beta; do
		ip netns add $netns
	done
	ip link add va netns alpha mtu 9000 type veth peer name ra \
		netns router mtu 9000
	ip link add rb netns router mtu 9000 type veth peer name vb \
		netns beta mtu 9000
	for end in "alpha va 3 1" "router ra 3 2" "router rb 4 1" \
		   "beta vb 4 2"; do
		# shellcheck disable=SC2086 # four words
		set -- $end
		# Connections must not use metrics of earlier ones. With a short RTT TCP
		# builds long packets: slow emulation must not make the RTT look long.
		ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.accept_dad=0" \
			net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 \
			net.ipv4.tcp_no_metrics_save=1
		[[ $defaults ]] || ip netns exec "$1" sysctl -qw \
			net.ipv4.tcp_tso_rtt_log=20
		# Capture packets as on the wire, not before segmentation or after GRO.
		ip netns exec "$1" ethtool -K "$2" tso off gso off gro off \
			>/dev/null
		ip -n "$1" -batch - <<-END
			addr add 10.5.$3.$4/24 dev $2
			addr add fd05:4$3::$4/64 dev $2 nodad
			link set lo up
			link set $2 up
		END
	done
	ip -n alpha route add 10.5.4.0/24 via 10.5.3.2
	ip -n alpha route add fd05:44::/64 via fd05:43::2
	ip -n beta route add 10.5.3.0/24 via 10.5.4.1
	ip -n beta route add fd05:43::/64 via fd05:44::1
	window
}

path_down() {
	ip netns del alpha 2>/dev/null || true
	ip netns del router 2>/dev/null || true
	ip netns del beta 2>/dev/null || true
}

path_mtu=9000
set_mtu() {
	[[ $path_mtu -ne $1 ]] || return 0
	path_mtu=$1
	ip -n beta link set vb mtu "$1"
	printf 'link set %s mtu '"$1"'\n' ra rb | ip -n router -batch -
	ip -n alpha link set va mtu "$1"
}

# Packets are lost on the way to beta, after the capture in alpha.
path_netem=
set_netem() {
	[[ $path_netem != "$*" ]] || return 0
	path_netem=$*
	ip netns exec router tc qdisc del dev rb root 2>/dev/null || true
	[[ $# -eq 0 ]] || ip netns exec router tc qdisc add dev rb root netem \
		"$@"
}

# transfer ADDRESS [NAME=VALUE]...: store the counters in the case's .json
transfer() {
	local address=$1 fd rc=0 server

	shift
	exec {fd}< <(exec ip netns exec beta "$bin/mpa_align" receive \
		     "$address" $port "$@")
	server=$!
	read -r -u "$fd" _
	ip netns exec alpha timeout 120 "$bin/mpa_align" send "$address" \
		$port "$@" >"$dir/$case_name.json" || rc=$?
	[[ $rc -eq 0 ]] || kill $server 2>/dev/null
	cat <&"$fd"
	wait $server || rc=$?
	return $rc
}

causes="oversized window other"
declare -A n before
all=0
table=()

# Set n to the sender's counters, and all to the number of its segments
counters() {
	local key value

	all=0
	while read -r key value; do
		n[$key]=$value
		[[ $key != tx_segs_* ]] || all=$((all + value))
	done < <(grep -oE '"(tx|cut)_[a-z_]+": [0-9]+' "$dir/$case_name.json" |
		tr -d '":')
	# These counters include all earlier connections.
	for key in $causes; do
		value=${n[cut_$key]}
		n[cut_$key]=$((value - ${before[$key]:-0}))
		before[$key]=$value
	done
}

# tenths NUMBER: print a number of tenths with a decimal point
tenths() {
	echo "$(($1 / 10)).$(($1 % 10))"
}

add_to_table() {
	local line='' cause

	for cause in $causes; do
		[[ ${n[cut_$cause]} -eq 0 ]] ||
			line+=" $cause ${n[cut_$cause]}"
	done
	table+=("$(printf '%-24s %8d %9s %9s %s' "$case_name" "$all" \
		"$(tenths $((1000 * n[tx_segs_aligned] / all)))" \
		"$(tenths $((10 * all / n[tx_packets])))" "$line")")
}

# explained CAUSE...: whether misaligned segments have only these causes
explained() {
	local cause rc=0

	[[ ${n[tx_segs_aligned]} -gt 0 ]] || {
		echo "expected aligned segments, seen none"
		rc=1
	}
	for cause in $causes; do
		[[ ${n[cut_$cause]} -gt 0 ]] || continue
		[[ " $* " != *" $cause "* ]] || continue
		echo "expected no $cause, seen ${n[cut_$cause]} of $all segments"
		rc=1
	done
	return $rc
}

want() {
	local one

	[[ ${#only[@]} -eq 0 ]] && return
	for one in "${only[@]}"; do
		[[ $1 != "$one" ]] || return 0
	done
	return 1
}

# on NAME MTU [NETEM]...: set the path of the next case, if it was selected
on() {
	case_name=$1
	want "$1" || return 0
	port=$((port + 1))
	set_mtu "$2"
	shift 2
	set_netem "$@"
}

# traffic ADDRESS CAUSES JUDGE [NAME=VALUE]...: run the case. CAUSES: allowed causes of
# misaligned segments; JUDGE: options for the judge.
traffic() {
	local name=$case_name time

	want "$name" || return 0
	for ((time = 1; time <= times; time++)); do
		[[ $times -eq 1 ]] || case_name=$name.$time
		traffic_once "$@"
		[[ $time -eq times ]] || port=$((port + 1))
	done
}

traffic_once() {
	local name=$case_name address=$1 allowed=$2 demands=$3

	shift 3
	[[ ! $defaults ]] || {
		allowed=$causes
		demands=${demands//--aligned/}
	}
	tap_run "$name" transfer "$address" "octets=$size" "$@"
	[[ -s $dir/$name.json ]] || return 0
	counters
	add_to_table
	# shellcheck disable=SC2086 # one word a cause
	tap_run "${name}_counters" explained $allowed
	demands+=" --no-tshark --port $port"
	[[ -n ${uncounted:-} ]] || demands+=" --counters $name.json"
	echo "$demands aligned.pcap" >"$dir/$name.judge"
}

# window [OCTETS]: set the initial window of beta's connections. The default is far more
# than most cases send: on a busy machine the reader and ACKs may be late, and TCP cuts
# a tail loss probe at the window's edge.
window() {
	local octets=${1:-$usual} most=6291456

	[[ $octets -le $most ]] || most=$octets
	ip netns exec beta sysctl -qw "net.ipv4.tcp_rmem=4096 $octets $most"
}

# probes off|on: whether alpha sends tail loss probes, and window probes after 200 ms,
# as a reader on a busy machine may be late. TCP cuts both at the window's edge.
probes() {
	local early=3 rto=''

	[[ ! $defaults ]] || return 0
	[[ $1 = on ]] || early=0 rto="rto_min 10s"
	ip netns exec alpha sysctl -qw "net.ipv4.tcp_early_retrans=$early"
	printf 'route change %s '"$rto"'\n' "10.5.4.0/24 via 10.5.3.2" \
		"fd05:44::/64 via fd05:43::2" | ip -n alpha -batch -
}

# few_misaligned NUMBER: the last case may have at most NUMBER misaligned segments
few_misaligned() {
	local misaligned

	want "$case_name" || return 0
	misaligned=$((all - n[tx_segs_aligned]))
	tap_ok $((misaligned > $1)) "${case_name}_few_misaligned" \
		"expected at most $1 misaligned segments, seen $misaligned"
}

# packets NUMBER [NAME=VALUE]...: at least NUMBER segments must go to IP at a time.
# There is no capture; TSO is on, and the window need not grow. A busy machine may spoil
# a try, so there are several.
packets() {
	local least=$1 try seen=''

	want "$case_name" || return 0
	shift
	window $((8 * size))
	# The reference kernel must reach NUMBER. Others reach it when a guest has the
	# machine to itself; otherwise their receiver is late.
	[[ ${MPA_KERNEL:-6.1} = 6.1 ]] || least=$((least / 3))
	ip netns exec alpha ethtool -K va tso on gso on >/dev/null
	for try in 1 2 3 4 5; do
		tap_said=$(port=5044 transfer "$ipv4" call=262144 \
			   "octets=$((8 * size))" "$@") || break
		counters
		seen+=" $(tenths $((10 * all / n[tx_packets])))"
		[[ $all -lt $((least * n[tx_packets])) ]] || break
	done
	ip netns exec alpha ethtool -K va tso off gso off >/dev/null
	window
	add_to_table
	[[ $all -ge $((least * n[tx_packets])) ]] && try=0
	tap_ok $try "$case_name" \
		"expected $least segments an skb, seen$seen; $tap_said"
	tap_run "${case_name}_counters" explained
}

# judged CASE: the judge's output
judged() {
	local options

	read -r -a options <"$dir/$1.judge"
	(cd "$dir" && "$judge" "${options[@]}")
}

trap cleanup EXIT
ipv4=10.5.4.2
ipv6=fd05:44::2
path_down
path_up
# libpcap allocates space for the present MTU only.
[[ ! $captured ]] || capture_start alpha va "$dir/aligned.pcap" \
	"tcp portrange 6000-6999"


# ---- bulk: every segment, many in an skb ----

on bulk 1500
traffic $ipv4 "" --aligned segment=0
on bulk_markers 1500
traffic $ipv4 "" --aligned segment=0 markers=1
on bulk_ipv6_markers 1500
traffic $ipv6 "" --aligned segment=0 markers=1
on nagle 1500
traffic $ipv4 "" --aligned segment=0 nodelay=0
on small_send_buffer 1500
traffic $ipv4 "" --aligned segment=0 sndbuf=1
# These cases send more, as packets are short until the congestion window is large.
on packets 1500
packets 15 segment=0
on packets_markers 1500
packets 15 segment=0 markers=1
on packets_of_1024 1500
packets 10 segment=1024

# ---- small records ----

on records_of_1024 1500
traffic $ipv4 "" "--aligned --packed 1" segment=1024
on records_of_1024_markers 1500
traffic $ipv4 "" "--aligned --packed 1" segment=1024 markers=1
on cut_to_64_more 1500
traffic $ipv4 "" "--aligned --packed 15" segment=64 call=64 more=1 \
	octets=$small
on cut_to_64 1500
traffic $ipv4 "" "--aligned --packed 15" segment=64 octets=$small
on segment_changes 1500
traffic $ipv4 "" --aligned segment=0 turns=3
on more_and_eor 1500
traffic $ipv4 "" "--aligned --packed 15" call=64 more=2 octets=$small
on sendmmsg 1500
traffic $ipv4 "" "--aligned --packed 15" call=64 batch=1000 octets=$small
on sendmmsg_markers 1500
traffic $ipv6 "" "--aligned --packed 15" call=64 batch=1000 markers=1 \
	octets=$small
on single_sends 1500
traffic $ipv4 "" "--aligned --single" call=64 wait=1 octets=$((64 * 200))
on mixed_sizes 1500
traffic $ipv4 "" --aligned call=0
on mixed_sizes_unpacked 1500
traffic $ipv4 "" "--aligned --single" call=0 packing=0
on mixed_sizes_markers 1500
traffic $ipv6 "" --aligned call=0 markers=1
on batches_of_mixed_sizes 1500
traffic $ipv4 "" --aligned call=0 more=2
on batches_of_mixed_sizes_markers 1500
traffic $ipv6 "" --aligned call=0 more=2 markers=1
on two_senders 1500
traffic $ipv4 "" --aligned call=1000 senders=2 octets=$((size / 2))

# ---- records longer than a segment ----

on oversized 1500
traffic $ipv4 oversized "" call=20000

# ---- windows that close ----

window 131072
probes off
on slow_reader 1500
traffic $ipv4 "" --aligned segment=0 pause=10000
on slow_reader_markers 1500
traffic $ipv6 "" --aligned segment=0 pause=10000 markers=1
on batches_and_a_slow_reader 1500
traffic $ipv4 "" --aligned call=300 batch=30 pause=10000 \
	stop=$((size / 3)) stop_ms=400
probes on
on slow_reader_probes 1500
traffic $ipv4 window "" segment=0 pause=10000
few_misaligned 10
on zero_window 1500
traffic $ipv4 window "" segment=0 rcvbuf=20000 \
	stop=$((size / 3)) stop_ms=1500
on small_window 1500
traffic $ipv4 window "" segment=0 rcvbuf=20000 pause=1000
on tiny_window 1500
traffic $ipv4 "window oversized" "" segment=0 rcvbuf=3000 \
	octets=$((size / 8))
window

# ---- a bad path ----

on loss 1500 loss 1% delay 2ms
traffic $ipv4 "" --aligned segment=0
on loss_markers 1500 loss 1% delay 2ms
traffic $ipv6 "" --aligned segment=0 markers=1
on loss_records_of_1024 1500 loss 1% delay 2ms
traffic $ipv4 "" --aligned segment=1024
on loss_mixed_sizes 1500 loss 1% delay 2ms
traffic $ipv4 "" --aligned call=0
on loss_batches 1500 loss 1% delay 2ms
traffic $ipv4 "" --aligned call=300 batch=30
on reordering 1500 delay 2ms reorder 5% 25%
traffic $ipv4 "" --aligned segment=0
on duplication 1500 duplicate 2% delay 1ms
traffic $ipv4 "" --aligned segment=0
on all_of_it 1500 loss 1% delay 2ms reorder 5% 25% duplicate 1%
traffic $ipv4 "" --aligned segment=0 pause=2000

# ---- other MTUs ----

# This MSS is not a multiple of 4.
on bulk_1499 1499
traffic $ipv4 "" --aligned segment=0
on bulk_1499_markers 1499
traffic $ipv6 "" --aligned segment=0 markers=1
on bulk_9000 9000
traffic $ipv4 "" --aligned segment=0 octets=$((2 * size))
on bulk_9000_markers 9000
traffic $ipv6 "" --aligned segment=0 octets=$((2 * size)) markers=1

# To probe for a larger MTU TCP builds packets anew, which begin at other octets. Their
# misaligned segments must be counted.
if [[ ! $defaults ]]; then
	ip netns exec alpha sysctl -qw net.ipv4.tcp_mtu_probing=2 \
		net.ipv4.tcp_base_mss=701 net.ipv4.tcp_probe_interval=1
	on mtu_probing 9000
	traffic $ipv4 "oversized window other" "" segment=0 \
		octets=$((2 * size))
	on mtu_probing_markers 8999
	traffic $ipv6 "oversized window other" "" segment=0 markers=1 \
		octets=$((2 * size))
	on mtu_probing_small_window 8999
	traffic $ipv4 "oversized window other" "" call=0 rcvbuf=20000
	ip netns exec alpha sysctl -qw net.ipv4.tcp_mtu_probing=0
fi

# accurate_ecn on|off: only some packets have its options (RFC 9768). It fails on
# kernels without them
accurate_ecn() {
	local host ecn=2

	[[ $1 = off ]] || ecn=3
	for host in alpha beta; do
		ip netns exec $host sysctl -qw net.ipv4.tcp_ecn=$ecn 2>/dev/null ||
			return
	done
}

# TCP learns the options' length from the first packets; more packets are then in
# flight.
if [[ ! $defaults ]] && accurate_ecn on; then
	window 131072
	on accurate_ecn 1500
	traffic $ipv4 "oversized window other" "" segment=0
	few_misaligned 40
	on accurate_ecn_markers 1500
	traffic $ipv6 "oversized window other" "" segment=0 markers=1
	few_misaligned 40
	accurate_ecn off
	window
fi

# shellcheck disable=SC2016 # the program sets $N
mtus='case $((N % 2)) in
	1) ip -n alpha route change 10.5.4.0/24 via 10.5.3.2 mtu 576 ;;
	0) ip -n alpha route change 10.5.4.0/24 via 10.5.3.2 mtu 9000 ;;
esac'
on pmtu_at_rest 9000
traffic $ipv4 "" --aligned segment=0 wait=1 hook=$((size / 7)) run="$mtus"
# IP drops segments that are too long for the new route: mpa counts them, but they are
# not captured.
on pmtu_of_the_route 9000
uncounted=1 traffic $ipv4 "oversized other" "" segment=0 hook=$((size / 7)) run="$mtus"
# Keep this case last: it removes the router's IPv6 address.
# shellcheck disable=SC2016
mtus='case $((N % 2)) in
	1) ip -n router link set rb mtu 576 ;;
	0) ip -n router link set rb mtu 9000 && ip -n alpha route flush cache ;;
esac'
on pmtu_by_icmp 9000
uncounted=1 traffic $ipv4 "oversized other" "" segment=0 hook=$((size / 7)) run="$mtus"

[[ ! $captured ]] || tap_run capture capture_stop
if [[ ! $captured ]]; then
	:
elif [[ -n ${MPA_WIRE_DIR:-} ]]; then
	mv "$dir"/* "$MPA_WIRE_DIR"
elif command -v tshark >/dev/null && [[ -x $judge ]]; then
	for case_name in "$dir"/*.judge; do
		case_name=$(basename "$case_name" .judge)
		tap_run "${case_name}_on_the_wire" judged "$case_name"
	done
fi
if [[ ${#table[@]} -gt 0 ]]; then
	printf '# %-24s %8s %9s %9s %s\n' case segments aligned% "an skb" \
		misaligned
	printf '# %s\n' "${table[@]}"
fi
tap_end
