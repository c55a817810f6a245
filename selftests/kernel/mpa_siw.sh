#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# iWARP ends over mpa (mpa_rping), in user space and in the kernel (samples/mpa_ddp),
# against siw, Linux's own, with the programs of rdmacm-utils. With markers, which siw
# lacks, mpa_rping runs against itself.
#
#   netns alpha                          netns beta
#   mpa_rping, mpa                       rping, siw
#   10.5.4.1  va ------------------- vb  10.5.4.2
#
# Only on 6.1, for which scripts/siw builds siw; MPA_SIW is its path. MPA_SIW_ROUNDS:
# the number of rounds with mixed sizes each way, default 300. MPA_WIRE_DIR keeps the
# captures, and the Terminates expected for bad input.
#
# On a busy machine siw once sent an FPDU whose CRC covered the payload twice. This end
# then sends Terminate 2002, and the capture shows the error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
siw=${MPA_SIW:-$here/../../build/siw}
rounds=${MPA_SIW_ROUNDS:-300}
port=7000

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v rping rdma_server rdma tcpdump ethtool ss >/dev/null ||
	skip_all "needs rdmacm-utils, iproute2, tcpdump and ethtool"
[[ -e $siw/siw/siw.ko ]] || skip_all "needs siw: scripts/siw build/siw siw siw-p2p"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

dir=$(mktemp -d)

trap cleanup EXIT
hosts_down
hosts_up 1500

# use_siw WHICH: siw or siw-p2p. No connection may be open, or this would hang.
use_siw() {
	if [[ -d /sys/module/siw ]]; then
		ip netns exec beta rdma link delete siwb
		rmmod siw
	fi
	modprobe -a rdma_cm rdma_ucm ib_uverbs
	insmod "$siw/$1/siw.ko"
	ip netns exec beta rdma link add siwb type siw netdev vb
}

listens() {
	ip netns exec "$1" ss -Hltn "sport = :$port" | grep -q .
}

# within SECONDS COMMAND...: wait until COMMAND succeeds
within() {
	local until=$((SECONDS + $1))

	until "${@:2}"; do
		[[ $SECONDS -lt $until ]] || return
		sleep 0.01
	done
}

listens_not() {
	! listens "$1"
}

# serve HOST COMMAND...: start a server, and wait until it listens on $port, a free port
serve() {
	within 10 listens_not "$1" || {
		echo "somebody listens on port $port: a server that cannot be ended?"
		return 1
	}
	timeout -k 5 900 ip netns exec "$@" >"$dir/server" 2>&1 &
	server=$!
	until listens "$1"; do
		kill -0 "$server" 2>/dev/null || break
		sleep 0.01
	done
}

server_gone() {
	! kill -0 "$server" 2>/dev/null
}

# After the client has ended, wait for the server, and return its status. If it runs for
# another minute, show where it waits, end it, and return timeout's status.
server_ended() {
	local task

	within 60 server_gone || {
		echo "the server is still there 60 s after its client ended"
		for task in alpha beta; do
			ip netns exec "$task" ss -tanpe
		done
		for task in $(ip netns pids alpha) $(ip netns pids beta); do
			tail -v -n +1 /proc/"$task"/{comm,task/*/stack}
		done
		# timeout forwards the signal, and sends SIGKILL 5 s later.
		kill "$server"
		within 10 server_gone
		return 124
	}
	wait "$server"
}

# bad_end STATUS: whether a process has timed out, or a signal has ended it
bad_end() {
	[[ $1 =~ ^(124|134|137|139|143)$ ]]
}

# client PATTERN HOST COMMAND...: run a client of the server. Both must end, without an
# error unless $fails is set, and one output must match PATTERN.
client() {
	local rc=0 said=0

	timeout 900 ip netns exec "${@:2}" >"$dir/client" 2>&1 || rc=$?
	server_ended || said=$?
	sed -i 's/^/server: /' "$dir/server"
	sed -i 's/^/client: /' "$dir/client"
	cat "$dir/server" "$dir/client"
	echo "ended with $said and $rc"
	! bad_end $rc && ! bad_end $said || return
	grep -qE -e "$1" "$dir/server" "$dir/client" || {
		echo "expected: $1"
		return 1
	}
	[[ -n ${fails-} ]] || [[ $rc -eq 0 && $said -eq 0 ]]
}

# Siw's responder sends its reply before it listens for FPDUs (siw_accept()). It gets no
# notification of an FPDU that arrives in between, and waits for another. On a busy
# machine this happens about once in some hundred connections. After this end gives up,
# rping gets its disconnect event, but often not the completion that it waits for.
siw_has_missed_it() {
	grep -qE '(round 0: no Send|neither): Resource temporarily unavailable' \
		"$dir/client"
}

# both PATTERN SERVER CLIENT: run both, each a host and a command
both() {
	local rc=0

	# shellcheck disable=SC2086 # words
	serve $2 || return
	# shellcheck disable=SC2086 # words
	client "$1" $3 || rc=$?
	if [[ $rc -ne 0 && $2 = "beta r"* ]] && siw_has_missed_it; then
		echo "siw has missed the first FPDU; once more"
		rc=0
		# shellcheck disable=SC2086 # words
		serve $2 || return
		# shellcheck disable=SC2086 # words
		client "$1" $3 || rc=$?
	fi
	return $rc
}

# to_siw PATTERN ARGUMENTS: this end is the client
to_siw() {
	both "$1" "beta rping -s -a 10.5.4.2 -p $port -S 65535" \
		"alpha $bin/mpa_rping -c -a 10.5.4.2 -p $port -V $2"
}

# from_siw PATTERN ARGUMENTS RPINGS-ARGUMENTS
from_siw() {
	both "$1" "alpha $bin/mpa_rping -s -a 10.5.4.1 -p $port -V $2" \
		"beta rping -c -a 10.5.4.1 -p $port -V $3"
}

# to_self PATTERN SERVERS-ARGUMENTS CLIENTS-ARGUMENTS
to_self() {
	both "$1" "beta $bin/mpa_rping -s -a 10.5.4.2 -p $port -V $2" \
		"alpha $bin/mpa_rping -c -a 10.5.4.2 -p $port -V $3"
}

# from_siw_mixed [ARGUMENTS]: mixed sizes; the last is rping's longest.
from_siw_mixed() {
	local sizes=(24 64 100 1000 1424 1425 1428 1429 1430 1442 1448 2884 4096 8191
		     10000 16384 20001 32768 65000 65535) each size n=0

	each=$(((rounds + ${#sizes[@]} - 1) / ${#sizes[@]}))
	for size in "${sizes[@]}"; do
		from_siw " $each rounds" "-C $each ${1-}" \
			"-C $each -S $size" || return
		n=$((n + each))
	done
	echo "$n rounds"
}

crc_optional() {
	ip netns exec alpha sysctl -qw net.mpa.crc_optional="$1"
	ip netns exec beta sysctl -qw net.mpa.crc_optional="$1"
}

# wire NAME: capture packets until the next call; without NAME: stop
wire() {
	[[ -z ${wire_name-} ]] || {
		tap_run "${wire_name}_is_captured" capture_stop
		[[ -z ${MPA_WIRE_DIR-} ]] ||
			mv "$dir/siw-$wire_name".* "$MPA_WIRE_DIR"
	}
	wire_name=${1-}
	[[ -z $wire_name ]] || capture_start alpha va \
		"$dir/siw-$wire_name.pcap" \
		"tcp port $port"
}

ordinary() {
	local mixed="-S 1-65535 --mixed"

	tap_run our_client_siw_s_server to_siw "revision 2 .* crc 11 markers 00" \
		"-C 20 $mixed 1"
	tap_run siw_s_client_our_server from_siw "revision 2 .* crc 11 markers 00" \
		"-C 20" "-C 20 -S 3000"
	tap_run kernel_s_client_siw_s_server to_siw \
		"revision 2 .* crc 11 markers 00" "-C 20 $mixed 1 --kernel"
	tap_run siw_s_client_kernel_s_server from_siw \
		"revision 2 .* crc 11 markers 00" "-C 20 --kernel" \
		"-C 20 -S 3000"
	crc_optional 1
	tap_run kernel_s_client_siw_s_server_no_crc to_siw "crc 00" \
		"-C 20 $mixed 2 --no-crc --kernel"
	tap_run siw_s_client_kernel_s_server_no_crc from_siw "crc 00" \
		"-C 20 --no-crc --kernel" "-C 20 -S 3000"
	tap_run our_client_siw_s_server_no_crc to_siw "crc 00" \
		"-C 20 $mixed 2 --no-crc"
	tap_run siw_s_client_our_server_no_crc from_siw "crc 00" \
		"-C 20 --no-crc" "-C 20 -S 3000"
	tap_run crc_if_our_client_alone_wants_it to_siw "crc 11" "-C 3"
	crc_optional 0
	tap_run crc_if_no_crc_is_not_allowed to_siw "crc 11" "-C 3 --no-crc"

	# Siw derives its reply's values from these, and they are printed after "peer".
	tap_run ird_and_ord_as_asked to_siw "ird 1 ord 1 peer 1 1 " "-C 3"
	tap_run ird_above_ord to_siw "ird 5 ord 3 peer 3 5 " \
		"-C 3 --ird 5 --ord 3"
	tap_run ord_beyond_siw_s_ird to_siw "ird 128 ord 128 peer 128 128 " \
		"-C 3 --ird 128 --ord 1000"
	tap_run ird_beyond_siw_s_ord to_siw "ird 1000 ord 4 peer 4 128 " \
		"-C 3 --ird 1000 --ord 4"
	tap_run our_reply_s_ord_is_siw_s_ird from_siw "ird 7 ord 1 peer 1 1 " \
		"-C 3 --ird 7 --ord 9" "-C 3"

	tap_run rdma_server_revision_1 both "revision 1 .* crc 11" \
		"beta rdma_server -p $port" \
		"alpha $bin/mpa_rping -c -a 10.5.4.2 -p $port --exchange --revision 1"
	tap_run rdma_server_revision_2 both "revision 2 .* crc 11" \
		"beta rdma_server -p $port" \
		"alpha $bin/mpa_rping -c -a 10.5.4.2 -p $port --exchange"
	tap_run rdma_client both "revision 2 .* crc 11" \
		"alpha $bin/mpa_rping -s -a 10.5.4.1 -p $port --exchange" \
		"beta rdma_client -s 10.5.4.1 -p $port"
}

# There is no zero-length FPDU: siw would take it for a Send's header. And if siw's
# responder gets a Terminate while it waits for its indication, the kernel's iw_cm hits
# a BUG().
peer_to_peer() {
	tap_run kernel_s_client_opens_with_write to_siw "rtr 80 .* p2p 1" \
		"-C 3 --rtr write --kernel"
	tap_run kernel_s_client_opens_with_read to_siw "rtr 100 .* p2p 1" \
		"-C 3 --rtr read --kernel"
	tap_run our_client_opens_with_write to_siw "rtr 80 .* p2p 1" \
		"-C 3 --rtr write"
	tap_run our_client_opens_with_read to_siw "rtr 100 .* p2p 1" \
		"-C 3 --rtr read"
	tap_run siw_chooses_write to_siw "rtr 80 .* p2p 1" \
		"-C 3 --rtr write --rtr read"
	use_siw siw-p2p
	tap_run siw_opens_with_write from_siw "p2p 1 written 1 served 0" \
		"-C 3" "-C 3"
	tap_run siw_opens_with_write_to_kernel from_siw \
		"p2p 1 written 1 served 0" "-C 3 --kernel" "-C 3"
	tap_run siw_opens_with_read_to_kernel from_siw \
		"p2p 1 written 0 served 1" "-C 3 --rtr read --kernel" "-C 3"
	tap_run siw_opens_with_read from_siw "p2p 1 written 0 served 1" \
		"-C 3 --rtr read" "-C 3"
	use_siw siw
}

# Siw does not support markers. Its reply is a rejection without a reason.
refused_once() {
	local rc=0

	serve beta rping -s -a 10.5.4.2 -p $port || return
	ip netns exec alpha "$bin/mpa_rping" -c -a 10.5.4.2 -p $port --markers \
		--refused || rc=$?
	client "revision 2" alpha "$bin/mpa_rping" -c -a 10.5.4.2 -p $port -V -C 3 &&
		[[ $rc -eq 0 ]]
}

refused() {
	refused_once && return
	siw_has_missed_it && refused_once
}

refusals() {
	local fails

	tap_run siw_refuses_markers refused
	fails=1
	tap_run siw_refuses_a_reply_with_markers from_siw \
		"RDMA_CM_EVENT_REJECTED, error -111" "-C 1 --markers" "-C 1"
}

# mistake NAME TERMINATE: this end makes a mistake, and siw prints the Terminate. On a
# little-endian machine siw swaps the first two fields, layer and type: either order is
# accepted.
mistake() {
	local fails=1

	both ": received ($2|${2:1:1}${2:0:1}${2:2})\$" \
		"beta rping -s -a 10.5.4.2 -p $port" \
		"alpha $bin/mpa_siw_bad 10.5.4.2 $port $1"
}

# lie NAME TERMINATE: make siw send a request that this end refuses
lie() {
	local fails=1

	both ": sent $2\$" "beta rping -s -a 10.5.4.2 -p $port -S 64" \
		"alpha $bin/mpa_siw_bad 10.5.4.2 $port $1" || return
	echo "$2" >>"$dir/siw-bad.terminates"
}

bad() {
	local row

	for row in "ddp_version 1206" "rdmap_version 0205" "opcode 0206" \
		"queue 1201" "msn 1203" "mo 1204" "long 1202" "short 2003" \
		"write 1100" "read 0100" "response 1000"; do
		# shellcheck disable=SC2086 # two words
		tap_run "siw_gets_terminate_of_${row% *}" mistake $row
	done
	for row in "source 0100" "short_source 0101" "closed_source 0102" \
		"short_sink 1101" "closed_sink 1100"; do
		# shellcheck disable=SC2086 # two words
		tap_run "siw_wants_${row% *}" lie $row
	done
}

# Test markers between two ends of our own, as siw has none.
ours() {
	local row client server crc kind mixed="-S 1-1048576 --mixed"

	for row in "0 0 1" "0 1 1" "1 0 1" "1 1 1" "0 0 0" "0 1 0" "1 0 0" "1 1 0"; do
		read -r client server crc <<<"$row"
		crc_optional $((1 - crc))
		kind=$([[ $crc -eq 1 ]] || echo --no-crc)
		# The client's stream has the markers that the server requests.
		tap_run "ours_markers_$client${server}_crc_$crc" to_self \
			"client: .* crc $crc$crc markers $server$client " \
			"$kind $([[ $server -eq 0 ]] || echo --markers)" \
			"$kind $([[ $client -eq 0 ]] || echo --markers) -C 12 $mixed 7"
	done
	crc_optional 0
	tap_run ours_revision_1 to_self "revision 1 " "" \
		"--revision 1 -C 12 $mixed 8"
	for kind in write read fpdu; do
		tap_run "ours_opens_with_$kind" to_self "p2p 1" "--rtr $kind" \
			"--rtr $kind -C 3"
	done
}

use_siw siw
wire peer
ordinary
peer_to_peer
refusals
wire bad
bad
wire ours
ours
wire
tap_run "our_client_siw_s_server_${rounds}_rounds" to_siw "client: $rounds rounds" \
	"-C $rounds -S 1-65535 --mixed 4"
tap_run "siw_s_client_our_server_${rounds}_rounds" from_siw_mixed
tap_run "kernel_s_client_siw_s_server_${rounds}_rounds" to_siw \
	"client: $rounds rounds" "-C $rounds -S 1-65535 --mixed 6 --kernel"
tap_run "siw_s_client_kernel_s_server_${rounds}_rounds" from_siw_mixed --kernel
tap_end
