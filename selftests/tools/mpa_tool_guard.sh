#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# "mpa listen" and "mpa connect" with silent, hostile or wrong peers, and with bad files
# and folders. MPA_TOOL is the command.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
# shellcheck source=selftests/tools/tool.sh
. "$here/tool.sh"

# until_says FILE PATTERN: wait until the server has printed PATTERN
until_says() {
	local end=$((SECONDS + patience))

	while ((SECONDS < end)); do
		! grep -qE -- "$2" "$1" || return 0
		read -r -t 0.05 <> <(:) || true
	done
	says "$1" "$2"
}

# silent_peer: open a TCP connection from alpha, until descriptor 9 is closed
silent_peer() {
	rm -f "$work/silent_peer"
	mkfifo "$work/silent_peer"
	ip netns exec alpha timeout "$patience" python3 -c "
import socket, sys
s = socket.create_connection(('10.5.4.2', $port))
sys.stdin.read()" <"$work/silent_peer" &
	exec 9>"$work/silent_peer"
}

# ---- silent peers ----

# A client that connects and sends nothing is served only until startup times out.
silent_startup() {
	serve --fork --max 1 --count 2 --timeout 3 --exec cat </dev/null || return
	silent_peer || return
	until_says "$work/server.err" 'did not arrive in time' || return
	client 0 <<<"my turn" || return
	exec 9>&-
	served 5 && expect "the echo" "my turn" "$(<"$work/client.out")"
}

# A full server reports that once. It closes an idle connection for the next one.
full_is_reported() {
	local open

	serve --fork --max 1 --count 3 --idle 8 --verbose --exec cat </dev/null || return
	rm -f "$work/open"
	mkfifo "$work/open"
	ip netns exec alpha timeout "$patience" "$mpa" connect 10.5.4.2 "$port" <"$work/open" \
		>/dev/null 2>&1 &
	exec {open}>"$work/open"
	until_says "$work/server.err" 'connected: ' || return
	client 0 <<<one || return
	client 0 <<<two || return
	exec {open}>&-
	served 9 || return
	says "$work/server.err" '10\.5\.4\.1:[0-9]+: no record in either direction for 8 seconds' &&
		expect "how often it is reported" 1 \
			"$(grep -c 'a connection waits, as 1 are being served' "$work/server.err")"
}

# Records arrive for longer than --idle, so the connection stays.
records_keep_it() {
	local open i

	serve --idle 8 </dev/null || return
	rm -f "$work/open"
	mkfifo "$work/open"
	ip netns exec alpha timeout "$patience" "$mpa" connect 10.5.4.2 "$port" <"$work/open" \
		>/dev/null 2>&1 &
	exec {open}>"$work/open"
	for i in 1 2 3 4 5 6; do
		echo "record $i" >&"$open"
		until_says "$work/server.out" "record $i" || return
		read -r -t 1.5 <> <(:) || true
	done
	kill -0 "$server" || return
	served 9 || return
	exec {open}>&-
	says "$work/server.err" '\(--idle\)'
}

idle_transfers() {
	folder
	rm -f "$work/open"
	mkfifo "$work/open"
	serve --receive "$work/folder/it" --idle 2 </dev/null || return
	client 4 --send - <"$work/open" &
	exec 9>"$work/open"
	echo some >&9
	served 9 || return
	exec 9>&-
	wait $! && left && says "$work/client.err" 'rejected the file: no record' || return
	# This receiver does not answer.
	plain "
import select
s = l.accept()[0]
s.recv(20)
s.sendall(b'MPA ID Rep Frame' + bytes([0x40, 1, 0, 0]))
while s.recv(10000): pass
p = select.poll()
p.register(s, 0)
p.poll()" || return
	client 9 --send "$work/file" --idle 2 </dev/null || return
	stop
}

# ---- several processes ----

# Lines of parallel processes stay whole, and so do messages. The pipe is read only
# after each has something to write.
lines_stay_whole() {
	local i n pids=() line reader

	line=$(head -c 3000 /dev/zero | tr '\0' x)
	rm -f "$work/pipe"
	mkfifo "$work/pipe"
	exec 9<>"$work/pipe"
	server_out=$work/pipe serve --fork --verbose --count 4 </dev/null || return
	for i in 1 2 3 4; do
		for ((n = 0; n < 300; n++)); do
			echo "$i$line$i"
		done >"$work/lines$i"
		"${limit[@]}" ip netns exec alpha "$mpa" connect 10.5.4.2 "$port" \
			<"$work/lines$i" >/dev/null &
		pids+=($!)
	done
	wait "${pids[@]}" || return
	cat "$work/pipe" >"$work/lines" 9>&- &
	reader=$!
	served 0 || return
	exec 9>&-
	wait "$reader"
	sort "$work/lines" | uniq -c | awk '{ print $1, substr($2, 1, 1) }' >"$work/counts"
	expect "how often which line came" "300 1 300 2 300 3 300 4" "$(xargs <"$work/counts")" &&
		expect "messages in a line of their own" "$(wc -l <"$work/server.err")" \
			"$(grep -o 'mpa listen: ' "$work/server.err" | wc -l)"
}

# ---- which end has failed ----

peers_have_names() {
	local name='^mpa (listen|connect): 10\.5\.4\.[12]:[0-9]+: '

	plain "s = l.accept()[0]
r = s.recv(20)
s.sendall(b'MPA ID Rep Frame' + bytes([0x40, 1, 0, 0]))
s.recv(1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()" || return
	client 7 <<<"x" || return
	says "$work/client.err" "${name}the connection is lost" || return
	# The client resets the connection while the server waits for something else.
	serve --timeout 5 </dev/null || return
	kill -STOP "$server"
	ip netns exec alpha python3 -c "
import socket, struct
s = socket.create_connection(('10.5.4.2', $port))
s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
s.close()" || return
	kill -CONT "$server"
	served 5 || return
	says "$work/server.err" "$name" || return
	serve --timeout 5 </dev/null || return
	ip netns exec alpha python3 -c "
import socket
s = socket.create_connection(('10.5.4.2', $port))
s.sendall(b'GET / HTTP/1.0\r\n\r\n\r\n')
s.recv(1)" 2>/dev/null || true
	served 5 && says "$work/server.err" "${name}the peer's frame is malformed"
}

json_without_connection() {
	port=1
	client 3 --json </dev/null || return
	says "$work/client.out" '^\{"event":"error","error":"cannot connect to .*","status":3\}$' ||
		return
	"$mpa" connect --json nobody.invalid:1 </dev/null >"$work/client.out" 2>/dev/null &&
		return 1
	says "$work/client.out" '^\{"event":"error",.*"status":2\}$'
}

# ---- octets for a terminal ----

# U+009B is the one-character CSI, and U+202E reverses text.
private_data_is_text() {
	printf 'Gr\303\274\303\237e\n\302\2331m\342\200\256x' >"$work/private"
	serve --verbose --json </dev/null || return
	client 0 --private-data "@$work/private" </dev/null || return
	served 0 || return
	says "$work/server.err" 'data: "Grüße\\x0a\\xc2\\x9b1m\\xe2\\x80\\xaex"$' &&
		says "$work/server.out" '"private_data":"Gr\\u00FC\\u00DFe\\n\\u009B1m\\u202Ex"' ||
		return
	printf '\377\033' >"$work/private"
	serve --verbose --json </dev/null || return
	client 0 --private-data "@$work/private" </dev/null || return
	served 0 && says "$work/server.err" 'data: "0xff1b"' &&
		says "$work/server.out" '"private_data_hex":"ff1b"'
}

# on_terminal FILE OPTION...: print the output of "mpa connect" on a terminal
on_terminal() {
	"${limit[@]}" ip netns exec alpha python3 - "$@" <<-END
		import os, pty, sys

		seen = b""
		def read(fd):
		    global seen
		    octets = os.read(fd, 65536)
		    seen += octets
		    return octets
		null = os.open("/dev/null", os.O_RDWR)
		os.dup2(null, 0)
		os.dup2(null, 1)
		pty.spawn(["$mpa", "connect", "--quiet", "--role", "responder",
			   "--end-with-peer", *sys.argv[2:], "10.5.4.2:$port"], read)
		open(sys.argv[1], "wb").write(seen)
	END
}

terminals_are_not_steered() {
	local octets='ä\t\\\033[2J\302\233' seen

	# shellcheck disable=SC2059 # octets
	serve --role initiator < <(printf "$octets\n") || return
	on_terminal "$work/seen" || return
	served 0 || return
	seen=$(tr -d '\r' <"$work/seen")
	expect "what the terminal gets" $'ä\t\\\\x1b[2J\\xc2\\x9b' "$seen" || return
	# shellcheck disable=SC2059 # octets
	serve --role initiator < <(printf "$octets\n") || return
	on_terminal "$work/seen" --raw || return
	served 0 || return
	# shellcheck disable=SC2059 # octets
	expect "what it gets as it is" "$(printf "$octets")" "$(tr -d '\r' <"$work/seen")"
}

hostile_names() {
	local name

	folder
	for name in 'a\302\233b 4' 'a\233b 3' 'a\377 2' 'a\342\200\256b 5' 'a\342\201\246b 5' \
		'a\300\257b 4' 'a\355\240\200 4'; do
		serve --receive "$work/folder" </dev/null || return
		file_head "${name% *}" "${name##* }" 1 | client 0 --records length || return
		served 8 && left && says "$work/server.err" 'cannot be used' || return
		says "$work/server.err" 'file name "a\\x' || return
	done
	serve --receive "$work/folder" </dev/null || return
	cp "$work/file" "$work/Grüße 日本"
	client 0 --send "$work/Grüße 日本" || return
	served 0 && cmp "$work/file" "$work/folder/Grüße 日本"
}

# ---- files ----

head -c 300000 /dev/urandom >"$work/file"

# changing OCTETS: change the file's size to OCTETS while it is sent
changing() {
	local sender

	rm -f "$work/pipe"
	mkfifo "$work/pipe"
	exec 9<>"$work/pipe"
	truncate -s 30000000 "$work/changing"
	server_out=$work/pipe serve --receive - </dev/null || return
	client 1 --send "$work/changing" &
	sender=$!
	# Wait until TCP is full: nothing reads the pipe.
	until [[ $(ip netns exec alpha ss -Htn "dport = :$port" | awk '{ print $3 }') -gt 100000 ]]; do
		kill -0 "$sender" || return
		read -r -t 0.05 <> <(:) || true
	done
	truncate -s "$1" "$work/changing"
	cat "$work/pipe" >/dev/null 9>&- &
	wait "$sender" || return
	served 8 || return
	exec 9>&-
	says "$work/server.err" 'before the file was complete'
}

file_changes() {
	changing 20000000 || return
	says "$work/client.err" 'changed while it was sent: it had 30000000 octets, and now has fewer' ||
		return
	changing 40000000 || return
	says "$work/client.err" 'and now has more'
}

# Files in /proc have a size of 0, whatever they contain.
file_of_proc() {
	folder
	serve --receive "$work/folder" </dev/null || return
	client 0 --send /proc/version || return
	served 0 && cmp /proc/version "$work/folder/version"
}

sizes_are_compared() {
	folder
	serve --receive "$work/folder" </dev/null || return
	{
		file_head f 1 2
		record "$(be 8 0)x" 9
		file_tail 1 "$(printf x | sha256sum | cut -d ' ' -f 1)"
	} | client 0 --records length || return
	served 8 && left && says "$work/server.err" 'announced 2 octets at first, 1 at the end'
}

# damaging TO PLACE: set port to that of a relay to port TO of beta. The relay changes
# the client's octet number PLACE
damaging() {
	plain "
import contextlib, threading

def pump(source, to, place):
    seen = 0
    while octets := bytearray(source.recv(65536)):
        if seen <= place < seen + len(octets):
            octets[place - seen] ^= 1
        seen += len(octets)
        with contextlib.suppress(OSError):
            to.sendall(octets)
    to.shutdown(socket.SHUT_WR)

c = l.accept()[0]
s = socket.create_connection(('10.5.4.2', $1))
threading.Thread(target=pump, args=(c, s, $2)).start()
with contextlib.suppress(OSError):
    pump(s, c, -1)
c.shutdown(socket.SHUT_WR)"
}

# The answer arrives even if a RST follows, or the sender is busy.
damaged_file() {
	local receiver size

	for size in 1000 20000000; do
		folder
		truncate -s $size "$work/damaged"
		serve --receive "$work/folder" </dev/null || return
		receiver=$server
		damaging "$port" 200 || return
		client 8 --send "$work/damaged" || return
		wait "$server" || true
		server=$receiver
		served 6 && left &&
			says "$work/server.err" 'a record is damaged: .*position 40\)$' &&
			says "$work/client.err" 'received file differs; the receiver says: a record is damaged: .*\(error 2, crc, at stream position 40\)$' ||
			return
	done
}

# fails PATTERN COMMAND OPTION...: the command must fail with PATTERN before it connects
# (no server listens)
fails() {
	local rc=0

	"${limit[@]}" ip netns exec alpha "$mpa" "${@:2}" 10.5.4.1 1 </dev/null \
		>"$work/client.out" 2>"$work/client.err" || rc=$?
	expect "the status of $*" 1 $rc && says "$work/client.err" "$1"
}

checked_before() {
	folder
	echo old >"$work/folder/old"
	fails 'No such file' connect --send "$work/nothing" &&
		fails 'is a folder' connect --send "$work/folder" &&
		fails 'No such file' connect --receive "$work/nothing/" &&
		fails 'No such file' listen --receive "$work/nothing/file" &&
		fails '--force' listen --receive "$work/folder/old" &&
		expect "the file" old "$(<"$work/folder/old")" || return
	fails '--force' connect --json --receive "$work/folder/old" &&
		says "$work/client.out" '"event":"error".*"status":1'
}

disk_is_full() {
	local rc=0

	folder
	truncate -s 20000000 "$work/big"
	mount -t tmpfs -o size=64k none "$work/folder" || return
	{ serve --receive "$work/folder" </dev/null && client 8 --send "$work/big" &&
		served 1 && left; } || rc=$?
	umount "$work/folder"
	[[ $rc -eq 0 ]] || return
	says "$work/client.err" 'could not write it: .*No space left' &&
		says "$work/server.err" 'No space left'
}

# Lines and files do not mix: both ends report it.
lines_and_files() {
	folder
	serve </dev/null || return
	client 8 --receive "$work/folder" </dev/null || return
	served 8 && says "$work/server.err" 'wants a file: send one with --send' &&
		expect "what beta got" "" "$(<"$work/server.out")" || return
	serve --receive "$work/folder" </dev/null || return
	client 8 <<<hello || return
	served 8 && says "$work/client.err" 'wants a file: send one with --send' || return
	serve </dev/null || return
	client 7 --send "$work/file" || return
	served 8 && says "$work/server.err" 'sends a file: receive it with --receive'
}

unknown_answer() {
	serve --records length --no-shutdown --exec "{
		head -c 4 >/dev/null
		printf '$(be 4 52)\\377mpadone$(be 4 9)$(be 8 300000)$(be 32 0)'
		cat >/dev/null
	}" </dev/null || return
	client 8 --send "$work/file" || return
	wait "$server" || true
	says "$work/client.err" 'unknown answer 9 from the receiver'
}

# The answer follows another message, and the peer is already gone.
answer_after_another() {
	rm -f "$work/open"
	mkfifo "$work/open"
	serve --records length --exec "{
		head -c 4 >/dev/null
		printf '$(be 4 8)\\377mpawant$(be 4 52)\\377mpadone$(be 4 2)$(be 40 0)'
		printf '\\0\\0'
	}" </dev/null || return
	client 4 --send - <"$work/open" &
	exec 9>"$work/open"
	served 1 || return
	exec 9>&-
	wait $!
}

hosts_up 1500
tap_run "a_silent_peer_has_no_place_for_ever" silent_startup
tap_run "full_is_reported_and_idle_frees" full_is_reported
tap_run "records_keep_a_connection" records_keep_it
tap_run "idle_transfers_end" idle_transfers
tap_run "lines_of_several_stay_whole" lines_stay_whole
tap_run "peers_have_names" peers_have_names
tap_run "json_reports_no_connection" json_without_connection
tap_run "private_data_is_text" private_data_is_text
tap_run "terminals_are_not_steered" terminals_are_not_steered
tap_run "names_that_steer_are_refused" hostile_names
tap_run "a_file_that_changes" file_changes
tap_run "a_file_of_proc" file_of_proc
tap_run "both_sizes_are_compared" sizes_are_compared
tap_run "what_is_wrong_is_said_before" checked_before
tap_run "a_full_disk_is_reported" disk_is_full
tap_run "a_damaged_file_is_reported_at_both_ends" damaged_file
tap_run "lines_and_files_do_not_go_together" lines_and_files
tap_run "an_unknown_answer_is_an_error" unknown_answer
tap_run "an_answer_after_another_is_read" answer_after_another
tap_end
