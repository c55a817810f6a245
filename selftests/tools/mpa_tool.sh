#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The command mpa: listen, connect and ping between two hosts, its manual pages and
# bash completion. MPA_TOOL is the command.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
# shellcheck source=selftests/tools/tool.sh
. "$here/tool.sh"

# ping STATUS [OPTION...]: run "mpa ping", which must end with STATUS
ping() {
	local rc=0

	"${limit[@]}" ip netns exec alpha "$mpa" ping "${@:2}" "10.5.4.2:$port" \
		>"$work/client.out" 2>"$work/client.err" || rc=$?
	expect "the status of ping" "$1" "$rc" || {
		cat "$work/client.out" "$work/client.err"
		return 1
	}
}

# ---- records ----

lines_both_ways() {
	printf 'from beta\n\nno newline' >"$work/in.beta"
	printf 'from alpha\n\n\nend' >"$work/in.alpha"
	serve --verbose <"$work/in.beta" || return
	client 0 --verbose --private-data hello <"$work/in.alpha" || return
	served 0 || return
	echo | cat "$work/in.alpha" - | cmp - "$work/server.out" || return
	echo | cat "$work/in.beta" - | cmp - "$work/client.out" || return
	says "$work/server.err" 'private data: "hello"' &&
		says "$work/server.err" 'listening on 10\.5\.4\.2:[0-9]+$' &&
		says "$work/client.err" '4 records with 15 octets sent, 3 with 20 received'
}

# The client sends its first record only after the server has reported that it waits.
responder_waits() {
	local line used alpha

	rm -f "$work/late"
	mkfifo "$work/late"
	serve --verbose <<<"early" || return
	client 0 <"$work/late" &
	alpha=$!
	exec 9>"$work/late"
	until grep -q 'waiting for the first record' "$work/server.err"; do
		kill -0 "$server" || return
		read -r -t 0.05 <> <(:) || true
	done
	# The server waits in poll(): its processor time does not grow.
	used=$(cut -d ' ' -f 14,15 "/proc/$server/stat")
	read -r -t 0.5 <> <(:) || true
	expect "processor time while it waits" "$used" \
		"$(cut -d ' ' -f 14,15 "/proc/$server/stat")" || return
	echo first >&9
	exec 9>&-
	served 0 || return
	wait "$alpha" || return
	read -r line <"$work/client.out"
	expect "what alpha has got" early "$line"
}

lengths_keep_records() {
	{
		record '\000' 1
		record '\012\012' 2
		record "$(head -c 64768 /dev/zero | tr '\0' z)" 64768
		record 'a\000b' 3
	} >"$work/in"
	serve --exec cat --records length </dev/null || return
	client 0 --records length --markers <"$work/in" || return
	served 0 && cmp "$work/in" "$work/client.out"
}

wrong_lengths() {
	local each

	for each in '\0\0\0\0' '\0\0\375\001' '\0\0\0\5abc' '\0\0'; do
		serve </dev/null || return
		# shellcheck disable=SC2059 # octets
		{ record good 4; printf "$each"; } | client 1 --records length || return
		says "$work/client.err" 'record 2' || return
		served 7 || return
		expect "what has arrived" good "$(<"$work/server.out")" || return
	done
}

long_line_is_an_error() {
	serve </dev/null || return
	{ echo good; head -c 64769 /dev/zero | tr '\0' z; } >"$work/in"
	client 1 <"$work/in" || return
	says "$work/client.err" 'line 2 .* --records stream' || return
	served 7 && expect "what has arrived" good "$(<"$work/server.out")"
}

stream_both_ways() {
	head -c 3000000 /dev/urandom >"$work/in"
	serve --exec cat --records stream </dev/null || return
	client 0 --records stream --verbose <"$work/in" || return
	served 0 && cmp "$work/in" "$work/client.out"
}

# A reader that does not read blocks the sender; nothing is lost.
slow_reader() {
	head -c 8000000 /dev/urandom >"$work/in"
	rm -f "$work/slow"
	mkfifo "$work/slow"
	serve --records stream </dev/null || return
	ip netns exec alpha "$mpa" connect --records stream 10.5.4.2 "$port" \
		<"$work/in" >"$work/slow" &
	served 0 <"$work/slow" && cmp "$work/in" "$work/server.out"
}

roles_and_depths() {
	serve --revision 2 --ird 5 --ord 6 --verbose --exec cat </dev/null || return
	client 0 --ird 3 --ord 9 --markers --json <<<"x" || return
	served 0 || return
	says "$work/client.out" '"event":"started".*"revision":2.*"markers_received":true.*"ird":3,"ord":5' &&
		says "$work/client.out" '"event":"record".*"record":"x","length":1,"position":0,"order":0,"placed":false' ||
		return
	serve --role initiator <<<"from beta" || return
	client 0 --role responder <<<"from alpha" || return
	served 0 && expect "what beta has got" "from alpha" "$(<"$work/server.out")" &&
		expect "what alpha has got" "from beta" "$(<"$work/client.out")"
}

# A connection that the peer has closed cannot be started: alpha closes once it has
# received something.
no_startup() {
	local alpha

	rm -f "$work/late"
	mkfifo "$work/late"
	serve --role direct --markers --no-shutdown <<<"from beta" || return
	rm -f "$work/client.out"
	client 0 --role direct --tx-markers <"$work/late" &
	alpha=$!
	exec 9>"$work/late"
	until [[ -s $work/client.out ]]; do
		kill -0 "$server" || return
		read -r -t 0.05 <> <(:) || true
	done
	echo "from alpha" >&9
	exec 9>&-
	served 0 || return
	wait "$alpha" || return
	expect "what beta has got" "from alpha" "$(<"$work/server.out")" &&
		expect "what alpha has got" "from beta" "$(<"$work/client.out")"
}

json_octets() {
	serve --json </dev/null || return
	printf '\377\n\303\244\n' | client 0 || return
	served 0 || return
	python3 - "$work/server.out" <<-'END'
		import json, sys

		events = [json.loads(line) for line in open(sys.argv[1])]
		names = [each["event"] for each in events]
		assert names == ["listening", "connected", "started", "record", "record",
				 "ended"], names
		assert events[3]["record_hex"] == "ff", events[3]
		assert events[4]["record"] == "ä", events[4]
		assert events[5]["records_received"] == 2, events[5]
	END
}

# ---- files ----

head -c 3000000 /dev/urandom >"$work/file"

file_arrives() {
	folder
	serve --receive "$work/folder" --json </dev/null || return
	client 0 --send "$work/file" || return
	served 0 || return
	cmp "$work/file" "$work/folder/file" && left file || return
	says "$work/client.err" "3000000 octets in .*SHA-256 $(sha256sum <"$work/file" | cut -d ' ' -f 1): complete" &&
		says "$work/server.out" '"event":"file".*"name":".*/file".*"placed":0'
}

file_from_a_listener() {
	folder
	serve --send "$work/file" </dev/null || return
	client 0 --receive "$work/folder/other" || return
	served 0 || return
	cmp "$work/file" "$work/folder/other" && left other
}

file_through_pipes() {
	serve --receive - </dev/null || return
	client 0 --send - <"$work/file" || return
	served 0 && cmp "$work/file" "$work/server.out"
}

empty_file() {
	folder
	: >"$work/empty"
	serve --receive "$work/folder/" </dev/null || return
	client 0 --send "$work/empty" || return
	served 0 && cmp "$work/empty" "$work/folder/empty"
}

# With losses and placing, the record after a lost segment is written at once.
file_under_loss() {
	local host dev

	folder
	for host in "alpha va" "beta vb"; do
		read -r host dev <<<"$host"
		tc -n "$host" qdisc add dev "$dev" root netem delay 5ms loss 3% || return
	done
	serve --place --receive "$work/folder" --json </dev/null || return
	client 0 --send "$work/file" || return
	served 0 || return
	tc -n alpha qdisc del dev va root
	tc -n beta qdisc del dev vb root
	cmp "$work/file" "$work/folder/file" || return
	says "$work/server.out" '"event":"file".*"placed":[1-9]'
}

no_overwriting() {
	folder
	echo old >"$work/folder/file"
	serve --receive "$work/folder" </dev/null || return
	client 4 --send "$work/file" || return
	served 1 || return
	says "$work/client.err" '--force' &&
		expect "the file" old "$(<"$work/folder/file")" && left file || return
	serve --receive "$work/folder" --force </dev/null || return
	client 0 --send "$work/file" || return
	served 0 && cmp "$work/file" "$work/folder/file" && left file
}

hostile_names() {
	local name len sum

	sum=$(printf x | sha256sum | cut -d ' ' -f 1)
	folder
	echo precious >"$work/precious"
	for name in '../precious 11' '/etc/mpa 8' '. 1' '.. 2' '.hidden 7' 'a/b 3' \
		'a\012b 3' 'a\000b 3'; do
		len=${name##* }
		name=${name% *}
		serve --receive "$work/folder" --force </dev/null || return
		{
			file_head "$name" "$len" 1
			record "$(be 8 0)x" 9
			file_tail 1 "$sum"
		} | client 0 --records length || return
		served 8 || return
		says "$work/server.err" 'cannot be used' && left || return
		expect "the file outside" precious "$(<"$work/precious")" || return
		[[ ! -e /etc/mpa ]] || return
	done
	# A good name works.
	serve --receive "$work/folder" </dev/null || return
	{
		file_head good 4 1
		record "$(be 8 0)x" 9
		file_tail 1 "$sum"
	} | client 0 --records length || return
	served 0 && left good
}

# hostile_file PATTERN: the receiver must refuse standard input as a file
hostile_file() {
	folder
	cat >"$work/in"
	serve --receive "$work/folder" </dev/null || return
	client 0 --records length <"$work/in" || return
	served 8 && says "$work/server.err" "$1" && left
}

hostile_files() {
	local sum

	sum=$(printf x | sha256sum | cut -d ' ' -f 1)
	{ file_head f 1 1; record "$(be 8 0)y" 9; file_tail 1 "$sum"; } |
		hostile_file 'SHA-256 does not match' || return
	{ file_head f 1 1; record "$(be 8 1)x" 9; } |
		hostile_file "after the end of the file" || return
	{ file_head f 1 1; record "$(be 8 -2)x" 9; } |
		hostile_file 'does not send a file' || return
	{ file_head f 1 2; record "$(be 8 0)xx" 10; record "$(be 8 0)x" 9
	  file_tail 2 "$sum"; } |
		hostile_file '3 octets arrived, 2' || return
	{ file_head f 1 1; record "$(be 8 0)x" 9; } |
		hostile_file 'before the file was complete' || return
	{ file_head f 1 1; file_head f 1 1; } |
		hostile_file 'is malformed' || return
	record hello 5 | hostile_file '--send'
}

# The temporary file is removed if a signal ends the receiver.
interrupted_receiver_leaves_nothing() {
	local sender

	folder
	rm -f "$work/slow"
	mkfifo "$work/slow"
	serve --receive "$work/folder/it" </dev/null || return
	client 7 --send - <"$work/slow" &
	sender=$!
	exec 9>"$work/slow"
	until [[ -n $(ls -A "$work/folder") ]]; do
		kill -0 "$server" || return
		read -r -t 0.05 <> <(:) || true
	done
	kill -TERM "$server"
	served 143 || return
	left || return
	echo more >&9
	exec 9>&-
	wait "$sender"
}

# ---- servers ----

command_status_is_kept() {
	# shellcheck disable=SC2016 # for the shell of --exec
	serve --exec 'echo "$MPA_PEER $MPA_LOCAL"; exit 42' </dev/null || return
	client 0 <<<hello || return
	served 42 || return
	says "$work/server.err" "^mpa listen: 10\\.5\\.4\\.1:[0-9]+: .* exited with status 42\$" || return
	says "$work/client.out" "^10\\.5\\.4\\.1:[0-9]+ 10\\.5\\.4\\.2:$port\$"
}

command_that_reads_nothing_ends() {
	rm -f "$work/open"
	mkfifo "$work/open"
	serve --exec 'exec <&-; echo bye' </dev/null || return
	# Keep this order: a process that inherits the pipe's writing end keeps it open
	client 0 <"$work/open" &
	exec 9>"$work/open"
	echo hello >&9
	# The server ends while the client continues.
	served 0 || return
	kill -0 $! || return
	exec 9>&-
	wait $! || return
	expect "what came" bye "$(<"$work/client.out")"
}

# A child that writes for ever does not keep mpa from ending.
writer_ends_with_its_connection() {
	serve --exec yes </dev/null || return
	# The client exits with unread records.
	ip netns exec alpha "$mpa" connect 10.5.4.2 "$port" <<<hello 2>/dev/null |
		head -n 1 >/dev/null || true
	served 7
}

# Nor does an idle child, with more octets waiting than fit a pipe. The connection is
# reset while nothing reads from it.
idler_ends_with_its_connection() {
	serve --exec "${1:-exec sleep 1000}" </dev/null || return
	ip netns exec alpha env PYTHONPATH="$here/../../python" python3 -c "
import mpa, select, socket, struct
s = socket.create_connection(('10.5.4.2', $port))
mpa.attach(s)
mpa.start(s)
writable = select.poll()
writable.register(s, select.POLLOUT)
while writable.poll(1000):
    s.send(b'hello')
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()" || return
	served 7
}

# Nor does a child that ignores the signal.
stubborn_ends_with_its_connection() {
	idler_ends_with_its_connection "trap '' TERM; while :; do sleep 1; done"
}

end_with_peer() {
	rm -f "$work/open"
	mkfifo "$work/open"
	serve <<<bye || return
	exec 9<>"$work/open"
	echo hello >&9
	client 0 --end-with-peer <"$work/open" || return
	exec 9>&-
	served 0 && expect "what came" bye "$(<"$work/client.out")" &&
		expect "what beta got" hello "$(<"$work/server.out")"
}

# As with "mpa listen --fork
#
# head": once the reader has exited, nothing more is received.
fork_ends_with_its_reader() {
	rm -f "$work/pipe"
	mkfifo "$work/pipe"
	head -n 1 <"$work/pipe" >/dev/null &
	server_out=$work/pipe serve --fork </dev/null || return
	client 0 <<<one || return
	served 1 && says "$work/server.err" 'its reader has exited'
}

# Each reported connection is also reported as ended, even if it was not started.
json_of_refused() {
	serve --json --reject 'not today' </dev/null || return
	client 4 --json </dev/null || return
	served 0 || return
	python3 - "$work/server.out" "$work/client.out" <<-'END'
		import json, sys

		for name, between in zip(sys.argv[1:], ("refused", "error")):
		    events = [json.loads(line) for line in open(name)]
		    seen = [each["event"] for each in events if each["event"] != "listening"]
		    assert seen == ["connected", between, "ended"], seen
		assert events[-1]["status"] == 4, events[-1]
	END
}

fork_in_parallel() {
	local i line pids=() zombies

	serve --fork --count 3 --exec cat </dev/null || return
	for i in 1 2 3; do
		rm -f "$work/to$i" "$work/from$i"
		mkfifo "$work/to$i" "$work/from$i"
		"${limit[@]}" ip netns exec alpha "$mpa" connect 10.5.4.2 "$port" \
			<"$work/to$i" >"$work/from$i" &
		pids+=($!)
	done
	exec 11>"$work/to1" 12>"$work/to2" 13>"$work/to3"
	exec 21<"$work/from1" 22<"$work/from2" 23<"$work/from3"
	for i in 1 2 3; do
		echo "client $i" >&1$i
		read -r -t "$patience" -u 2$i line
		expect "the echo" "client $i" "$line" || return
	done
	exec 11>&- 12>&- 13>&-
	wait "${pids[@]}" || return
	served 0 || return
	exec 21<&- 22<&- 23<&-
	serve --fork --exec cat </dev/null || return
	client 0 <<<one || return
	client 0 <<<two || return
	# The first child ended before the second connection.
	zombies=$(pgrep -c -r Z -P "$server" || true)
	[[ $zombies -le 1 ]] || {
		echo "expected children to be reaped, seen $zombies zombies"
		return 1
	}
	kill -TERM "$server"
	served 0
}

# A peer that does not use MPA, or closes at once, does not end a server.
keep_continues() {
	serve --keep --count 3 --exec cat </dev/null || return
	ip netns exec alpha python3 -c "
import socket
s = socket.create_connection(('10.5.4.2', $port))
s.sendall(b'GET / HTTP/1.0\r\n\r\n')
try:
    s.recv(1)
except OSError:
    pass
socket.create_connection(('10.5.4.2', $port)).close()" || return
	client 0 <<<"still there" || return
	served 5 && expect "the echo" "still there" "$(<"$work/client.out")" || return
	serve --keep </dev/null || return
	kill -TERM "$server"
	served 0
}

# ---- failures ----

refused() {
	serve --reject 'closed until Monday' </dev/null || return
	client 4 </dev/null || return
	served 0 && says "$work/client.err" 'refused: .*"closed until Monday"'
}

not_mpa() {
	plain "s = l.accept()[0]; s.recv(1); s.sendall(b'HTTP/1.0 400 Bad Request\r\n\r\n')
s.recv(1000)" || return
	client 5 </dev/null || return
	says "$work/client.err" 'does it speak MPA' || return
	wait "$server"
	plain "s = l.accept()[0]
while s.recv(1000): pass" || return
	client 5 --timeout 0.2 </dev/null || return
	says "$work/client.err" 'did not arrive in time'
}

nobody_listens() {
	port=1
	client 3 </dev/null && says "$work/client.err" 'nothing listens there'
}

# direct OCTETS: send OCTETS to a server without startup. Wait until it ends its
# sending, which shows that it has begun
direct() {
	serve --role direct </dev/null || return
	ip netns exec alpha python3 -c "
import socket
s = socket.create_connection(('10.5.4.2', $port))
s.sendall($1)
try:
    s.recv(1)
    s.shutdown(socket.SHUT_WR)
except OSError:
    pass"
}

damaged() {
	direct "b'\0\2hi' + b'\0\0\0\0'" || return
	served 6 && says "$work/server.err" 'damaged' || return
	direct "b'\0\2h'" || return
	served 6 && says "$work/server.err" 'ends inside a record'
}

lost() {
	plain "s = l.accept()[0]
r = s.recv(20)
s.sendall(b'MPA ID Rep Frame' + bytes([0x40, 1, 0, 0]))
s.recv(1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()" || return
	client 7 <<<"x" && says "$work/client.err" 'connection is lost'
}

# bad_end STATUS OCTETS [OPTION...]: a client whose peer sends OCTETS must end with
# STATUS and a RST: for the peer this is no regular end.
bad_end() {
	plain "s = l.accept()[0]
s.recv(20)
s.sendall(b'MPA ID Rep Frame' + bytes([0x40, 1, 0, 0]))
s.recv(100)
try:
    s.sendall($2)
    s.recv(1)
    raise SystemExit('a good end')
except ConnectionResetError:
    pass" || return
	client "$1" --no-shutdown "${@:3}" || return
	wait "$server"
}

bad_ends() {
	bad_end 6 "b'\0\2hi' + b'\0\0\0\0'" <<<hello || return
	bad_end 9 "b''" --idle 0.2 <<<hello || return
	{ record good 4; printf '\0\0'; } | bad_end 1 "b''" --records length
}

# Check the result of the peer-to-peer model, and the frames' flags.
peer_to_peer() {
	serve --verbose --p2p=fpdu,write --ird 2 </dev/null || return
	client 0 --json --p2p=write --ord 1 --private-data hello </dev/null || return
	served 0 || return
	says "$work/server.err" ', peer-to-peer, RTR write$' &&
		says "$work/server.err" "frame: revision 2, M=0 C=1 R=0 S=1; IRD 0, ORD 1, A=1 B=0 C=1 D=0; private data: 5 octets\$" &&
		says "$work/client.out" '"p2p":true.*"rtr":\["write"\],"peer_frame":\{.*"rejected":false,.*"ird":2,.*"p2p":true,"rtr":\["write"\]\}' ||
		return
	serve --verbose --p2p=read </dev/null || return
	client 4 --verbose --p2p=write </dev/null || return
	served 0 && says "$work/client.err" 'no common RTR' &&
		says "$work/client.err" "peer's frame: .*A=1 B=0 C=0 D=1;" || return
	plain "s = l.accept()[0]
s.recv(100)
s.sendall(b'MPA ID Rep Frame' + bytes([0x50, 2, 0, 4, 0, 0, 0, 5]))
l.accept()" || return
	client 4 --ird 0 --ord 1 </dev/null || return
	stop
	says "$work/client.err" 'raise --ird' || return
	serve --reject no </dev/null || return
	ping 4 --verbose --revision 2 --markers || return
	served 0 && says "$work/client.out" "^  the peer's frame: revision 2, M=0 C=1 R=1 S=1;"
}

short_help() {
	local command

	for command in "${commands[@]}"; do
		# shellcheck disable=SC2086 # words
		expect "-h of $command" "$("$mpa" $command --help)" "$("$mpa" $command -h)" ||
			return
	done
}

usage_errors() {
	usage && usage nothing && usage listen && usage connect && usage ping &&
		usage connect --records words x:1 &&
		usage connect --send a --exec b x:1 &&
		usage connect --place --records stream x:1 &&
		usage connect --place --no-crc x:1 &&
		usage connect fd05:44::2:1 && usage connect a b c &&
		usage connect --role king x:1 && usage connect --revision 3 x:1 &&
		usage listen --max 3 1 && usage listen --keep --fork 1 &&
		usage listen --fork --max 0 1 && usage listen --count 2 1 &&
		usage listen --reject no --role direct 1 && usage listen --keep --send - 1 &&
		usage ping --count 0 x:1 && usage ping --role responder x:1 &&
		usage ping --tx-markers x:1 && usage ping --echo 3 x:1 &&
		says "$work/client.err" '^mpa ping: 3 x:1: expected HOST:PORT or HOST PORT$'
}

# Each command finds the server with each form of its address.
addresses_have_many_forms() {
	local each

	serve --keep --exec cat </dev/null || return
	for each in "10.5.4.2:$port" "10.5.4.2 $port" "[10.5.4.2] $port" "-p $port 10.5.4.2" \
		    "--port $port 10.5.4.2" "10.5.4.2 -p $port"; do
		# shellcheck disable=SC2086 # words
		expect "what $each answers" x "$(echo x | "${limit[@]}" ip netns exec alpha \
			"$mpa" connect -q $each)" || return
		# shellcheck disable=SC2086 # words
		"${limit[@]}" ip netns exec alpha "$mpa" ping -q -W 50 $each || return
	done
	stop
	rm -f "$work/port"
	mkfifo "$work/port"
	ip netns exec beta "$mpa" listen --port-file "$work/port" --exec cat -p 0 fd05:44::2 \
		>/dev/null 2>"$work/server.err" &
	server=$!
	read -r -t "$patience" port <>"$work/port" || return
	expect "what IPv6 answers" x "$(echo x | "${limit[@]}" ip netns exec alpha \
		"$mpa" connect -q -p "$port" fd05:44::2)" && served 0 || return
	usage connect "fd05:44::2:$port" && says "$work/client.err" "-p $port fd05:44::2\$" &&
		usage connect -p "$port" 10.5.4.2 "$port"
}

# -N replaces "ip netns exec". It takes a name, or a path.
a_namespace_is_chosen() {
	rm -f "$work/port"
	mkfifo "$work/port"
	"$mpa" -N beta listen --port-file "$work/port" --exec cat 10.5.4.2 0 \
		>/dev/null 2>"$work/server.err" &
	server=$!
	read -r -t "$patience" port <>"$work/port" &&
		expect "what listens" listening "$("$mpa" --netns beta show -H port "$port" |
			grep -o listening)" &&
		expect "what listens here" "" "$("$mpa" show -H port "$port")" &&
		expect "the answer" x "$(echo x | "${limit[@]}" "$mpa" -N /run/netns/alpha \
			connect -q 10.5.4.2 "$port")" && served 0 &&
		usage -N nosuch show && says "$work/client.err" "/run/netns/nosuch: No such file"
}

# activated KIND NUMBER COMMAND...: run COMMAND with a socket of beta, passed like
# systemd, and LISTEN_FDS=NUMBER. Set port and server. KIND is no or yes, as for
# Accept=, or gone: a listener whose first client has already closed.
activated() {
	rm -f "$work/port"
	mkfifo "$work/port"
	ip netns exec beta timeout "$patience" python3 -c "
import os, socket, sys
listener = socket.create_server(('10.5.4.2', 0))
sock = listener
open('$work/port', 'w').write('%d\n' % listener.getsockname()[1])
if sys.argv[1] == 'yes':
    sock = listener.accept()[0]
if sys.argv[1] == 'gone':
    socket.create_connection(listener.getsockname()).close()
os.dup2(sock.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execvp(sys.argv[3], sys.argv[3:])" "$@" </dev/null >"$work/server.out" 2>"$work/server.err" &
	server=$!
	read -r -t "$patience" port <>"$work/port"
}

systemd_passes_a_socket() {
	local each

	activated no 1 "$mpa" listen --fork --count 2 --exec 'cat; env >&2' || return
	for each in x y; do
		client 0 <<<"$each" || return
		expect "the echo" "$each" "$(<"$work/client.out")" || return
	done
	served 0 && says "$work/server.err" '^MPA_PEER=' || return
	! grep LISTEN_ "$work/server.err" || return
	activated yes 1 "$mpa" listen --exec cat || return
	client 0 <<<one || return
	expect "the echo" one "$(<"$work/client.out")" && served 0 || return
	activated no 2 "$mpa" listen --exec cat && served 2 &&
		says "$work/server.err" 'passed 2 sockets, expected one'
}

# A peer that closes before accept() is reported and skipped.
activated_outlives_a_quick_end() {
	activated gone 1 "$mpa" listen --keep --count 1 --exec cat || return
	client 0 <<<x || return
	expect "the echo" x "$(<"$work/client.out")" && served 0 &&
		says "$work/server.err" 'has ended before it was accepted'
}

# As in Documentation/containers.rst: a user without privileges, in user and network
# namespaces of its own, while the module is loaded
in_container() {
	ip link set lo up
	"$1" listen --keep --exec cat --port-file "$2/port" -p 0 127.0.0.1 &
	read -r -t "$3" port <>"$2/port" || return
	echo "$(echo hello | "$1" connect -q -p "$port" 127.0.0.1)"
	"$1" policy startup-max=7 startup-max
	"$1" show -H state listening | wc -l
	kill %1
}

containers_need_no_privilege() {
	mkdir -p "$work/container"
	install -m 755 "$mpa" "$work/container/mpa"
	rm -f "$work/container/port"
	mkfifo "$work/container/port"
	chown -R 65534:65534 "$work/container"
	chmod 711 "$work"
	expect "what it says" "hello 7 1" "$(timeout "$patience" setpriv --reuid 65534 \
		--regid 65534 --clear-groups unshare --user --map-root-user --net \
		bash -c "$(declare -f in_container); in_container \"\$@\"" - \
		"$work/container/mpa" "$work/container" "$patience" 2>"$work/client.err" | xargs)" &&
		expect "what holds outside" 4096 "$("$mpa" policy startup-max)"
}

# getaddrinfo() takes port numbers modulo 65536, but mpa must refuse larger ones.
ports_are_numbers() {
	local each

	for each in 65536 99999 4294971538 4242x; do
		usage listen "$each" && usage connect "localhost:$each" &&
			usage ping "localhost:$each" || return
	done
}

# ---- ping ----

ping_reports() {
	serve --keep --exec cat --private-data 'welcome' </dev/null || return
	ping 0 || return
	says "$work/client.out" '^revision 2 with markers \.\.\. accepted \(markers received, CRCs, MULPDU [0-9]+\), TCP [0-9.]+ ms, MPA [0-9.]+ ms$' &&
		says "$work/client.out" 'private data "welcome"' || return
	ping 0 --count 3 --interval 0 --echo --revision 1 --json || return
	python3 - "$work/client.out" <<-'END' || return
		import json, sys

		*pings, last = [json.loads(line) for line in open(sys.argv[1])]
		assert len(pings) == 3, pings
		for each in pings:
		    assert each["revision"] == 1 and each["status"] == 0, each
		    assert 0 < each["echo_ms"] < 5000 and 0 < each["mpa_ms"], each
		assert last["connections"] == last["good"] == 3, last
		for each in "TCP", "MPA", "echo":
		    times = last[each]
		    assert times["min_ms"] <= times["median_ms"] <= times["max_ms"], last
		    assert times["min_ms"] <= times["mean_ms"] <= times["max_ms"], last
	END
	stop
}

# ping finds a peer of revision 1 that refuses markers, and prints all refused attempts.
ping_tries_without() {
	plain "
while True:
    s = l.accept()[0]
    r = s.recv(100)
    if r[17] == 1:
        s.sendall(b'MPA ID Rep Frame' + bytes([0x60 if r[16] & 0x80 else 0x40, 1, 0, 0]))
        s.recv(1)
    s.close()" || return
	ping 0 || return
	stop
	expect "the number of lines" 5 "$(wc -l <"$work/client.out")" &&
		says "$work/client.out" '^revision 2 with markers \.\.\. no, ' &&
		says "$work/client.out" '^revision 2 \.\.\. no, ' &&
		says "$work/client.out" '^revision 1 with markers \.\.\. no, the peer refused' &&
		says "$work/client.out" '^revision 1 \.\.\. accepted \(no markers'
}

ping_fails() {
	port=1
	ping 3 && says "$work/client.out" 'no TCP connection: Connection refused \(nothing listens there\)$' || return
	serve --keep --reject 'not you' </dev/null || return
	ping 4 || return
	stop
	says "$work/client.out" 'refused: .*"not you"' || return
	serve --keep --exec 'sed -u s/a/b/' </dev/null || return
	ping 8 --echo || return
	stop
	plain "
while True:
    s = l.accept()[0]
    s.sendall(b'220 smtp\r\n')
    s.close()" || return
	ping 5 || return
	stop
}

# A peer accepts connections but does not answer: all attempts together take a bounded
# time, and each is named.
ping_bounds_silence() {
	local began

	plain "
kept = []
while True:
    kept.append(l.accept()[0])" || return
	began=$(date +%s%3N)
	ping 5 --timeout 2 || return
	began=$(($(date +%s%3N) - began))
	[[ $began -ge 1900 && $began -lt 6000 ]] || {
		echo "expected about 2000 ms, seen $began"
		return 1
	}
	expect "the tries" 4 "$(grep -c '\.\.\. no, .*in time' "$work/client.out")" || return
	ping_is_interrupted revision '^0 connections, 0 good, 0 % lost$' || return
	stop
}

# ping_is_interrupted PATTERN SUMMARY [OPTION...]: interrupt ping once it has printed
# PATTERN
ping_is_interrupted() {
	local pid rc=0

	timeout "$patience" ip netns exec alpha "$mpa" ping --timeout 50 \
		"${@:3}" "10.5.4.2:$port" >"$work/client.out" 2>&1 &
	pid=$!
	timeout "$patience" sh -c "until grep -q '$1' '$work/client.out'; do sleep 0.05; done" || {
		kill $pid
		return 1
	}
	kill -INT "$(pgrep -P $pid)"
	wait $pid || rc=$?
	expect "the status of ping" 130 $rc && says "$work/client.out" "$2"
}

ping_says_what_it_has_measured() {
	serve --keep </dev/null || return
	ping_is_interrupted 'connection 2' \
		'^[0-9]+ connections, [0-9]+ good, 0 % lost; min/avg/max/mdev in ms: TCP [0-9./]+ MPA [0-9./]+$' \
		--count 1000 --interval 0.1 || return
	stop
}

# ---- documents, completion ----

commands=(listen connect ping show monitor policy "perf server" "perf client")

# options COMMAND...: print the options that --help lists
options() {
	"$mpa" "$@" --help | awk '/^ +-/ {
		for (i = 1; i <= NF && $i ~ /^-/; i++) {
			sub(/[,=[].*/, "", $i)
			print $i
		}
	}' | grep -vxE -e '-\?|--help|--usage|-V|--version'
}

pages_name_all_options() {
	local command each page text missing=0

	for command in "${commands[@]}"; do
		page=$(dirname "$mpa")/man/mpa-${command% *}.1
		[[ -s $page ]] || {
			echo "no $page"
			return 1
		}
		text=$(sed 's/\\f.//g; s/\\//g' "$page")
		# shellcheck disable=SC2086 # words
		for each in $(options $command); do
			grep -qE -- "(^|[^-])$each([^a-z-]|\$)" <<<"$text" || {
				echo "$page lacks $each"
				missing=1
			}
		done
	done
	return $missing
}

# Each option on a page must be one of that command, or of perf's two.
pages_name_no_other_options() {
	local command each man=$here/../../tools/mpa/man known wrong=0

	for command in listen connect ping show monitor policy perf; do
		known=$(for each in "${commands[@]}"; do
			# shellcheck disable=SC2086 # words
			[[ ${each% *} != "$command" ]] || options $each
		done)
		# shellcheck disable=SC2046 # names of files
		for each in $(cat "$man/mpa-$command.rst" \
				$(sed -n "s,^.. include:: ,$man/,p" "$man/mpa-$command.rst") |
			      grep -E '^-{1,2}[a-zA-Z0-9]' | grep -oE '(^|, )--?[a-zA-Z0-9-]+' |
			      tr -d ', ' | sort -u); do
			grep -qxF -e "$each" <<<"$known" || {
				echo "mpa-$command.rst lists $each, which mpa $command --help lacks"
				wrong=1
			}
		done
	done
	return $wrong
}

# completed WORD...: print the completions offered for the last word
completed() {
	# shellcheck disable=SC2016 # for the shell that completes
	bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _mpa
		printf "%s\n" "${COMPREPLY[@]}"' "$here/../../tools/mpa/completion.bash" \
		"$mpa" "$@" | sort | xargs
}

completion() {
	local command

	expect "commands" "listen" "$(completed l)" &&
		expect "records" "length lines stream" "$(completed listen --records '')" &&
		expect "records" "stream" "$(completed connect --records = s)" &&
		expect "roles" "direct initiator responder" "$(completed connect --role =)" &&
		expect "files" "$work/file" "$(completed connect --send "$work/fi")" &&
		expect "pages" "perf ping policy" "$(completed help p)" &&
		expect "no FORM" "cookie failed local port remote role state tuf user" \
			"$(completed monitor -r '')" &&
		expect "words" "stat state" "$(completed show sta)" &&
		expect "states" "full,rejected full,requested" "$(completed show state full,re)" &&
		expect "roles" "direct" "$(completed monitor role d)" &&
		expect "events" "started,failed" "$(completed monitor --event started,f)" &&
		expect "tests" "latency rate stream" "$(completed perf client --test '')" &&
		expect "ends" "-c -s client server" "$(completed perf '')" &&
		expect "tests" "latency rate stream" "$(completed perf -c --test '')" &&
		expect "values" "startup-max startup-max= startup-timeout-ms startup-timeout-ms=" "$(completed policy st)" &&
		expect "a namespace" "alpha" "$(completed -N al)" &&
		expect "states" "full" "$(completed -N alpha show state fu)" &&
		expect "a number" "" "$(completed show --count '')" || return
	# shellcheck disable=SC2086 # words
	for command in "${commands[@]}"; do
		expect "options" "$(options $command | grep -e '^--' | sort | xargs)" \
			"$(completed $command -- | sed 's/ *--help//; s/ *--usage//; s/ *--version//' | xargs)" ||
			return
	done
}

hosts_up 1500
tap_run "lines_go_both_ways" lines_both_ways
tap_run "a_responder_waits_and_says_so" responder_waits
tap_run "lengths_keep_records_apart" lengths_keep_records
tap_run "a_wrong_length_is_an_error" wrong_lengths
tap_run "a_line_that_is_too_long_is_an_error" long_line_is_an_error
tap_run "a_stream_goes_both_ways" stream_both_ways
tap_run "a_slow_reader_loses_nothing" slow_reader
tap_run "roles_are_reversed_and_depths_agreed_on" roles_and_depths
tap_run "without_startup" no_startup
tap_run "json_has_events_and_any_octets" json_octets
tap_run "a_file_arrives" file_arrives
tap_run "a_file_comes_from_a_listener" file_from_a_listener
tap_run "a_file_goes_through_pipes" file_through_pipes
tap_run "an_empty_file_arrives" empty_file
tap_run "a_file_is_placed_under_loss" file_under_loss
tap_run "a_file_is_not_overwritten" no_overwriting
tap_run "names_from_a_hostile_peer" hostile_names
tap_run "files_from_a_hostile_peer" hostile_files
tap_run "an_interrupted_receiver_leaves_nothing" interrupted_receiver_leaves_nothing
tap_run "the_status_of_a_command_is_kept" command_status_is_kept
tap_run "a_command_that_writes_ends_with_its_connection" writer_ends_with_its_connection
tap_run "a_command_that_idles_ends_with_its_connection" idler_ends_with_its_connection
tap_run "a_command_that_stays_ends_with_its_connection" stubborn_ends_with_its_connection
tap_run "a_port_is_a_number_up_to_65535" ports_are_numbers
tap_run "an_address_has_many_forms" addresses_have_many_forms
tap_run "a_namespace_is_chosen" a_namespace_is_chosen
tap_run "containers_need_no_privilege" containers_need_no_privilege
tap_run "systemd_passes_a_socket" systemd_passes_a_socket
tap_run "a_passed_socket_outlives_a_quick_end" activated_outlives_a_quick_end
tap_run "a_command_that_reads_nothing_ends" command_that_reads_nothing_ends
tap_run "a_client_ends_with_its_peer" end_with_peer
tap_run "fork_serves_in_parallel" fork_in_parallel
tap_run "fork_ends_with_its_reader" fork_ends_with_its_reader
tap_run "json_reports_each_end" json_of_refused
tap_run "keep_continues_after_a_failure" keep_continues
tap_run "a_refusal_ends_with_4" refused
tap_run "what_is_not_mpa_ends_with_5" not_mpa
tap_run "nobody_there_ends_with_3" nobody_listens
tap_run "damage_ends_with_6" damaged
tap_run "a_lost_connection_ends_with_7" lost
tap_run "a_bad_end_resets_the_connection" bad_ends
tap_run "peer_to_peer_is_reported_and_disagreement_ends_with_4" peer_to_peer
tap_run "help_has_a_short_option" short_help
tap_run "wrong_usage_ends_with_2" usage_errors
tap_run "ping_reports_what_was_agreed_on" ping_reports
tap_run "ping_tries_without" ping_tries_without
tap_run "ping_says_why_not" ping_fails
tap_run "ping_bounds_the_time_of_a_silent_peer" ping_bounds_silence
tap_run "ping_says_what_it_has_measured_when_it_is_interrupted" ping_says_what_it_has_measured
tap_run "pages_name_all_options" pages_name_all_options
tap_run "pages_name_no_other_options" pages_name_no_other_options
tap_run "bash_completes" completion
tap_end
