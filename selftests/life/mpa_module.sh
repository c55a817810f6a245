#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Loading, unloading, and state that remains after sockets are closed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
port=5044

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

users() {
	cat /sys/module/mpa/refcnt
}

# load PARAMETER...: load the module with these parameters
load() {
	if [[ -n ${MPA_KO:-} ]]; then
		insmod "$MPA_KO" "$@"
	else
		modprobe mpa "$@"
	fi
}

available() {
	grep -qw mpa /proc/sys/net/ipv4/tcp_available_ulp
}

tap_run "ulp_is_announced" available
# Dead processes' sockets are destroyed asynchronously.
mpa_unused 60 || true
[[ $(users) = 0 ]]
tap_ok $? "no_socket_no_user" "refcnt $(users)"

lockstep() {
	cat /sys/module/mpa/parameters/crc_lockstep
}

# Are CRCs of three FPDUs computed in parallel? Not if the processor lacks the
# instruction, or the kernel has a faster method.
case "$(lockstep) $(grep -m 1 '^flags' /proc/cpuinfo) $(uname -m)" in
N*" i686") tap_ok 0 "crcs_of_three_are_used # SKIP needs 64 bits" ;;
N*" avx512vl "*) tap_ok 0 "crcs_of_three_are_used # SKIP AVX-512 is better" ;;
Y*" sse4_2 "*) tap_ok 0 "crcs_of_three_are_used" ;;
*" sse4_2 "* | Y*)
	tap_ok 1 "crcs_of_three_are_used" "crc_lockstep is $(lockstep)" ;;
*) tap_ok 0 "crcs_of_three_are_used # SKIP no crc32 instruction" ;;
esac

# This connection stays open until its ends are asked to close it.
fifo=$(mktemp -u)
mkfifo "$fifo"
"$bin/mpa_transfer" listen 127.0.0.1 $port 1 1-10,64768x1 >"$fifo" &
exec 7<"$fifo"
rm "$fifo"
read -r -u 7 _
# This peer never replies, so the initiator stays in startup.
"$bin/mpa_transfer" listen 127.0.0.1 $((port + 1)) 1 1-1 > >(cat >/dev/null) &
mute=$!
kill -STOP $mute

until ss -Htln "sport = $((port + 1))" | grep -q .; do
	kill -CONT $mute
	read -r -t 0.1 <> <(:) || true
	kill -STOP $mute
done
"$bin/mpa_transfer" connect 127.0.0.1 $((port + 1)) 1 1-1 2>/dev/null &
waiting=$!
until [[ $(users) != 0 ]]; do
	read -r -t 0.05 <> <(:) || true
done

rc=0
rmmod mpa 2>/dev/null || rc=$?
[[ $rc -ne 0 ]]
tap_ok $? "unload_is_refused_while_a_socket_uses_it"
ss -tin "dport = $((port + 1))" | grep -q 'ulp-mpa'
tap_ok $? "ss_shows_the_ulp" "$(ss -tin "dport = $((port + 1))")"

kill -9 $waiting $mute
wait $waiting $mute 2>/dev/null || true

tap_run "transfer_after_that" \
	"$bin/mpa_transfer" connect 127.0.0.1 $port 0 1-10,64768x1
wait

mpa_unused 60 || true
tap_run "unload" rmmod mpa
rc=0
available && rc=1
tap_ok $rc "ulp_is_gone"
# Load only the kernel's CRC.
modprobe -q libcrc32c || true
tap_run "load_again" load crc_lockstep=0
rc=0
[[ $(lockstep) = N ]] || rc=1
tap_ok $rc "crcs_of_three_can_be_ruled_out" "crc_lockstep is $(lockstep)"
"$bin/mpa_transfer" listen 127.0.0.1 $port 1 1-10,1400x20 >/dev/null &
until ss -Htln "sport = $port" | grep -q .; do
	read -r -t 0.05 <> <(:) || true
done
tap_run "transfer_without_them" \
	"$bin/mpa_transfer" connect 127.0.0.1 $port 0 1-10,1400x20
wait
mpa_unused 60 || true
rmmod mpa
mpa_load
tap_end
