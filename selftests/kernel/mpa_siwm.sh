#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# siw on mpa (siw/), with the programs of rdmacm-utils and perftest: both ends, and
# each of them with Linux's own siw at the other one. CRCs are on.
#
#   netns alpha                          netns beta
#   siwm                                 siwm; siw; siw that asks for peer-to-peer
#   10.5.4.1  va ------------------- vb  10.5.4.2
#
# Only on 6.1, for which scripts/siw builds siw: MPA_SIW says where. MPA_WIRE_DIR keeps
# the captures.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
siw=${MPA_SIW:-$here/../../build/siw}
siwm=${MPA_KO%/*}/siw/siw-mpa.ko

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v rping ib_write_bw rdma tcpdump ethtool ss >/dev/null ||
	skip_all "needs rdmacm-utils, perftest, iproute2, tcpdump and ethtool"
[[ -e $siwm ]] || skip_all "needs make siw KERNEL=6.1"
[[ -e $siw/siw/siw.ko ]] || skip_all "needs siw: scripts/siw build/siw siw siw-p2p"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

dir=$(mktemp -d)

cleanup() {
	jobs_end
	rdma link delete siwa 2>/dev/null || true
	rdma link delete siwb 2>/dev/null || true
	hosts_down
	rm -rf "$dir"
}
trap cleanup EXIT

within() {
	local until=$((SECONDS + $1))

	until "${@:2}"; do
		[[ $SECONDS -lt $until ]] || return
		sleep 0.05
	done
}

listens() {
	ip netns exec "$1" ss -Hltn "sport = :$2" | grep -q .
}

listens_not() {
	! listens "$@"
}

gone() {
	! kill -0 "$1" 2>/dev/null
}

# both PORT SERVER CLIENT: each is a host and a command. They are ended after a minute.
both() {
	local rc=0 said=0 server

	within 30 listens_not "${2%% *}" "$1" || {
		echo "somebody listens on port $1 still"
		return 1
	}
	# shellcheck disable=SC2086 # words
	timeout -k 5 90 ip netns exec $2 >"$dir/server" 2>&1 &
	server=$!
	until listens "${2%% *}" "$1"; do
		! gone $server || break
		sleep 0.05
	done
	# shellcheck disable=SC2086 # words
	timeout -k 5 60 ip netns exec $3 >"$dir/client" 2>&1 || rc=$?
	[[ $rc -eq 0 ]] || kill $server 2>/dev/null || true
	wait $server || said=$?
	sed 's/^/server: /' "$dir/server"
	sed 's/^/client: /' "$dir/client"
	echo "ended with $said and $rc"
	[[ $rc -eq 0 && $said -eq 0 ]]
}

# The device of each host, and its address
declare -A dev=([alpha]=siwa [beta]=siwb) address=([alpha]=10.5.4.1 [beta]=10.5.4.2)

# run NAME SERVERS-HOST CLIENTS-HOST
run() {
	local to=${address[$2]} server client

	case $1 in
	rping_*)
		both 7174 "$2 rping -s -a $to -C 10 -S ${1#*_}" \
			"$3 rping -c -a $to -C 10 -S ${1#*_} -V"
		;;
	rdma_server) both 7471 "$2 rdma_server" "$3 rdma_client -s $to" ;;
	ib_*_bw)
		server="$1 -R -d ${dev[$2]} -s 65536 -n 100"
		client="$1 -R -d ${dev[$3]} -s 65536 -n 100"
		both 18515 "$2 $server" "$3 $client $to"
		;;
	ib_*_lat)
		both 18515 "$2 $1 -R -d ${dev[$2]} -n 200" \
			"$3 $1 -R -d ${dev[$3]} -n 200 $to"
		;;
	ucmatose)
		both 7471 "$2 ucmatose -c 5 -C 20 -S 1000 -b $to" \
			"$3 ucmatose -c 5 -C 20 -S 1000 -b ${address[$3]} -s $to"
		;;
	rstream)
		both 7471 "$2 rstream -b $to -C 50 -S 65536" \
			"$3 rstream -b ${address[$3]} -s $to -C 50 -S 65536"
		;;
	esac
}

# Siw's responder sends its reply before it listens for FPDUs (siw_accept()), and is
# not told again of one that comes between, which is the RTR indication here. Once more.
run_again() {
	run "$@" && return
	echo "once more"
	run "$@"
}

# runs PREFIX SERVERS-HOST CLIENTS-HOST NAME...
runs() {
	local name how=run

	[[ $1 != *siw_s_server* ]] || how=run_again
	for name in "${@:4}"; do
		tap_run "$1_$name" $how "$name" "$2" "$3"
	done
}

# captured NAME COMMAND...
captured() {
	capture_start beta vb "$dir/$1.pcap" "tcp"
	"${@:2}"
	tap_run "$1_is_captured" capture_stop
	[[ -z ${MPA_WIRE_DIR-} ]] || mv "$dir/$1.pcap" "$MPA_WIRE_DIR"
}

# beta_is TYPE [MODULE]
beta_is() {
	ip netns exec beta rdma link delete siwb 2>/dev/null || true
	[[ -z ${2-} ]] || {
		[[ ! -d /sys/module/siw ]] || rmmod siw
		insmod "$siw/$2/siw.ko"
		# That has taken alpha's as well, if siw was unloaded: same driver.
		rdma link show siwa/1 >/dev/null 2>&1 ||
			ip netns exec alpha rdma link add siwa type siwm netdev va
	}
	ip netns exec beta rdma link add siwb type "$1" netdev vb
}

# A responder whose peer sends nothing, and has not asked for the peer-to-peer model, may
# send nothing (RFC 5044 section 7.1.2 rule 4): it gives up, and says so.
server_first_is_refused() {
	! run ib_write_lat alpha beta || {
		echo "expected: an error"
		return 1
	}
	dmesg | grep -q 'siwa: QP .* should ask for the peer-to-peer model'
}

# A link goes while connections are there, and programs have its device open.
link_is_deleted_under_rping() {
	local server client

	ip netns exec beta timeout 60 rping -s -a 10.5.4.2 >"$dir/server" 2>&1 &
	server=$!
	within 30 listens beta 7174
	ip netns exec alpha timeout 60 rping -c -a 10.5.4.2 -v >"$dir/client" 2>&1 &
	client=$!
	within 30 grep -q "ping data" "$dir/client"
	timeout 30 ip netns exec alpha rdma link delete siwa || return
	kill $client $server 2>/dev/null
	wait $client $server || true
	ip netns exec alpha rdma link add siwa type siwm netdev va
}

unloads() {
	ip netns exec alpha rdma link delete siwa &&
		within 10 rmmod siw_mpa
}

all=(rdma_server ib_send_bw ib_read_bw ib_send_lat rstream)
server_first=(ib_write_lat ucmatose)
judged=(rping_64 rping_1443 rping_4097 rping_65000 ib_write_bw)

ulimit -l unlimited
hosts_down
hosts_up 1500
modprobe -a rdma_cm rdma_ucm ib_uverbs
insmod "$siwm"
ip netns exec alpha rdma link add siwa type siwm netdev va
beta_is siwm
captured siwm runs both_ends beta alpha "${judged[@]}"
runs both_ends beta alpha "${all[@]}" "${server_first[@]}"
tap_run link_is_deleted_under_rping link_is_deleted_under_rping

beta_is siw siw
captured siwm-siw runs siw_s_server beta alpha "${judged[@]}"
runs siw_s_server beta alpha "${all[@]}" "${server_first[@]}"
captured siw-siwm runs siw_s_client alpha beta "${judged[@]}"
runs siw_s_client alpha beta "${all[@]}"
tap_run server_first_is_refused server_first_is_refused

beta_is siw siw-p2p
runs siw_s_client_peer_to_peer alpha beta "${server_first[@]}"
ip netns exec beta rdma link delete siwb
tap_run unloads unloads
tap_end
