#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa_delivery.sh [--long]: the same records over any path. Packets are late, lost,
# duplicated, reordered; single segments or large packets from GRO; read by every
# kind of reader. --long: all combinations.
#
#   netns alpha, sends  10.5.4.1  va --- vb  10.5.4.2  netns beta, receives
#
# Then a path that changes octets, and one with a large bandwidth-delay product.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
long=("$@")
[[ -z ${MPA_LONG:-} ]] || long=(--long)

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v ethtool ip tc >/dev/null ||
	skip_all "needs ethtool and iproute2"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

trap cleanup EXIT
hosts_down
hosts_up 1500
ip netns exec beta sysctl -qw net.mpa.crc_optional=1
modprobe -q sch_netem || true

# offload SEGMENTATION GRO: on or off, at the sender and at the receiver
offload() {
	ip netns exec alpha ethtool -K va tso "$1" gso "$1" gro "$2" >/dev/null
	ip netns exec beta ethtool -K vb tso "$1" gso "$1" gro "$2" >/dev/null
}

# path NETEM-WORDS...: set the netem of packets to beta
path() {
	ip netns exec alpha tc qdisc del dev va root 2>/dev/null || true
	[[ $# -eq 0 ]] ||
		ip netns exec alpha tc qdisc add dev va root netem "$@"
}

offload off off
path
tap_run "segments_one_by_one" "$bin/mpa_delivery" "${long[@]}"
offload off on
tap_run "segments_joined_by_gro" "$bin/mpa_delivery" "${long[@]}"
offload on on
tap_run "large_packets" "$bin/mpa_delivery" "${long[@]}"
offload off on
if path delay 2ms 1ms loss 5% duplicate 5% reorder 10%; then
	tap_run "lost_twice_and_out_of_order" "$bin/mpa_delivery" "${long[@]}"
else
	echo "ok $((++tap_n)) # SKIP no netem"
fi

# If a packet has no checksum yet, netem computes it before the change: TCP detects the
# change, and retransmits.
if path corrupt 3%; then
	tap_run "corrupted_and_sent_again_by_tcp" "$bin/mpa_delivery" "${long[@]}"
else
	echo "ok $((++tap_n)) # SKIP no netem"
fi
path

# pedit does not compute it. The receiving host accepts such packets: only MPA's CRC
# detects the change.
modprobe -q act_pedit cls_u32 sch_ingress || true
if ip netns exec alpha tc qdisc add dev va clsact &&
   ip netns exec alpha tc filter add dev va egress protocol ip u32 \
	match ip protocol 6 0xff action pedit munge offset 1000 u32 set \
	0x5a5a5a5a; then
	tap_run "changed_past_tcps_checksum" "$bin/mpa_delivery" --changed
	ip netns exec alpha tc qdisc del dev va clsact
else
	echo "ok $((++tap_n)) # SKIP no pedit"
fi

if path delay 20ms limit 100000; then
	offload on on
	tap_run "receive_buffer_grows_as_tcps" "$bin/mpa_delivery" --autotune
else
	echo "ok $((++tap_n)) # SKIP no netem"
fi
tap_end
