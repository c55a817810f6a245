#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The programs in examples/, as a user runs them: their output and files are
# compared. MPA_EXAMPLES_CONNECTIONS is the number of connections that epoll opens.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
examples=${MPA_EXAMPLES:-$here/../../build/examples}
connections=${MPA_EXAMPLES_CONNECTIONS:-10000}
in_alpha=(ip netns exec alpha timeout 300)
in_beta=(ip netns exec beta)
server=10.5.4.2

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
for tool in ip tc ethtool cmp; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
[[ -x $examples/echo ]] || skip_all "needs build/examples: make tools"
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

dir=$(mktemp -d)
server_pid=
cleanup() {
	server_stop
	hosts_down
	rm -rf "$dir"
}
trap cleanup EXIT

# server_start COMMAND...: start it in beta, and wait until it listens; its output is in
# $dir/server
server_start() {
	: >"$dir/server"
	"${in_beta[@]}" stdbuf -oL "$@" >"$dir/server" 2>&1 &
	server_pid=$!
	server_says '^listening$' | sed 's/^/# /'
}

# server_says WORDS [TIMES]: wait until the server has printed WORDS TIMES times (1)
server_says() {
	local end=$((SECONDS + 120))

	until [[ $(grep -c "$1" "$dir/server") -ge ${2:-1} ]]; do
		if [[ $SECONDS -ge $end ]] || ! kill -0 "$server_pid" 2>/dev/null; then
			echo "The server has not said \"$1\", but:"
			cat "$dir/server"
			return 1
		fi
		read -r -t 0.05 <> <(:) || true
	done
}

server_stop() {
	[[ -n $server_pid ]] || return 0
	kill "$server_pid" 2>/dev/null || true
	wait "$server_pid" 2>/dev/null || true
	server_pid=
}

# same EXPECTED SEEN
same() {
	[[ $1 = "$2" ]] || {
		echo "expected: $1"
		echo "seen:     $2"
		cat "$dir/server"
		return 1
	}
}

# ---- echo ----

words_come_back() {
	same $'hello\na second record' "$("${in_alpha[@]}" "$examples/echo" client \
		$server 4242 hello "a second record" 2>&1)"
}

# Lines of 1 to 3000 octets
lines() {
	awk 'BEGIN {
		for (i = 0; i < 6000; i++)
			text = text i % 10
		for (i = 1; i <= 3000; i += 7)
			print substr(text, i, i)
	}'
}

lines_come_back() {
	lines >"$dir/lines"
	"${in_alpha[@]}" "$examples/echo" client $server 4242 \
		<"$dir/lines" >"$dir/answers" && cmp "$dir/lines" "$dir/answers"
}

server_is_not_there() {
	local said rc=0

	said=$("${in_alpha[@]}" "$examples/echo" client $server 4999 x 2>&1) || rc=$?
	same "1 echo: connecting: nothing listens there, or the peer rejected the request" "$rc $said"
}

empty_line_is_reported() {
	local said rc=0

	said=$("${in_alpha[@]}" "$examples/echo" client $server 4242 <<<"" 2>&1) || rc=$?
	same "1 echo: a record must have at least one octet" "$rc $said"
}

hosts_down
hosts_up 1500
server_start "$examples/echo" server 4242
tap_run echo_sends_records_back words_come_back
tap_run echo_sends_lines_back lines_come_back
# One end is in Go and the other in C, both ways
go_speaks_with_c() {
	same $'hello\na second record' "$("${in_alpha[@]}" "$examples/echo-go" client \
		$server:4242 hello "a second record" 2>&1)" || return
	server_stop
	server_start "$examples/echo-go" server 4242
	words_come_back
	server_stop
	server_start "$examples/echo" server 4242
}

if [[ -x $examples/echo-go ]]; then
	rc=0
	go_speaks_with_c >"$dir/go" 2>&1 || rc=$?
	tap_ok $rc echo_in_go_speaks_with_c "$(<"$dir/go")"
else
	tap_ok 0 "echo_in_go_speaks_with_c # SKIP no golang-go when it was built"
fi
tap_run echo_reports_that_nobody_listens server_is_not_there
tap_run echo_reports_an_empty_line empty_line_is_reported
server_stop

# ---- rpc ----

# overtakes COUNT: all answers must be right, and some must arrive before lost ones
overtakes() {
	local said

	said=$("${in_alpha[@]}" "$examples/rpc" client $server 4242 "$1" 2>&1) || {
		echo "$said"
		return 1
	}
	server_says " requests, " || return
	echo "client: $said; server: $(tail -n 1 "$dir/server")" | tee "$dir/rpc"
	[[ $said = "$1 answers, "[1-9]*" of them early" ]] &&
		grep -q "^$1 requests, [1-9]" "$dir/server"
}

in_order() {
	same "500 answers, 0 of them early" "$("${in_alpha[@]}" "$examples/rpc" client \
		$server 4242 500 2>&1)"
}

server_start "$examples/rpc" server 4242
tap_run rpc_without_losses in_order
server_stop
for host in "alpha va" "beta vb"; do
	read -r name dev <<<"$host"
	tc -n "$name" qdisc add dev "$dev" root netem delay 5ms loss 3% limit 2000
done
server_start "$examples/rpc" server 4242
tap_run rpc_overtakes_lost_records overtakes 2000
sed 's/^/# /' "$dir/rpc" 2>/dev/null || true
server_stop
hosts_down

# ---- fileserver ----

file_comes() {
	"${in_alpha[@]}" "$examples/fileserver" get $server 4242 "$1" >"$dir/copy" &&
		cmp "$dir/files/$1" "$dir/copy"
}

# not_given NAME ERROR: the server must refuse the file with ERROR
not_given() {
	local said rc=0

	said=$("${in_alpha[@]}" "$examples/fileserver" get $server 4242 "$1" 2>&1) ||
		rc=$?
	same "1 fileserver: $1: $2" "$rc $said"
}

hosts_up 1500
mkdir "$dir/files"
head -c 10000001 /dev/urandom >"$dir/files/large"
: >"$dir/files/empty"
echo secret >"$dir/secret"
ln -s ../secret "$dir/files/link"
server_start "$examples/fileserver" serve 4242 "$dir/files"
tap_run fileserver_sends_a_file file_comes large
tap_run fileserver_sends_an_empty_file file_comes empty
tap_run fileserver_reports_what_there_is_not not_given nothing \
	"No such file or directory"
tap_run fileserver_stays_in_its_directory not_given ../secret "Permission denied"
tap_run fileserver_follows_no_link not_given link "Too many levels of symbolic links"
server_stop

# ---- few files ----

# shellcheck disable=SC2016 # for the inner shell
few_files=(sh -c 'ulimit -n "$1"; shift; exec "$@"' sh)

# The server may have 8 files open, 3 of them connections. 6 clients stay until the
# server has reported that. It must not retry continuously.
others_wait_for_files() {
	local n pids=() hold

	rm -f "$dir/hold"
	mkfifo "$dir/hold"
	exec {hold}<>"$dir/hold"
	for n in 1 2 3 4 5 6; do
		{ echo "client $n"; cat "$dir/hold"; } {hold}>&- |
			"${in_alpha[@]}" "$examples/echo" client $server 4242 \
				>"$dir/client$n" 2>&1 {hold}>&- &
		pids+=($!)
	done
	server_says "Too many open files" || return
	exec {hold}>&-
	wait "${pids[@]}"
	for n in 1 2 3 4 5 6; do
		same "client $n" "$(<"$dir/client$n")" || return
	done
	[[ $(grep -c "Too many open files" "$dir/server") -lt 100 ]]
}

# A server that has no connection, for lack of files, tries again on its own.
tries_again() {
	local client rc=0

	"${in_alpha[@]}" "$examples/echo" client $server 4242 hello >/dev/null 2>&1 &
	client=$!
	server_says "Too many open files" 3 || rc=$?
	kill "$client" 2>/dev/null || true
	return $rc
}

# ---- io_uring ----

uring_serves() {
	local n pids=()

	for n in 1 2 3; do
		"${in_alpha[@]}" "$examples/echo" client $server 4242 \
			<"$dir/lines" >"$dir/answers$n" &
		pids+=($!)
	done
	wait "${pids[@]}" || return
	for n in 1 2 3; do
		cmp "$dir/lines" "$dir/answers$n" || return
	done
}

if [[ ! -x $examples/uring ]]; then
	tap_ok 0 "uring_sends_lines_back # SKIP built without liburing"
elif server_start "$examples/uring" 4242; then
	tap_run uring_sends_lines_back uring_serves
	server_stop
	server_start "${few_files[@]}" 8 "$examples/uring" 4242
	tap_run uring_continues_when_files_are_free_again others_wait_for_files
elif grep -q "no io_uring" "$dir/server"; then
	tap_ok 0 "uring_sends_lines_back # SKIP $(<"$dir/server")"
else
	tap_ok 1 "uring_sends_lines_back"
fi
server_stop

# ---- epoll ----

many_at_once() {
	same "$connections connections open, $((connections * 2)) records answered" \
		"$("${in_alpha[@]}" "$examples/epoll" load $server 4242 \
			"$connections" 2 2>&1)"
}

server_start "${few_files[@]}" 8 "$examples/epoll" server 4242
tap_run epoll_continues_when_files_are_free_again others_wait_for_files
server_stop
server_start "${few_files[@]}" 5 "$examples/epoll" server 4242
tap_run epoll_tries_again_without_connections tries_again
server_stop

ulimit -n $((connections + 100))
server_start "$examples/epoll" server 4242
began=$SECONDS
tap_run epoll_serves_many_connections many_at_once
echo "# $connections connections, two records each, in $((SECONDS - began)) s;" \
	"$(awk '/^MemAvailable/ { print int($2 / 1024) }' /proc/meminfo) MiB are free"
server_stop
tap_end
