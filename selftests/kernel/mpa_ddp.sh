#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# RDMA between two kernel iWARP ends (samples/mpa_ddp), run by mpa_rdma:
#
#   netns alpha, client                netns beta, server
#   10.5.4.1  va ------------------- vb  10.5.4.2
#
# Transfer a large memory region, with losses; the octets must be equal. With markers,
# many octets must be placed before earlier ones arrive; without markers, none. Then run
# rping with mpa_rping, kernel against user space.
#
#   MPA_RDMA_OCTETS   size of the region, default 64 MiB, less on a debug kernel
#   MPA_RDMA_LOSS     percentage of lost segments, default 1
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
octets=$((64 << 20))
[[ ${MPA_KERNEL-} != debug* ]] || octets=$((8 << 20))
octets=${MPA_RDMA_OCTETS:-$octets}
loss=${MPA_RDMA_LOSS:-1}
port=7000

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v tc ip ethtool >/dev/null || skip_all "needs ethtool and iproute2"
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
ko=$bin/../${MPA_KERNEL-none}/samples/mpa_ddp/mpa_ddp.ko
[[ -e $ko ]] || skip_all "needs mpa_ddp.ko: selftests/kmod/build KERNEL"
[[ -d /sys/module/mpa_ddp ]] || insmod "$ko"

dir=$(mktemp -d)

trap cleanup EXIT
hosts_down
hosts_up 1500

# network LOSS: a delay of a millisecond each way
network() {
	tc -n alpha qdisc replace dev va root netem delay 1ms limit 4000 loss "$1%"
	tc -n beta qdisc replace dev vb root netem delay 1ms limit 4000
}

# between CLIENT SERVER: two commands; both must succeed. The server prints
# "listening" first.
between() {
	local rc=0

	# Remove the previous server's output: it contains "listening", too.
	: >"$dir/server"
	# shellcheck disable=SC2086 # words
	timeout 900 ip netns exec beta $2 >"$dir/server" 2>&1 &
	server=$!
	until grep -q listening "$dir/server"; do
		kill -0 "$server" || break
		sleep 0.01
	done
	# shellcheck disable=SC2086 # words
	timeout 900 ip netns exec alpha $1 >"$dir/client" 2>&1 || rc=$?
	wait "$server" || rc=$?
	sed 's/^/server: /' "$dir/server"
	sed 's/^/client: /' "$dir/client"
	return "$rc"
}

# memory MODE CLIENTS-ARGUMENTS SERVERS-ARGUMENTS
memory() {
	local at="-a 10.5.4.2 -p $port -S $octets -m $1"

	between "$bin/mpa_rdma -c $at $2" "$bin/mpa_rdma -s $at $3"
}

# The number of octets that the last server has placed out of order.
placed() {
	sed -n 's/.* tagged, \([0-9]*\) placed .*/\1/p' "$dir/server"
}

# With one segment of a hundred lost, and one millisecond until the next one fills
# that gap, some octets must be placed out of order.
placed_many() {
	memory "$1" "$2" "$3" || return
	[[ $(placed) -gt $((octets / 100)) ]] || {
		echo "fewer than one of 100 octets were placed out of order"
		return 1
	}
}

placed_none() {
	memory "$1" "$2" "$3" || return
	[[ $(placed) -eq 0 ]] || {
		echo "octets were placed out of order"
		return 1
	}
}

# rounds CLIENTS-ARGUMENTS SERVERS-ARGUMENTS
rounds() {
	local at="-a 10.5.4.2 -p $port -V"

	between "$bin/mpa_rping -c $at $1 -C 30 -S 1-1048576 --mixed 5" \
		"$bin/mpa_rping -s $at $2 -C 30"
}

# figures NAME COMMAND...: as a test, and print the server's figures
figures() {
	tap_run "$@"
	sed -n "s/^[0-9].* octets, /# $1: &/p" "$dir/server"
}

network "$loss"
figures write_without_placing placed_none write "" --markers
figures write_with_placing placed_many write "" "--markers --place"
figures read_without_placing placed_none read "" --markers
figures read_with_placing placed_many read "" "--markers --place"
octets=$((octets / 4))
figures write_without_markers placed_none write "" ""
figures send placed_none send "" "--markers --place"
tc -n alpha qdisc del dev va root
tc -n beta qdisc del dev vb root
for markers in "" --markers; do
	name=${markers/--/_}
	tap_run "kernel_and_kernel$name" rounds "--kernel $markers" \
		"--kernel $markers"
	tap_run "kernel_and_user$name" rounds "--kernel $markers" "$markers"
	tap_run "user_and_kernel$name" rounds "$markers" "--kernel $markers"
done
tap_run opens_with_write rounds "--kernel --rtr write" "--kernel --rtr write"
tap_run opens_with_read rounds "--kernel --rtr read" "--kernel --rtr read"
tap_run opens_with_fpdu rounds "--kernel --rtr fpdu" "--kernel --rtr fpdu"
tap_end
