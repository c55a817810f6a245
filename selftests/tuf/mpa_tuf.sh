#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# TUF between two hosts, with the module and with a Python peer that was written from
# the draft (mpa_tuf_peer.py). Framing is switched on and off in every mode. The network
# loses and reorders packets, a proxy changes the segmentation, and some FPDUs have to
# be cut. Each record must arrive once, unchanged; tools/wire/judge judges the captures.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
judge=$here/../../tools/wire/judge.py
port=5047
seed=1
judges=0
changes=

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
for tool in tcpdump ethtool ip tc /usr/bin/python3; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
[[ $(/usr/bin/python3 -B "$judge" --help 2>&1) != *--tuf* ]] || judges=1

dir=$(mktemp -d)
trap cleanup EXIT

# background COMMAND...: return once COMMAND has printed its first line, "listening".
# $said is a descriptor of its further output, $pid its process
background() {
	local line

	exec {said}< <(exec timeout 200 "$@" 2>&1)
	pid=$!
	until read -r -u "$said" line && [[ $line = listening ]]; do
		kill -0 "$pid" || return 1
	done
}

peer() {
	local host=$1

	shift
	echo ip netns exec "$host" /usr/bin/python3 -B "$here/mpa_tuf_peer.py" "$@"
}

# transfer ADDRESS CONNECTS ACCEPTS PLAN-OF-FIRST PLAN-OF-SECOND OPTION...: CONNECTS, in
# alpha, connects to ACCEPTS, in beta. Each is "kernel" or "hand"; "+proxy" after
# CONNECTS adds a proxy. Their output is also in $dir/said.
transfer() {
	local to=$1 at=$port first=${2%+*} second=$3 plans=("$4" "$5") rc=0 one
	local pids=() saids=() words

	words=("${@:6}")
	# shellcheck disable=SC2046 # words
	background $(peer beta accept "$1" $port "$second" $seed "${plans[1]}" \
		"${words[@]}") || return
	pids+=("$pid")
	saids+=("$said")
	if [[ $2 = *+proxy ]]; then
		background ip netns exec alpha "$bin/mpa_reorder_peer" proxy \
			127.0.0.1 $((port + 1)) $seed "$to" $at || return
		pids+=("$pid")
		saids+=("$said")
		to=127.0.0.1 at=$((port + 1))
	fi
	# shellcheck disable=SC2046 # words
	timeout 200 $(peer alpha connect "$to" $at "$first" $seed "${plans[0]}" \
		"${words[@]}") 2>&1 | tee "$dir/said" || rc=1
	for one in "${!pids[@]}"; do
		# A process whose peer has failed would wait for a long time.
		[[ $rc -eq 0 ]] || timeout 2 tail --pid "${pids[one]}" -f /dev/null ||
			kill "${pids[one]}" 2>/dev/null || true
		wait "${pids[one]}" || rc=1
		tee -a "$dir/said" <&"${saids[one]}"
	done
	for one in "${saids[@]}"; do
		exec {one}<&-
	done
	return $rc
}

# Change alpha's MTU every few milliseconds. tcpdump's buffer is for the MTU at its
# start.
change_mtu() {
	local sizes=(1500 900 1280 576 1499 1100) i=0

	while sleep 0.05; do
		ip -n alpha link set va mtu "${sizes[i++ % 6]}"
	done
}

# captured HOST DEVICE TRANSFER...: capture the packets of a transfer in $dir/pcap
captured() {
	local rc=0

	capture_start "$1" "$2" "$dir/pcap" "tcp port $port"
	[[ -z $changes ]] || { change_mtu & changes=$!; }
	transfer "${@:3}" || rc=$?
	[[ -z $changes ]] || { kill "$changes"; wait "$changes" || true; } 2>/dev/null
	# The datagram that ends the capture must arrive.
	tc -n alpha qdisc del dev va root 2>/dev/null || true
	capture_stop || rc=1
	return $rc
}

# judged NAME OPTION...: judge the capture, with the framings that the receivers printed
judged() {
	local name=$1 line tuf=()

	shift
	while read -r _ line; do
		tuf+=(--tuf "$line")
	done < <(grep '^judge ' "$dir/said")
	if [[ $judges -eq 0 ]]; then
		tap_ok 0 "${name}_on_the_wire # SKIP no judge"
	else
		tap_run "${name}_on_the_wire" /usr/bin/python3 -B "$judge" "$@" "${tuf[@]}" \
			"$dir/pcap"
	fi
}

# said_at_least NUMBER WORD: whether an end has printed "NUMBER WORD", or a larger
# number
said_at_least() {
	sed -n "s/.* \([0-9]*\) $2.*/\1/p" "$dir/said" |
		awk -v least="$1" '$1 >= least { n++ } END { exit !n }'
}

hosts_down
hosts_up 1500

# ---- in every mode, on and off again ----

many=align,plain,markers:128,align,segments,markers:2048,markers:32768,plain,align
few=markers:512,align,plain,markers:8192,align

while read -r version address first second packing; do
	name=${version}_${first}_to_${second}_packing_$packing
	tap_run "$name" captured beta vb "$address" "$first" "$second" $many \
		$few "packing=$packing" records=60
	judged "$name"
	seed=$((seed + 1))
done <<-END
	ipv4 10.5.4.2 kernel hand 0
	ipv4 10.5.4.2 hand kernel 1
	ipv4 10.5.4.2 kernel kernel 1
	ipv6 fd05:44::2 kernel hand 1
	ipv6 fd05:44::2 hand kernel 0
	ipv6 fd05:44::2 kernel kernel 0
END

# ---- a network that loses and reorders packets ----

while read -r name first second delay netem; do
	hosts_down
	hosts_up 1500
	# shellcheck disable=SC2086 # words
	tc -n alpha qdisc add dev va root netem delay $delay $netem limit 2000
	# shellcheck disable=SC2086 # words
	tc -n beta qdisc add dev vb root netem delay $delay $netem limit 2000
	rc=0
	seen=$(captured beta vb 10.5.4.2 "$first" "$second" \
		align,markers:512,plain,align align,markers:256 place=1 \
		records=300 2>&1) || rc=$?
	# Ends with the module must read some records out of order. On a busy machine an
	# end may not run while something is missing.
	if [[ $rc -eq 0 && $first-$second = kernel-kernel ]] &&
	   ! said_at_least 1 placed; then
		rc=1
		seen+=$'\n'"no record was placed"
	fi
	tap_ok $rc "${name}_${first}_to_$second" "$seen"
	[[ $rc -ne 0 ]] || grep -h placed "$dir/said" | sed 's/^/# /'
	judged "${name}_${first}_to_$second"
	connections_end
	seed=$((seed + 1))
done <<-END
	loss kernel kernel 5ms loss 2%
	loss kernel hand 5ms loss 2%
	loss hand kernel 5ms loss 2%
	reorder kernel kernel 50ms reorder 80% 50%
	everything kernel kernel 5ms loss 1% duplicate 2% reorder 90%
END

# ---- a proxy that changes the segmentation ----

for ends in "kernel kernel" "hand kernel"; do
	read -r first second <<<"$ends"
	hosts_down
	hosts_up 1500
	tc -n alpha qdisc add dev va root netem delay 5ms loss 1%
	tap_run "proxy_${first}_to_$second" transfer 10.5.4.2 "$first+proxy" \
		"$second" align,markers:512,align align,markers:128,align place=1 \
		records=200
	connections_end
	seed=$((seed + 1))
done

# ---- FPDUs that are cut ----

# cut_fpdus NAME LEAST OPTION...: a transfer that must have at least LEAST pieces of
# FPDUs
cut_fpdus() {
	local name=$1 least=$2 rc=0 seen

	shift 2
	seen=$(captured alpha va 10.5.4.2 kernel hand align,plain,align plain \
		"$@" 2>&1) || rc=$?
	if [[ $rc -eq 0 ]] && ! said_at_least "$least" "pieces of FPDUs" &&
	   ! said_at_least "$least" trimmed; then
		rc=1
		seen+=$'\n'"no FPDU was cut"
	fi
	tap_ok $rc "$name" "$seen"
	[[ $rc -ne 0 ]] || grep -h trimmed "$dir/said" | sed 's/^/# /'
	judged "$name"
	connections_end
	seed=$((seed + 1))
}

hosts_down
hosts_up 1500
cut_fpdus cut_by_mss 1 evil=1448 oversize=9000 records=150
# Timing decides where a window or the path cuts; mpa_tuf_cuts tests that
# deterministically.
cut_fpdus cut_by_a_small_window 0 evil=1448 rcvbuf=3000 slow=20 records=100
tc -n alpha qdisc add dev va root netem delay 2ms loss 2%
tc -n beta qdisc add dev vb root netem delay 2ms
cut_fpdus cut_by_mss_and_sent_again 1 evil=1448 oversize=9000 records=200

tc -n alpha qdisc add dev va root netem delay 2ms rate 8mbit limit 1000
changes=mtu
cut_fpdus cut_by_the_path 0 evil=848 records=800
tap_end
