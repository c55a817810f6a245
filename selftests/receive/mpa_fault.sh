#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Errors that "mpa connect --fault" and "mpa listen --fault" make, and the report of
# mpa.ko as the peer: the records before the error, the error code, mpa's exit status.
# No time limits.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"

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
printf '%s\n' one two three four >"$dir/sent"

# serve OPTION...: start an mpa listen
serve() {
	rm -f port
	mpa listen --timeout 100 --port-file port "$@" 127.0.0.1 0 </dev/null \
		>listen.records 2>listen.said &
	server=$!
	until [[ -s port ]]; do
		kill -0 "$server" || return
		read -r -t 0.05 <> <(:) || true
	done
}

# call OPTION...: start an mpa connect that sends the records
call() {
	mpa connect --timeout 100 "$@" 127.0.0.1 "$(<port)" <sent \
		>connect.records 2>connect.said
}

# fault ROLE FAULT STATUS RECORDS SAID [OPTION...]: an end in ROLE makes FAULT. Its
# peer, which gets OPTION, must receive RECORDS, print SAID and end with STATUS.
fault() {
	local role=$1 peer=listen seen
	local -A status=([connect]=0 [listen]=0)

	if [[ $role == connect ]]; then
		serve "${@:6}" || return
		call --fault "$2" || status[connect]=$?
	else
		peer=connect
		serve --fault "$2" --exec cat || return
		call "${@:6}" || status[connect]=$?
	fi
	wait "$server" || status[listen]=$?
	server=
	seen=$(tr '\n' ' ' <"$peer.records")
	[[ ${status[$peer]} -eq $3 && ${status[$role]} -eq 0 && $seen == "$4" &&
		$(<"$peer.said") == *"$5"* ]] && return
	echo "status: expected $3, seen ${status[$peer]}; of the faulty end: ${status[$role]}"
	echo "records: expected $4, seen $seen; expected in the output of $peer: $5"
	tail -n 20 connect.said listen.said
	return 1
}

# both FAULT STATUS RECORDS SAID [OPTION...]: the same in both roles
both() {
	local role

	for role in ${roles-connect listen}; do
		tap_run "${role}_${1%%@*}_ends_with_$2" fault "$role" "$@"
	done
}

cd "$dir"
all="one two three four "
both crc@3 6 "one two " "error 2, crc"
both marker@1 6 "" "error 3, marker" --markers
both split@1+ 0 "$all" ""
both key 5 "" "frame is malformed"
both silent 5 "" "did not arrive in time" --timeout 1
both drip@0.01 0 "$all" ""
roles=connect
both length@2 6 "one " "error 2, crc"
both oversize@2 6 "one " "error 2, crc"
both pad@1+ 0 "$all" ""
both cut@2 6 "one " "error 1, tcp"
both reset@2 7 "one " "connection is lost"
both revision 5 "" "frame is malformed"
roles=listen
both reserved@1 0 "$all" "" --markers
both pd-length 5 "" "frame is malformed"
both late@2 5 "" "did not arrive in time" --timeout 1
tap_end
