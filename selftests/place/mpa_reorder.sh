#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Records out of order (MPA_PLACE). The network loses, reorders and duplicates packets
# and changes its MTU, and receive buffers are so small that TCP drops queued octets.
# The sender uses mpa, or writes FPDUs to plain TCP; or a proxy changes the
# segmentation. mpa_reorder checks that each record is received exactly once, in order
# or out of order.
#
#   MPA_REORDER_TIMES		transfers, default 21: each path with each sender
#   MPA_REORDER_SECONDS		run for this time, or until one fails
#   MPA_REORDER_EACH		milliseconds of sending, default 1500
#   MPA_REORDER_RATE		of the wire, default 8mbit
#   MPA_REORDER_SEED		the first transfer's number, default 1
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
port=5046
times=${MPA_REORDER_TIMES:-21}
seconds=${MPA_REORDER_SECONDS:-0}
each=${MPA_REORDER_EACH:-1500}
rate=${MPA_REORDER_RATE:-8mbit}
seed=${MPA_REORDER_SEED:-1}

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v tc ip ethtool >/dev/null || skip_all "needs ethtool and iproute2"
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

trap cleanup EXIT

# counter NAME: one of TCP's counters in beta
counter() {
	# shellcheck disable=SC2016 # for awk
	ip netns exec beta awk -v name="$1" '
		/^TcpExt:/ && !n { n = split($0, names); next }
		/^TcpExt:/ {
			for (i = 2; i <= n; i++)
				if (names[i] == name)
					print $i
		}' /proc/net/netstat
}

# fresh_hosts LONG: set up new hosts. If LONG is 1, TCP passes several segments to IP at
# a time
fresh_hosts() {
	local on=off

	[[ $1 -eq 0 ]] || on=on
	hosts_down
	hosts_up 1500
	ip -n beta link set vb mtu 3000
	ip netns exec alpha ethtool -K va tso $on gso $on >/dev/null
	ip netns exec beta ethtool -K vb gro $on >/dev/null
}

# background COMMAND...: return once COMMAND has printed its first line, "listening".
# $said is a descriptor of its further output, $pid its process
background() {
	local line

	exec {said}< <(exec timeout 300 "$@" 2>&1)
	pid=$!
	until read -r -u "$said" line && [[ $line = listening ]]; do
		kill -0 "$pid" || return 1
	done
}

# Change alpha's MTU every 100 ms.
change_mtu() {
	local sizes=(1500 900 1280 576 1499 1100) i=0

	while sleep 0.1; do
		ip -n alpha link set va mtu "${sizes[i++ % 6]}"
	done
}

# transfer SENDER READER LEAST: run a transfer, and print the ends' output
transfer() {
	local to=10.5.4.2 at=$port how=$1 pids=() saids=() rc=0 one

	background ip netns exec beta "$bin/mpa_reorder" 10.5.4.2 $port \
		"$seed" "$2" "$3" || return
	pids+=("$pid")
	saids+=("$said")
	if [[ $how = proxy ]]; then
		background ip netns exec alpha "$bin/mpa_reorder_peer" proxy \
			127.0.0.1 $((port + 1)) "$seed" $to $at || return
		pids+=("$pid")
		saids+=("$said")
		to=127.0.0.1 at=$((port + 1)) how=kernel
	fi
	timeout 300 ip netns exec alpha "$bin/mpa_reorder_peer" "$how" $to $at \
		"$seed" "$each" || rc=1
	for one in "${!pids[@]}"; do
		# A process whose peer has failed would wait for a long time.
		[[ $rc -eq 0 ]] || timeout 2 tail --pid "${pids[one]}" -f /dev/null ||
			kill "${pids[one]}" 2>/dev/null || true
		wait "${pids[one]}" || rc=1
		cat <&"${saids[one]}"
	done
	for one in "${saids[@]}"; do
		exec {one}<&-
	done
	return $rc
}

# Each path has a name; the number of 1000 records that must arrive out of order;
# netem's words for packets to the receiver; and further words for the reader.
ways=(
	"loss 20 loss 2%"
	"reorder 100 reorder 80% 50%"
	"duplicate 20 duplicate 10% loss 1%"
	"bursts 50 loss 0.5% 25% reorder 95%"
	"everything 20 loss 1% duplicate 2% reorder 90% corrupt 0.5%"
	"pruned 0 loss 2% +slow+shrink"
	"mtu 10 loss 1%"
)
readers=(once poll edge+batch mmsg+short batch+slow edge+toggle poll+batch+peek
	 edge+short+batch mmsg+edge batch+toggle edge edge+mmsg+peek+slow)

# enough LEAST SEEN: SEEN of 1000 records arrived out of order
enough() {
	local records placed

	records=$(sed -n 's/^\([0-9]*\) records,.*/\1/p' <<<"$2")
	placed=$(sed -n 's/^\([0-9]*\) placed.*/\1/p' <<<"$2")
	((placed * 1000 >= $1 * records))
}

# one SENDER READER WAY-OF-WAYS...: run a transfer, and print its result
one() {
	local sender=$1 reader=$2 name=$3 least=$4 begin rc=0 word netem=() mtu='' seen
	local unordered

	shift 4
	for word; do
		case $word in
		+*) reader+=$word ;;
		*) netem+=("$word") ;;
		esac
	done
	# The option may have been off whenever something was missing.
	[[ $reader != *toggle* ]] || least=0
	# When a slow reader reads again, nothing may be missing any longer.
	[[ $reader != *slow* ]] || least=0
	fresh_hosts $((seed % 2))
	tc -n alpha qdisc add dev va root netem delay 10ms rate "$rate" limit 1000 \
		"${netem[@]}" || return
	tc -n beta qdisc add dev vb root netem delay 10ms || return
	[[ $name != mtu ]] || { change_mtu & mtu=$!; }
	begin=$SECONDS
	seen=$(transfer "$sender" "$reader" 0 2>&1) || rc=$?
	unordered=$(counter TCPOFOQueue)
	# A short transfer may by chance arrive in order.
	[[ $rc -ne 0 || $unordered -lt 100 ]] || enough "$least" "$seen" || {
		rc=1
		seen+=$'\n'"fewer than $least of 1000 were placed"
	}
	[[ $rc -ne 0 ]] || connections_end
	[[ -z $mtu ]] || { kill "$mtu"; wait "$mtu" || true; } 2>/dev/null
	seen+="; $unordered segments out of order,"
	seen+=" $(counter OfoPruned) prunings, $((SECONDS - begin)) s"
	tap_ok "$rc" "${name}_${sender}_$reader" "$seen"
	[[ $rc -ne 0 ]] || echo "# seed $seed: ${seen//$'\n'/; }"
}

# Run each path with each sender, and each time with another reader. A seed always means
# the same transfer, whatever the first seed was.
senders=(kernel hand proxy)
round=$((${#ways[@]} * ${#senders[@]}))
while :; do
	n=$((seed - 1))
	# shellcheck disable=SC2086 # words
	one "${senders[n % 3]}" "${readers[(n + n / round) % ${#readers[@]}]}" \
		${ways[n / 3 % ${#ways[@]}]}
	seed=$((seed + 1))
	((tap_n < times || (SECONDS < seconds && tap_failed == 0))) || break
done
tap_end
