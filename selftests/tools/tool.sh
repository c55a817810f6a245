# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For the tests of "mpa listen" and "mpa connect" between two hosts: both ends, with
# their output in $work. $here is this folder; MPA_TOOL is the command.
mpa=${MPA_TOOL:-$here/../../build/tools/mpa}

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
[[ -x $mpa ]] || skip_all "no mpa command: make tools"
command -v ip ethtool tc ss python3 >/dev/null ||
	skip_all "needs ethtool, iproute2 and python3"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
modprobe -q sch_netem || true

work=$(mktemp -d)
# shellcheck disable=SC2317 # a trap calls it
cleanup() {
	jobs_end
	hosts_down
	rm -rf "$work"
}
trap cleanup EXIT

# ---- both ends ----

# Seconds to wait for a result: a guest with little processor time starts Python slowly.
patience=150
limit=(timeout --foreground "$patience")

# serve [OPTION...]: start "mpa listen" on beta, with its output in $work/server.*. Set
# port, and server, its process. Standard input is the function's; $server_out is
# another file for its output.
serve() {
	rm -f "$work/port"
	mkfifo "$work/port"
	# <&0: in a background job standard input would be /dev/null.
	ip netns exec beta "$mpa" listen --port-file "$work/port" "$@" 10.5.4.2 0 \
		<&0 >"${server_out:-$work/server.out}" 2>"$work/server.err" &
	server=$!
	read -r -t "$patience" port <>"$work/port" || {
		cat "$work/server.err"
		return 1
	}
}

# served STATUS: the server must end soon, with STATUS
served() {
	local rc=0

	timeout "$patience" tail --pid "$server" -f /dev/null || {
		echo "expected the server to end; it has not within $patience s"
		stop
		return 1
	}
	wait "$server" || rc=$?
	expect "the server's status" "$1" "$rc" || {
		cat "$work/server.err"
		return 1
	}
}

# stop: stop the server, whatever it is doing
stop() {
	kill -TERM "$server"
	wait "$server" || true
}

# client STATUS [OPTION...]: run "mpa connect" on alpha, which must end with STATUS
client() {
	local rc=0

	"${limit[@]}" ip netns exec alpha "$mpa" connect "${@:2}" 10.5.4.2 "$port" \
		>"$work/client.out" 2>"$work/client.err" || rc=$?
	expect "the client's status" "$1" "$rc" || {
		cat "$work/client.err" "$work/server.err"
		return 1
	}
}

# expect WHAT EXPECTED SEEN: compare, and report a difference
expect() {
	[[ $2 = "$3" ]] || {
		echo "expected $1 to be \"$2\", seen \"$3\""
		return 1
	}
}

# says FILE PATTERN: whether the file matches
says() {
	grep -qE -- "$2" "$1" || {
		echo "expected \"$2\", seen:"
		head -c 2000 "$1"
		return 1
	}
}

# be LEN NUMBER: print it for printf, in octal, as LEN octets, most significant first
be() {
	local i

	for ((i = $1 - 1; i >= 0; i--)); do
		printf '\\%03o' $(($2 >> 8 * i & 255))
	done
}

# record TEXT-FOR-PRINTF OCTETS: print a record, preceded by its length
record() {
	# shellcheck disable=SC2059 # octets
	printf "$(be 4 "$2")$1"
}

# plain PROGRAM: run Python on beta, with the listening socket l; set port, and server,
# its process
plain() {
	rm -f "$work/port"
	mkfifo "$work/port"
	ip netns exec beta timeout "$patience" python3 -c "
import os, socket, struct
l = socket.create_server(('10.5.4.2', 0))
open('$work/port', 'w').write('%d\n' % l.getsockname()[1])
$1" &
	server=$!
	read -r -t "$patience" port <>"$work/port"
}

# ---- files ----

# folder: create an empty folder for received files
folder() {
	rm -rf "$work/folder"
	mkdir "$work/folder"
}

# left NAME...: whether the folder contains exactly these
left() {
	expect "what is in the folder" "$*" "$(find "$work/folder" -mindepth 1 -printf '%P\n' | sort | xargs)"
}

# file_head NAME OCTETS-OF-NAME SIZE: print the first record of a transfer
file_head() {
	record "\\377mpahead$(be 4 1)$(be 4 "$2")$(be 8 "$3")$1" $((24 + $2))
}

# file_tail SIZE SHA-256: print its last record
file_tail() {
	record "\\377mpatail$(be 8 "$1")${2//??/\\x&}" 48
}

# ---- usage errors ----

# usage WORDS...: mpa must end with 2, and print something
usage() {
	local rc=0

	"${limit[@]}" "$mpa" "$@" </dev/null >"$work/client.out" \
		2>"$work/client.err" || rc=$?
	expect "the status of mpa $*" 2 $rc && says "$work/client.err" .
}
