#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# siw on mpa (siw/), with the programs of rdmacm-utils and perftest: at both ends, and
# at each end with Linux's own siw at the other. CRCs are on.
#
#   netns alpha                          netns beta
#   siwm                                 siwm; siw; siw that asks for peer-to-peer
#   10.5.4.1  va ------------------- vb  10.5.4.2
#
# scripts/siw builds siw for 6.1 only; MPA_SIW is its path. On other kernels both ends are
# siwm. MPA_WIRE_DIR keeps the captures. MPA_SIWM_FULL: also tests that take minutes, block
# devices and file systems among them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
siw=${MPA_SIW:-$here/../../build/siw}
siwm=${MPA_KO%/*}/siw/siw-mpa.ko
cm=${siwm%/*}/mpa_siwm_cm

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v rping ib_write_bw rdma tcpdump ethtool ss >/dev/null ||
	skip_all "needs rdmacm-utils, perftest, iproute2, tcpdump and ethtool"
[[ -e $siwm ]] || skip_all "needs make siw"
[[ -e $cm ]] || skip_all "needs mpa_siwm_cm: scripts/check siwm"
[[ ${MPA_KERNEL-} != 6.1 || -e $siw/siw/siw.ko ]] ||
	skip_all "needs siw: scripts/siw build/siw siw siw-p2p"
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

# both PORT SERVER CLIENT: run both, each a host and a command, for at most a minute
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

# Each host's device and address
declare -A dev=([alpha]=siwa [beta]=siwb) address=([alpha]=10.5.4.1 [beta]=10.5.4.2) \
	address6=([alpha]=fd05:44::1 [beta]=fd05:44::2)

# run NAME SERVERS-HOST CLIENTS-HOST: run a program between these hosts
run() {
	local to=${address[$2]} server client

	case $1 in
	rping_6_*)
		to=${address6[$2]}
		both 7174 "$2 rping -s -a $to -C 10 -S ${1##*_}" \
			"$3 rping -c -a $to -C 10 -S ${1##*_} -V"
		;;
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
	ib_*_bw_8)
		# Use 8 queue pairs, in both directions.
		server="${1%_*} -R -q 8 -b -s 16384 -n 100 -d"
		both 18515 "$2 $server ${dev[$2]}" "$3 $server ${dev[$3]} $to"
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

# Siw's responder sends its reply before it listens for FPDUs (siw_accept()). It gets no
# notification of an FPDU that arrives in between, here the RTR indication. Run it
# again.
run_again() {
	run "$@" && return
	echo "once more"
	run "$@"
}

# runs PREFIX SERVERS-HOST CLIENTS-HOST NAME...: run each program as a test
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

# beta_is TYPE [MODULE]: replace beta's device, after loading this siw
beta_is() {
	ip netns exec beta rdma link delete siwb 2>/dev/null || true
	[[ -z ${2-} ]] || {
		[[ ! -d /sys/module/siw ]] || rmmod siw
		insmod "$siw/$2/siw.ko"
		# Unloading siw, the same driver, has removed alpha's device as well.
		rdma link show siwa/1 >/dev/null 2>&1 ||
			ip netns exec alpha rdma link add siwa type siwm netdev va
	}
	ip netns exec beta rdma link add siwb type "$1" netdev vb
}

# The peer sends nothing first, and has not requested the peer-to-peer model. So the
# responder must not send (RFC 5044 section 7.1.2 rule 4): it gives up, and reports
# that.
server_first_is_refused() {
	! run ib_write_lat alpha beta || {
		echo "expected: an error"
		return 1
	}
	dmesg | grep -q 'siwa: QP .* should ask for the peer-to-peer model'
}

# A link is deleted while it has connections, and programs have its device open.
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

# connections_come_and_go TIMES: open and close 25 connections at once, with traffic on
# each
connections_come_and_go() {
	local i

	for ((i = 0; i < $1; i++)); do
		both 7471 "beta ucmatose -c 25 -C 5 -S 2000 -b 10.5.4.2" \
			"alpha ucmatose -c 25 -C 5 -S 2000 -b 10.5.4.1 -s 10.5.4.2" || return
	done
}

# rdma_cm chooses a local port without asking TCP: another program's socket may have it.
local_ports_are_taken() {
	local range=/proc/sys/net/ipv4/ip_local_port_range said holder rc=0 before

	before=$(ip netns exec alpha cat $range)
	ip netns exec alpha sysctl -qw net.ipv4.ip_local_port_range="40000 40015"
	exec {said}> >(exec ip netns exec alpha python3 -c '
import socket, sys
held = [socket.create_server(("10.5.4.1", port)) for port in range(40000, 40012)]
sys.stdin.read()')
	holder=$!
	within 30 listens alpha 40011 &&
		run rping_64 beta alpha && run rping_64 beta alpha &&
		run rping_64 beta alpha || rc=1
	exec {said}>&-
	wait $holder || true
	ip netns exec alpha sysctl -qw net.ipv4.ip_local_port_range="$before"
	return $rc
}

# answered ANSWER COMMAND...: run COMMAND against rping's server; its output must end
# with ANSWER
answered() {
	local server said

	within 30 listens_not beta 7174 || return
	ip netns exec beta timeout 120 rping -s -a 10.5.4.2 -S 64 >"$dir/server" 2>&1 &
	server=$!
	within 30 listens beta 7174 || return
	said=$(ip netns exec alpha timeout 90 "${@:2}" 2>&1) || true
	kill $server 2>/dev/null || true
	wait $server || true
	echo "$said"
	[[ $said = *"$1" ]]
}

# Check each Terminate's layer, type and code: RFC 5040 section 4.8, RFC 5041 section 7.
mistakes() {
	local row

	[[ -x $bin/mpa_siw_bad ]] || return 0
	for row in "ddp_version 1206" "rdmap_version 0205" "opcode 0206" \
		"queue 1201" "msn 1203" "mo 1204" "long 1205" "short 2003" \
		"write 1100" "read 0100" "response 0206"; do
		tap_run "peer_gets_terminate_of_${row% *}" answered "received ${row#* }" \
			"$bin/mpa_siw_bad" 10.5.4.2 7174 "${row% *}"
	done
	for row in "source 0100" "short_source 0101" "closed_source 0102" \
		"short_sink 1101" "closed_sink 1100"; do
		tap_run "asks_for_${row% *}" answered "sent ${row#* }" \
			"$bin/mpa_siw_bad" 10.5.4.2 7174 "${row% *}"
	done
}

# conforms OPTION...: cases of mpa conform, all of them or those that siw fails. A kernel
# with siw dies of some.
conforms() {
	local group only=()

	for group in ddp.{12,22,29,30,32,52,59,60,61} startup.{30,32,40} strangers.11 \
		enhanced.{28,38,45,46}; do
		only+=(--only "$group")
	done
	[[ -z ${MPA_SIWM_FULL-} ]] || only=()
	ip netns exec alpha "$here/../../tools/conform/conform" --peer ddp --timeout 60 \
		"${only[@]}" "$@"
}

# Run a simulated peer. "private N": it sends N octets of private data. "crc": it sends
# a good FPDU, then one whose CRC is 0.
raw_is() {
	cat >"$dir/raw" <<-'END'
		import socket, struct, sys

		def crc32c(octets):
		    crc = 0xffffffff
		    for octet in octets:
		        crc ^= octet
		        for _ in range(8):
		            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
		    return crc ^ 0xffffffff

		def get(n):
		    octets = sock.recv(n, socket.MSG_WAITALL)
		    if len(octets) < n:
		        sys.exit("the connection has ended")
		    return octets

		def fpdu(ulpdu):
		    octets = struct.pack(">H", len(ulpdu)) + ulpdu
		    return octets + bytes(-len(octets) % 4)

		sock = socket.create_connection(("10.5.4.2", 7174))
		# RFC 6581 section 9: IRD and ORD first
		private = struct.pack(">HH", 1, 1)
		if sys.argv[1] == "private":
		    private += bytes(int(sys.argv[2]))
		sock.sendall(b"MPA ID Req Frame" +
		             struct.pack(">BBH", 0x50, 2, len(private)) + private)
		get(16)
		flags, revision, length = struct.unpack(">BBH", get(4))
		get(length)
		if flags & 0x20:
		    sys.exit("it has rejected")
		if sys.argv[1] == "private":
		    sys.exit("it has accepted")
		# A Write of nothing, then a Send.
		good = fpdu(struct.pack(">BBIQ", 0xc1, 0x40, 0, 0))
		sock.sendall(good + struct.pack("<I", crc32c(good)))
		bad = fpdu(struct.pack(">BB4xIII16x", 0x41, 0x43, 0, 1, 0))
		sock.sendall(bad + bytes(4))
		terminate = get(struct.unpack(">H", get(2))[0])
		print("terminate %04x" % struct.unpack_from(">H", terminate, 18))
	END
}

# markers BOOLEAN: whether later connections request markers
markers() {
	echo "$1" >/sys/module/siw_mpa/parameters/markers
}

# Siw does not support markers.
markers_are_refused() {
	local rc=0

	markers Y
	run rping_64 beta alpha >"$dir/refused" 2>&1 || rc=$?
	markers N
	cat "$dir/refused"
	[[ $rc -ne 0 ]] && grep -q 'RDMA_CM_EVENT_REJECTED, error -111' "$dir/refused"
}

# lossy COMMAND...: run COMMAND with 1 % loss and a round trip of 20 ms
lossy() {
	local rc=0

	modprobe -q sch_netem
	tc -n alpha qdisc add dev va root netem delay 10ms loss 1%
	tc -n beta qdisc add dev vb root netem delay 10ms
	"$@" || rc=$?
	tc -n alpha qdisc del dev va root
	tc -n beta qdisc del dev vb root
	return $rc
}

# The kernel's own users of RDMA use the first network namespace only.
kernel_host_up() {
	ip link add dum0 type dummy
	ip addr add 10.5.9.1/24 dev dum0
	ip link set dum0 up
	rdma link add siwd type siwm netdev dum0
}

kernel_host_down() {
	rdma link delete siwd
	ip link delete dum0
}

nvme_over_rdma() {
	local target=/sys/kernel/config/nvmet disk

	modprobe -a nvmet nvmet-rdma nvme-rdma && modprobe brd rd_nr=1 rd_size=65536 ||
		return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
	mkdir "$target/subsystems/siwm" "$target/ports/1"
	echo 1 >"$target/subsystems/siwm/attr_allow_any_host"
	mkdir "$target/subsystems/siwm/namespaces/1"
	echo /dev/ram0 >"$target/subsystems/siwm/namespaces/1/device_path"
	echo 1 >"$target/subsystems/siwm/namespaces/1/enable"
	echo rdma >"$target/ports/1/addr_trtype"
	echo ipv4 >"$target/ports/1/addr_adrfam"
	echo 10.5.9.1 >"$target/ports/1/addr_traddr"
	echo 4420 >"$target/ports/1/addr_trsvcid"
	ln -s "$target/subsystems/siwm" "$target/ports/1/subsystems/siwm"
	nvme connect -t rdma -a 10.5.9.1 -s 4420 -n siwm -i 1 || return
	within 30 test -b /dev/nvme0n1 || return
	disk=/dev/nvme0n1
	head -c 16M /dev/urandom >"$dir/octets"
	dd if="$dir/octets" of="$disk" bs=1M oflag=direct &&
		dd if="$disk" bs=1M count=16 iflag=direct | cmp - "$dir/octets" &&
		cmp -n 16777216 /dev/ram0 "$dir/octets" &&
		fio --name=siwm --filename="$disk" --direct=1 --rw=randrw --bsrange=512-128k \
			--size=32M --io_size=16M --ioengine=libaio --iodepth=16 --verify=crc32c \
			--verify_fatal=1 &&
		nvme disconnect -n siwm
}

nvme_down() {
	local target=/sys/kernel/config/nvmet

	rm -f "$target/ports/1/subsystems/siwm"
	rmdir "$target/ports/1" "$target/subsystems/siwm/namespaces/1" \
		"$target/subsystems/siwm" 2>/dev/null || true
	modprobe -r nvme-rdma nvmet-rdma || true
}

nfs_over_rdma() {
	modprobe -a sunrpc nfsd nfs nfsv4 rpcrdma || return
	mkdir -p "$dir/export" "$dir/mnt"
	mount -t tmpfs none "$dir/export"
	mount -t tmpfs none /var/lib/nfs
	mkdir -p /var/lib/nfs/{v4recovery,rpc_pipefs}
	touch /var/lib/nfs/{etab,rmtab}
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	rpc.mountd -F -N 2 -N 3 >/dev/null 2>&1 &
	echo $! >"$dir/mountd"
	exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check "*:$dir/export"
	echo "-2 -3 +4 +4.1 +4.2" >/proc/fs/nfsd/versions
	echo 1 >/proc/fs/nfsd/threads
	echo "rdma 20049" >/proc/fs/nfsd/portlist
	echo 2 >/proc/fs/nfsd/nfsv4gracetime
	echo 2 >/proc/fs/nfsd/threads
	echo Y >/proc/fs/nfsd/v4_end_grace
	mount.nfs -o vers=4.1,proto=rdma,port=20049,sec=sys 10.5.9.1:/ "$dir/mnt" || return
	head -c 16M /dev/urandom >"$dir/octets"
	cp "$dir/octets" "$dir/mnt/file" && sync "$dir/mnt/file" &&
		cmp "$dir/octets" "$dir/export/file" &&
		echo 3 >/proc/sys/vm/drop_caches && cmp "$dir/octets" "$dir/mnt/file"
}

nfs_down() {
	umount -l "$dir/mnt" "$dir/export" 2>/dev/null || true
	echo 0 >/proc/fs/nfsd/threads || true
	[[ ! -e $dir/mountd ]] || kill "$(<"$dir/mountd")" || true
}

long() {
	local name=with_markers

	modprobe -a rdma_cm rdma_ucm
	markers Y
	runs $name beta alpha "${all[@]}"
	markers N
	tap_run 1000_connections_come_and_go connections_come_and_go 40
	kernel_host_up
	tap_run nvme_over_rdma nvme_over_rdma
	nvme_down
	tap_run nfs_over_rdma nfs_over_rdma
	nfs_down
	tap_run kernel_host_down kernel_host_down
}

# odd_peer HOW...: run the program with its server in beta
odd_peer() {
	timeout 120 ip netns exec beta "$cm" 10.5.4.2 "$@"
}

# iw_cm drops requests that it has not processed: no endpoint may stay for ever.
link_is_deleted_after_dropped_requests() {
	odd_peer drop 60 && timeout 30 ip netns exec beta rdma link delete siwb || return
	ip netns exec beta rdma link add siwb type siwm netdev vb
}

unloads() {
	ip netns exec alpha rdma link delete siwa &&
		within 10 rmmod siw_mpa
}

with_siw() {
	beta_is siw siw
	captured siwm-siw runs siw_s_server beta alpha "${judged[@]}"
	runs siw_s_server beta alpha "${all[@]}" "${server_first[@]}"
	tap_run siw_refuses_markers markers_are_refused
	captured siw-siwm runs siw_s_client alpha beta "${judged[@]}"
	runs siw_s_client alpha beta "${all[@]}"
	tap_run server_first_is_refused server_first_is_refused
	beta_is siw siw-p2p
	runs siw_s_client_peer_to_peer alpha beta "${server_first[@]}"
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
runs both_ends beta alpha rping_6_4097 ib_write_bw_8
mistakes
tap_run responder_conforms conforms \
	--command "exec ip netns exec beta rping -s -P -a 10.5.4.2 -p 7174" 10.5.4.2:7174
tap_run initiator_conforms conforms --listen 10.5.4.1:7174 \
	--command "exec ip netns exec beta rping -c -a 10.5.4.1 -p 7174"
raw_is
tap_run crc_is_reported_to_the_peer answered "terminate 2002" python3 "$dir/raw" crc
tap_run private_data_of_255 answered "it has accepted" python3 "$dir/raw" private 255
tap_run private_data_of_256_is_rejected answered "it has rejected" python3 "$dir/raw" \
	private 256
tap_run connections_come_and_go connections_come_and_go 1
tap_run local_ports_are_taken local_ports_are_taken
markers Y
captured siwm-markers runs with_markers beta alpha rping_4097 ib_write_bw ib_read_bw
markers N
tap_run packets_are_lost lossy run rping_65000 beta alpha
tap_run link_is_deleted_under_rping link_is_deleted_under_rping
tap_run link_is_deleted_after_dropped_requests link_is_deleted_after_dropped_requests
tap_run peer_without_rtr_can_be_left odd_peer silent
[[ -z ${MPA_SIWM_FULL-} ]] || long
[[ ! -e $siw/siw/siw.ko || ${MPA_KERNEL-} != 6.1 ]] || with_siw
ip netns exec beta rdma link delete siwb
tap_run unloads unloads
tap_end
