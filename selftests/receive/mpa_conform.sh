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
# As it is installed
ln -s "$here/../../tools/conform/conform" "$dir/mpa-conform"
PATH=$dir:$PATH

# judged ARGUMENT...: a run in which no case fails; the log has its cases
judged() {
	local rc=0

	mpa conform --tap "${options[@]}" "$@" >"$dir/tap" 2>"$dir/said" || rc=$?
	sed 's/^/# /' "$dir/tap"
	[[ $rc -ne 0 ]] || return 0
	grep -A2 '^not ok' "$dir/tap" || cat "$dir/said"
	return 1
}

# responder OPTION...: mpa listen, which echoes. With $segments the peer's segments are
# made by mpa conform.
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
	judged ${segments:+--segments} "127.0.0.1:$(<"$dir/port")" || rc=$?
	kill "$server"
	wait "$server" || true
	server=
	return $rc
}

# initiator PORT OPTION...: mpa connect, started for each case, which sends one
# record first, and then echoes
initiator() {
	local at=${segments:-127.0.0.1}

	judged ${segments:+--segments} --listen "$1" --command "mpa connect --quiet \
		--records length --timeout 2 ${*:2} \
		--exec \"printf '\\0\\0\\0\\5first'; exec cat\" $at $1"
}

# ddp_responder PORT OPTION...: mpa_rping's server, started for each case
ddp_responder() {
	judged --peer ddp --only ddp "127.0.0.1:$1" \
		--command "exec ${MPA_BIN:-$here/..}/mpa_rping -s -a 127.0.0.1 -p $*"
}

# ddp_initiator PORT OPTION...: its client, two rounds
ddp_initiator() {
	judged --peer ddp --only ddp --listen "127.0.0.1:$1" \
		--command "exec ${MPA_BIN:-$here/..}/mpa_rping -c -C 2 -a 127.0.0.1 -p $*"
}

# run NAME COMMAND...
run() {
	local rc=0

	"${@:2}" >"$dir/run" || rc=$?
	grep '^# ' "$dir/run"
	tap_ok $rc "$1" "$(grep -v '^# ' "$dir/run")"
}

segments=
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
segments=198.18.44.2
run responder_conforms_by_segments responder
run responder_with_markers_conforms_by_segments responder --markers
run initiator_conforms_by_segments initiator 4308
run initiator_with_markers_conforms_by_segments initiator 4309 --markers
tap_end
