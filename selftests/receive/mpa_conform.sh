#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the cases of mpa conform against mpa.ko in both roles; none may fail. No time
# limits.
#
# mpa_conform.sh [OPTION...]: pass these options to each run, for instance "--only
# startup"
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
options=(--timeout 200 --patience 200 "$@")

command -v python3 >/dev/null || skip_all "needs python3"
PATH=${MPA_TOOLS:-$here/../../build/tools}:$PATH
command -v mpa >/dev/null || skip_all "needs build/tools/mpa: make tools"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

dir=$(mktemp -d)
server=
cleanup() {
	[[ -z $server ]] || kill "$server" 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT
# The command, as it is installed
ln -s "$here/../../tools/conform/conform" "$dir/mpa-conform"
PATH=$dir:$PATH

# judged ARGUMENT...: a run in which no case may fail; the log lists the cases
judged() {
	local rc=0

	mpa conform --tap "${options[@]}" "$@" >"$dir/tap" 2>"$dir/said" || rc=$?
	sed 's/^/# /' "$dir/tap"
	[[ $rc -ne 0 ]] || return 0
	grep -A2 '^not ok' "$dir/tap" || cat "$dir/said"
	return 1
}

# With --segments the peer has an address of its own, and the end another one for it.
segments=() group=ddp end=127.0.0.1 peer=127.0.0.1

# responder OPTION...: an "mpa listen" that echoes
responder() {
	local rc=0

	rm -f "$dir/port"
	mpa listen --quiet --fork --records length --exec cat --timeout 2 \
		--port-file "$dir/port" "$@" 0.0.0.0 0 >/dev/null 2>&1 &
	server=$!
	until [[ -s $dir/port ]]; do
		kill -0 "$server" || return
		read -r -t 0.05 <> <(:) || true
	done
	judged "${segments[@]}" "$end:$(<"$dir/port")" || rc=$?
	kill "$server"
	wait "$server" || true
	server=
	return $rc
}

# initiator PORT OPTION...: an "mpa connect" for each case; it sends one record first,
# and then echoes
initiator() {
	judged "${segments[@]}" --listen "$peer:$1" --command "mpa connect --quiet \
		--records length --timeout 2 ${*:2} \
		--exec \"printf '\\0\\0\\0\\5first'; exec cat\" $peer $1"
}

# ddp_responder PORT OPTION...: an mpa_rping server for each case
ddp_responder() {
	judged "${segments[@]}" --peer ddp --only $group "$end:$1" \
		--command "exec ${MPA_BIN:-$here/..}/mpa_rping -s -a $end -p $*"
}

# ddp_initiator PORT OPTION...: an mpa_rping client for each case, two rounds
ddp_initiator() {
	judged "${segments[@]}" --peer ddp --only $group --listen "$peer:$1" \
		--command "exec ${MPA_BIN:-$here/..}/mpa_rping -c -C 2 -a $peer -p $*"
}

# run NAME COMMAND...
run() {
	local rc=0

	"${@:2}" >"$dir/run" || rc=$?
	grep '^# ' "$dir/run"
	tap_ok $rc "$1" "$(grep -v '^# ' "$dir/run")"
}

run responder_conforms responder
run initiator_conforms initiator 4301
options+=(--only startup --only fpdu --only crc --only markers)
run responder_with_markers_conforms responder --markers
run initiator_with_markers_conforms initiator 4302 --markers
options=("${options[@]:0:4}" "$@" --only enhanced --only rdmac)
run permissive_responder_conforms responder --permissive
run enhanced_initiator_conforms initiator 4303 --revision 2 --ird 4 --ord 4 --p2p=fpdu
options=("${options[@]:0:4}" "$@")
run ddp_responder_conforms ddp_responder 4304
run ddp_responder_with_markers_conforms ddp_responder 4305 --markers
run ddp_initiator_conforms ddp_initiator 4306
run ddp_initiator_with_markers_and_rtr_conforms ddp_initiator 4307 --markers --rtr write
options=("${options[@]:0:4}" "$@")
modprobe -q tun || true
segments=(--segments) group=segments end=198.18.44.1 peer=198.18.44.2
run responder_conforms_by_segments responder
run responder_with_markers_conforms_by_segments responder --markers
run initiator_conforms_by_segments initiator 4308
run initiator_with_markers_conforms_by_segments initiator 4309 --markers
run ddp_responder_conforms_by_segments ddp_responder 4310 --markers
run ddp_initiator_conforms_by_segments ddp_initiator 4311
tap_end
