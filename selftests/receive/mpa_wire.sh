#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Records of every length over a wire, with each combination of markers, IPv4 and
# IPv6: the receiver gets identical records, and the capture is judged independently
# (tools/wire/judge: by Wireshark, and by a checker of its own).
#
# MPA_WIRE_DIR keeps the captures. Without it they are judged here if tshark is
# installed; dissecting is slow in an emulated guest.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
judge=$here/../../tools/wire/judge
lengths=${MPA_WIRE_LENGTHS:-1-3000,64768x17}
port=5044

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v tcpdump ethtool ip >/dev/null ||
	skip_all "needs tcpdump, ethtool and iproute2"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

# A guest stores packets far faster in memory than on the host's disk.
dir=$(mktemp -d)

trap cleanup EXIT
hosts_down
hosts_up 1500

# transfer ADDRESS INITIATOR-WANTS RESPONDER-WANTS
transfer() {
	local fd rc=0 server

	exec {fd}< <(exec ip netns exec beta "$bin/mpa_transfer" listen "$1" \
		     $port "$3" "$lengths")
	server=$!
	read -r -u "$fd" _
	ip netns exec alpha "$bin/mpa_transfer" connect "$1" $port "$2" \
		"$lengths" || rc=$?
	[[ $rc -eq 0 ]] || kill $server 2>/dev/null
	cat <&"$fd"
	wait $server || rc=$?
	return $rc
}

for address in 10.5.4.2 fd05:44::2; do
	for markers in "0 0" "0 1" "1 0" "1 1"; do
		read -r i r <<<"$markers"
		version=ipv4
		[[ $address = *:* ]] && version=ipv6
		name=${version}_initiator_wants_${i}_responder_wants_$r
		pcap=$dir/$name.pcap

		tap_run "$name" capture beta vb "$pcap" "tcp port $port" \
			transfer $address "$i" "$r"
		if [[ -n ${MPA_WIRE_DIR:-} ]]; then
			mv "$pcap" "$MPA_WIRE_DIR"
		else
			if command -v tshark >/dev/null && [[ -x $judge ]]; then
				tap_run "$name wire" "$judge" "$pcap"
			fi
			rm -f "$pcap"
		fi
	done
done
tap_end
