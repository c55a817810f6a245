#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa_devices.sh [WIRE...]: records over drivers of real network devices. QEMU emulates
# two devices of each kind, and connects them (vm/run --wire). Each is in a network
# namespace of its own, so that packets leave the guest and come back. The tests run
# with and without offloads; then over a bad path, and while devices are reset, lose the
# carrier or lose their driver.
#
#   netns alpha                                  netns beta
#   10.5.4.1, fd05:44::1  va --- QEMU --- vb  10.5.4.2, fd05:44::2
#
# MPA_WIRES names the wires: QEMU captures the wire "e1000e" in e1000e.pcap. Each case
# writes to MPA_WIRE_DIR the arguments of the judge (tools/wire/judge), CASE.judge, and
# the sender's counters, CASE.json.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
dir=${MPA_WIRE_DIR:-}
octets=600000

# ---- the devices ----

# device N END: print the device's name, in this namespace, at that end of the Nth wire
device() {
	ip -br link | awk -v address="$(printf '52:54:00:44:%02x:%02x' "$1" "$2")" \
		'$3 == address { print $1 }'
}

# host N END: make that end of the Nth wire a host
host() {
	local name netns=alpha dev=va

	[[ $2 -eq 1 ]] || netns=beta dev=vb
	name=$(device "$1" "$2") && [[ $name ]] || return
	ip link set "$name" down
	ip link set "$name" netns $netns name $dev
	host_up $netns $dev "$2"
}

# ends_up N: make both ends of the Nth wire hosts
ends_up() {
	ip netns add alpha
	ip netns add beta
	host "$1" 1
	host "$1" 2
	wait_for alpha va carrier 1
	wait_for beta vb carrier 1
	for netns in alpha beta; do
		# With a short RTT TCP builds long packets: slow emulation must not make
		# the RTT look long.
		ip netns exec $netns sysctl -qw net.ipv4.tcp_tso_rtt_log=20 \
			net.ipv4.tcp_no_metrics_save=1
	done
	# TCP cuts a tail loss probe at the window's edge, and a late ACK causes a
	# probe.
	ip netns exec alpha sysctl -qw net.ipv4.tcp_early_retrans=0
	ip netns exec beta sysctl -qw \
		"net.ipv4.tcp_rmem=4096 $((8 * octets)) $((8 * octets))"
}

# wait_for NETNS DEVICE FILE VALUE: wait until the device reports the value
wait_for() {
	# shellcheck disable=SC2016 # another shell's
	ip netns exec "$1" sh -c \
		'until [ "$(cat "/sys/class/net/$1/$2")" = "$3" ]; do sleep 0.02; done' \
		sh "${@:2}"
}

# ---- events during a transfer: in alpha, as the sender's hook ----

# until_missed: wait until TCP retransmits or probes: packets are lost, or have no route
until_missed() {
	local seen

	until seen=$(ip netns exec alpha ss -Htno state established) &&
	      grep -qE 'timer:\((on|persist),[^,]*,[1-9]' <<<"$seen"; do
		[[ $seen ]] || return
		sleep 0.05
	done
}

# slowly: delay packets, so that some are in flight when the hook runs
slowly() {
	tc -n alpha qdisc replace dev va root netem rate 1mbit limit 1000
	tc -n beta qdisc replace dev vb root netem rate 1mbit limit 1000
}

# monitor COMMAND: send it to QEMU's monitor
monitor() {
	local port

	port=$(grep -lx monitor /sys/class/virtio-ports/*/name | cut -d / -f 5)
	echo "$1" >"/dev/$port"
}

# event WHAT N: to alpha's device first, then to beta's. An odd N takes something away,
# and the next N restores it; packets sent between them are lost.
event() {
	local end=$((1 + ($2 - 1) / 2 % 2)) netns=alpha dev=va path
	local mtus=(1500 576 9000 1280)

	[[ $1 != rings ]] || end=$((2 - $2 % 2))
	[[ $end -eq 1 ]] || netns=beta dev=vb
	case $1-$(($2 % 2)) in
	carrier-1)
		monitor "set_link wire$MPA_WIRE.$end off"
		wait_for $netns $dev carrier 0
		;;
	carrier-0)
		until_missed
		monitor "set_link wire$MPA_WIRE.$end on"
		wait_for $netns $dev carrier 1
		;;
	down-1)
		ip -n $netns link set $dev down
		;;
	down-0)
		until_missed
		ip -n $netns link set $dev up
		;;
	driver-1)
		path=$(ip netns exec $netns readlink -f /sys/class/net/$dev/device)
		readlink -f "$path/driver" >"$MPA_WORK/driver"
		basename "$path" | tee "$MPA_WORK/device" >"$path/driver/unbind"
		;;
	driver-0)
		until_missed
		cat "$MPA_WORK/device" >"$(<"$MPA_WORK/driver")/bind"
		rm "$MPA_WORK/device"
		# The driver finds devices in the first namespace only.
		nsenter -t 1 -n "${BASH_SOURCE[0]}" --host "$MPA_WIRE" $end
		;;
	rings-*)
		ip netns exec $netns ethtool -G $dev rx $((128 << ($2 - 1) / 2 % 2))
		;;
	mtu-*)
		ip -n alpha link set va mtu "${mtus[$2 % 4]}"
		;;
	pmtu-*)
		ip -n beta link set vg mtu "${mtus[$2 % 4]}"
		ip -n alpha route flush cache
		;;
	esac
}

case ${1:-} in
--host) host "$2" "$3"; exit ;;
--event) event "$2" "$3"; exit ;;
esac

read -r -a wires <<<"${MPA_WIRES:-}"
[[ ${#wires[@]} -gt 0 ]] || skip_all "needs a guest with wires: vm/run --wire"
command -v ethtool ip tc >/dev/null || skip_all "needs ethtool and iproute2"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
# A guest loads no modules on demand.
modprobe -qa sch_netem ifb act_mirred cls_matchall || true
sort -u /sys/bus/{pci,virtio}/devices/*/modalias | xargs -n 1 modprobe -q || true

# ---- traffic ----

cleanup() {
	local pids

	pids=$(jobs -p)
	# shellcheck disable=SC2086 # one word a process
	[[ -z $pids ]] || kill $pids 2>/dev/null || true
	ip netns del gamma 2>/dev/null || true
	hosts_down
	rm -rf "$MPA_WORK"
}
trap cleanup EXIT
MPA_WORK=$(mktemp -d)
export MPA_WORK
# The send buffer must hold all octets between two hooks.
sysctl -qw net.core.wmem_max=$((2 * octets))

# ends: run $receiver and $sender. The receiver prints "listening" before the sender
# begins
ends() {
	local fd pid line rc=0 said=0

	exec {fd}< <(exec timeout 600 ip netns exec "${to:-beta}" "${receiver[@]}" 2>&1)
	pid=$!
	until read -r -u "$fd" line && [[ $line = listening ]]; do
		kill -0 $pid || return 1
	done
	timeout 600 ip netns exec alpha "${sender[@]}" || rc=$?
	[[ $rc -eq 0 ]] || kill $pid 2>/dev/null || true
	wait $pid || said=$?
	cat <&"$fd"
	exec {fd}<&-
	[[ $rc -eq 0 && $said -eq 0 ]] || echo "ended with $rc and $said"
	[[ $rc -eq 0 && $said -eq 0 ]]
}

port=6000

# judged JUDGE: write the judge's arguments for the last connection
judged() {
	[[ ! -e $dir/$wire.pcap ]] ||
		echo "$1 --no-tshark --port $port $wire.pcap" >"$dir/$case_name.judge"
}

# both_ways NAME ADDRESS MARKERS: send records of many lengths in both directions
both_ways() {
	local lengths=1-64,480-530,1400-1470,8940-8990,20000x3,64760-64768

	case_name=${wire}_$1
	port=$((port + 1))
	receiver=("$bin/mpa_transfer" listen "$2" "$port" "$3" "$lengths")
	sender=("$bin/mpa_transfer" connect "$2" "$port" "$3" "$lengths")
	tap_run "$case_name" ends
	judged ""
}

# stream ADDRESS [NAME=VALUE]...: send a stream with mpa_align
stream() {
	local address=$1

	shift
	receiver=("$bin/mpa_align" receive "$address" "$port" "octets=$octets" "$@")
	sender=("$bin/mpa_align" send "$address" "$port" "octets=$octets" "$@")
	ends
}

# counter NAME: a counter of the last stream's sender
counter() {
	sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$dir/$case_name.json"
}

table=()

# streams NAME JUDGE ADDRESS [NAME=VALUE]...: a test with a stream. JUDGE: options for
# the judge
streams() {
	local seen rc=0 judge=$2

	case_name=${wire}_$1
	port=$((port + 1))
	seen=$(stream "${@:3}" 2>&1) || rc=$?
	grep '^{' <<<"$seen" >"$dir/$case_name.json" || rc=1
	[[ $judge != *--aligned* || $rc -ne 0 ]] || [[ $(counter tx_segs_unaligned) = 0 ]] || rc=1
	tap_ok $rc "$case_name" "$seen"
	[[ $rc -eq 0 ]] || return
	table+=("$(printf '%-50s %8d %11d %8d' "$case_name" \
		"$(counter tx_segs_aligned)" "$(counter tx_segs_unaligned)" \
		"$(counter tx_packets)")")
	judged "${judge//COUNTED/--counters $case_name.json}"
}

# several_a_packet: whether TCP has passed several segments at a time in the last stream
several_a_packet() {
	local segments packets

	segments=$(counter tx_segs_aligned) packets=$(counter tx_packets)
	tap_ok $((segments <= packets)) "${case_name}_several_a_packet" \
		"expected fewer packets than segments, seen $packets and $segments"
}

# placed NAME: a receiver with MPA_PLACE; some packets to it are lost
placed() {
	local seen rc=0

	port=$((port + 1))
	receiver=("$bin/mpa_reorder" 10.5.4.2 "$port" 5044 poll 0)
	sender=("$bin/mpa_reorder_peer" kernel 10.5.4.2 "$port" 5044 1500)
	seen=$(ends 2>&1) || rc=$?
	grep -qE '^[1-9][0-9]* placed' <<<"$seen" || rc=1
	tap_ok $rc "${wire}_$1" "$seen"
}

# lossy on|off: packets are lost after QEMU's capture
lossy() {
	if [[ $1 = on ]]; then
		ip -n beta link add ifb0 type ifb
		ip -n beta link set ifb0 up
		tc -n beta qdisc add dev vb ingress
		tc -n beta filter add dev vb parent ffff: matchall action mirred \
			egress redirect dev ifb0
		tc -n beta qdisc add dev ifb0 root netem loss 2% delay 10ms
	else
		tc -n beta qdisc del dev vb ingress
		ip -n beta link del ifb0
	fi
}

# features: print the features that are on in both devices, and can be turned off
features() {
	ethtool=(ip netns exec alpha ethtool -k va)
	"${ethtool[@]}" | sed -n 's/: on$//p' | xargs
}

# without FEATURE...: turn these features off in both devices, if they have them
without() {
	local feature

	for feature; do
		ip netns exec alpha ethtool -K va "$feature" off >/dev/null 2>&1 || true
		ip netns exec beta ethtool -K vb "$feature" off >/dev/null 2>&1 || true
	done
}

# joins: whether beta's device merges segments (LRO)
joins() {
	ip netns exec beta ethtool -k vb |
		grep -qE '^(large-receive-offload|rx-gro-hw): on'
}

# router_up: make beta a router between alpha and gamma
router_up() {
	# Do this late: a router has no LRO.
	ip netns exec beta sysctl -qw net.ipv4.ip_forward=1
	ip netns add gamma
	ip link add vg netns beta mtu 1500 type veth peer name vr netns gamma mtu 1500
	ip -n beta addr add 10.5.9.1/24 dev vg
	ip -n beta link set vg up
	ip -n gamma addr add 10.5.9.2/24 dev vr
	ip -n gamma link set vr up
	ip -n gamma link set lo up
	ip -n gamma route add default via 10.5.9.1
	ip -n alpha route add 10.5.9.0/24 via 10.5.4.2
}

# offloads NAME COUNTED: run the tests that depend on offloads
offloads() {
	local name=$1 counted=$2

	both_ways "${name}_records_both_ways" 10.5.4.2 0
	both_ways "${name}_records_both_ways_ipv6_markers" fd05:44::2 1
	streams "${name}_full_segments" "--aligned $counted" 10.5.4.2 segment=0 &&
		[[ $name != plain ]] && several_a_packet
	streams "${name}_records_of_mixed_sizes_ipv6_markers" "--aligned $counted" \
		fd05:44::2 call=0 more=2 markers=1 || true
	lossy on
	streams "${name}_loss" "--aligned $counted" 10.5.4.2 segment=0 || true
	placed "${name}_records_out_of_order"
	lossy off
}

# bind: bind the driver to the device again, if it was unbound
bind() {
	[[ ! -e $MPA_WORK/device ]] ||
		cat "$MPA_WORK/device" >"$(<"$MPA_WORK/driver")/bind" || true
	rm -f "$MPA_WORK/device"
}

# under_way NAME EVENT JUDGE [NAME=VALUE]...: send a stream during which EVENT happens.
# If it fails, set up the hosts again
under_way() {
	streams "$1" "$3" "${@:4}" segment=0 hook=$((octets / 5)) \
		sndbuf=$((2 * octets)) run="${BASH_SOURCE[0]} --event $2 \$N" || {
		bind
		hosts_down
		ends_up "$index"
	}
}

# The sender's device is gone for good: TCP reports an error, or "Success" if a send was
# cut short
gone() {
	local seen rc=0

	ip netns exec alpha sysctl -qw net.ipv4.tcp_retries2=3
	# The receiver's FIN is never acknowledged, so its socket holds the module.
	ip netns exec beta sysctl -qw net.ipv4.tcp_orphan_retries=1
	port=$((port + 1))
	seen=$(stream 10.5.4.2 segment=0 sndbuf=65536 hook=$((octets / 2)) \
		run="${BASH_SOURCE[0]} --event driver \$N" 2>&1) && rc=1
	grep -qE '^mpa_align: (send|no end).*\((Success|Connection timed out|No route to host|Network is unreachable)\)' \
		<<<"$seen" || rc=1
	tap_ok $rc "${wire}_device_gone_for_good_ends_the_connection" "$seen"
	bind
}

index=-1
for wire in "${wires[@]}"; do
	index=$((index + 1))
	[[ $# -eq 0 || " $* " = *" $wire "* ]] || continue
	export MPA_WIRE=$index
	ends_up $index
	echo "# $wire, $(ip netns exec alpha ethtool -i va | sed -n 's/^driver: //p'):" \
		"$(features)"
	if joins; then
		offloads defaults ""
		without lro rx-gro-hw
		offloads defaults_without_lro COUNTED
	else
		offloads defaults COUNTED
	fi

	under_way carrier_lost carrier --aligned 10.5.4.2
	under_way down_and_up down --aligned 10.5.4.2
	under_way driver_unbound driver --aligned 10.5.4.2
	slowly
	under_way rings_changed rings --aligned 10.5.4.2
	under_way mtu_changed mtu "" 10.5.4.2
	router_up
	to=gamma under_way pmtu_by_icmp pmtu "" 10.5.9.2
	ip netns del gamma
	hosts_down

	ends_up $index
	without tx rx sg tso gso gro lro rx-gro-hw
	offloads plain COUNTED
	gone
	hosts_down
done

printf '# %-50s %8s %11s %8s\n' case aligned misaligned packets
printf '# %s\n' "${table[@]}"
tap_end
