#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The event mpa:mpa_unaligned and /proc/net/mpa_stat report the number of segments that
# do not start with an FPDU, and the cause. Otherwise they are silent.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
tracing=/sys/kernel/tracing
port=5044

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v ethtool ip >/dev/null || skip_all "needs ethtool and iproute2"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
[[ -d $tracing/events ]] || mount -t tracefs tracefs $tracing 2>/dev/null ||
	skip_all "no tracefs"
event=$tracing/events/mpa/mpa_unaligned/enable
[[ -e $event ]] || skip_all "a kernel without events"

cleanup() {
	jobs_end
	echo 0 >$event
	hosts_down
}
trap cleanup EXIT
hosts_down
hosts_up 1500
echo 1 >$event

# counted NAME: a counter of the sender's host
counted() {
	ip netns exec alpha awk -v name="$1" '$1 == name { print $2 }' \
		/proc/net/mpa_stat
}

# unaligned_by CAUSE: the number of unaligned segments in events with this cause
unaligned_by() {
	awk -v cause="cause=$1" '
		$NF == cause {
			sub(/.* unaligned=/, "")
			sum += $1
		}
		END { print sum + 0 }' $tracing/trace
}

# transfer LENGTHS: send records from alpha to beta and back
transfer() {
	local fd server rc=0

	exec {fd}< <(exec ip netns exec beta "$bin/mpa_transfer" listen \
		     10.5.4.2 $port 1 "$1")
	server=$!
	read -r -u "$fd" _
	: >$tracing/trace
	ip netns exec alpha "$bin/mpa_transfer" connect 10.5.4.2 $port 1 \
		"$1" || rc=$?
	[[ $rc -eq 0 ]] || kill $server 2>/dev/null
	cat <&"$fd"
	wait $server || rc=$?
	port=$((port + 1))
	return $rc
}

fits() {
	transfer 1-1400,1400x100 || return
	if grep -q mpa_unaligned: $tracing/trace; then
		grep -m 5 mpa_unaligned: $tracing/trace
		return 1
	fi
	[[ $(counted MpaTxSegsAligned) -gt 0 ]]
}

# Unaligned: all segments of an FPDU except the first. Beta sends the same back.
oversized() {
	local before sum lines counters

	before=$(counted MpaTxSegsOversized)
	transfer 5000x20 || return
	counters=$(($(counted MpaTxSegsOversized) - before))
	sum=$(unaligned_by oversized)
	lines=$(grep -c mpa_unaligned: $tracing/trace)
	echo "counted $counters, the events of both ends report $sum"
	grep mpa_unaligned: $tracing/trace | head -n 5
	[[ $counters -ge 60 && $sum -eq $((2 * counters)) && $lines -ge 20 ]] &&
		! grep mpa_unaligned: $tracing/trace | grep -v "cause=oversized"
}

tap_run "silent_while_all_fits" fits
tap_run "oversized_records_are_reported" oversized
tap_end
