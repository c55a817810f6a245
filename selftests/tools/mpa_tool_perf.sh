#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa perf between two hosts: each test in each direction, the JSON output, the exit
# status, and a server that survives unknown or killed clients.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
mpa=${MPA_TOOL:-$here/../../build/tools/mpa}
port=5046
python=(/usr/bin/python3 -B "$here/mpa_tool_perf.py")

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
[[ -x $mpa ]] || skip_all "make tools"
for tool in ip tc ethtool /usr/bin/python3; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

dir=$(mktemp -d)
trap cleanup EXIT

# background FILE PATTERN COMMAND...: run COMMAND on beta, and return once it has
# printed PATTERN; $pid is the process
background() {
	local file=$1 pattern=$2

	shift 2
	mkfifo "$file.says"
	ip netns exec beta "$@" >"$file.out" 2>"$file.says" &
	pid=$!
	exec {says}<"$file.says"
	until read -r -u "$says" line && [[ $line = *$pattern* ]]; do
		kill -0 "$pid" || return 1
	done
}

client() {
	timeout 150 ip netns exec alpha "$mpa" perf client "$@"
}

# ends STATUS WORDS COMMAND...: COMMAND must end with STATUS, and print WORDS
ends() {
	local status=$1 words=$2 said rc=0

	shift 2
	said=$("$@" 2>&1) || rc=$?
	[[ $rc -eq $status && $said = *$words* ]] && return
	echo "expected $status and \"$words\", seen $rc and"
	echo "$said"
	return 1
}

# run NAME OPTION...: run a test; its JSON is checked at the end
run() {
	local rc=0

	client --json "${@:2}" "10.5.4.2:$port" >"$dir/$1.json" 2>"$dir/$1.err" || rc=$?
	tap_ok $rc "$1" "status $rc: $(<"$dir/$1.err")"
}

hosts_up 1500
background "$dir/server" "serving on" "$mpa" perf server --json $port
server=$pid

# ---- each test, each direction ----

run send_1 -n 256K --verify --interval 0.01
run reverse_1 -n 256K --verify --reverse --interval 0.01
run bidir_1 -n 256K --verify --bidir --segment 500
run send_50 -n 256K -c 50
run reverse_50 -n 256K -c 50 --reverse
run bidir_50 -n 200K -c 50 --bidir --size 4096 --verify
run rate -n 256K --test rate --batch 32
run latency_1 -n 64000 --test latency --verify
run latency_50 -n 3200 --test latency -c 50
run warmup -n 256K --warmup 0.1
run tcp -n 256K --tcp --bidir --verify
run compare --compare --rounds 3 -t 0.1
run markers -n 64K --markers --test rate --size 1000
run responder -n 64K --role responder --reverse
run direct -n 64K --role direct --bidir

# ---- what both administrators decide, and a network with losses ----

run crc_stays -n 64K --no-crc
ip netns exec alpha sysctl -qw net.mpa.crc_optional=1
ip netns exec beta sysctl -qw net.mpa.crc_optional=1
run crc_off -n 64K --no-crc
tc -n alpha qdisc add dev va root netem delay 1ms loss 3%
run place -n 1M --place --size 1000 --verify --batch 16
tc -n alpha qdisc del dev va root

# ---- text ----

tap_run "text_says_what_was_measured" ends 0 "records sent and received" \
	client -n 64K "10.5.4.2:$port"
tap_run "comparison_says_what_it_cannot_measure" ends 0 "Both ends ran on one machine" \
	client --compare --rounds 1 -t 0.05 "10.5.4.2:$port"
tap_run "what_was_not_reached_is_said" ends 0 "--time expired before" \
	client -n 1T -t 0.05 "10.5.4.2:$port"

# ---- unknown clients, and clients that die ----

tap_run "server_outlives_junk" timeout 150 ip netns exec alpha "${python[@]}" junk $port
tap_run "another_version_is_reported" ends 0 "use the same mpa" \
	ip netns exec alpha "${python[@]}" hello $port "MPA-PERF 99 CONTROL"

# under_way: whether the server runs a test with an MPA connection
under_way() {
	local until=$((SECONDS + 20))

	until ip netns exec beta ss -Htni state established "sport = :$port" |
	      grep -q tcp-ulp-mpa; do
		[[ $SECONDS -lt $until ]] || return
	done
}

# not_busy: wait until the server serves a client again
not_busy() {
	local until=$((SECONDS + 20)) rc

	while :; do
		rc=0
		client -q -n 1K -s 64 "10.5.4.2:$port" 2>"$dir/busy" || rc=$?
		[[ $rc -eq 4 && $SECONDS -lt $until ]] || break
	done
	cat "$dir/busy"
	return $rc
}

kill_client() {
	ip netns exec alpha "$mpa" perf client -q -t 60 --test latency "10.5.4.2:$port" &
	under_way || return
	ends 4 "busy with a test of" client "10.5.4.2:$port" || return
	kill -KILL $!
	wait $! || true
	not_busy
}

# A client that sends a hello and nothing else occupies the server only for a while.
hold_server() {
	local rc=0 holder

	coproc { exec ip netns exec alpha "${python[@]}" hold $port; }
	# shellcheck disable=SC2153 # coproc sets it
	holder=$COPROC_PID
	read -r -u "${COPROC[0]}" || return
	ends 4 "busy with a test of" client "10.5.4.2:$port" || rc=1
	not_busy || rc=1
	wait "$holder" || rc=1
	return $rc
}

interrupt_client() {
	local rc=0

	ip netns exec alpha "$mpa" perf client -t 60 --reverse --json \
		"10.5.4.2:$port" >"$dir/interrupted" &
	under_way || return
	kill -INT $!
	wait $! || rc=$?
	[[ $rc -eq 130 ]] && grep -q '"interrupted": true' "$dir/interrupted" &&
		grep -q '"status": 130' "$dir/interrupted" && return
	echo "expected 130 and interrupted, seen $rc and"
	cat "$dir/interrupted"
	return 1
}

tap_run "server_outlives_a_killed_client" kill_client
tap_run "a_silent_client_does_not_hold_the_server" hold_server
# Without job control a process in the background starts with SIGINT ignored.
set -m
tap_run "interrupted_test_has_results" interrupt_client
set +m

# ---- exit statuses ----

# against WHAT STATUS WORDS OPTION...: run a client against a bad server
against() {
	local what=$1 status=$2 words=$3 rc=0

	shift 3
	coproc { exec ip netns exec beta "${python[@]}" serve "$what" $((port + 1)); }
	read -r -u "${COPROC[0]}"
	ends "$status" "$words" client "$@" "10.5.4.2:$((port + 1))" || rc=1
	# shellcheck disable=SC2153 # coproc sets it
	wait "$COPROC_PID" || rc=1
	return $rc
}

tap_run "no_server_is_3" ends 3 "nothing listens" client "10.5.4.2:$((port + 2))"
tap_run "server_of_ssh_is_5" against banner 5 "SSH-2.0" -n 1K
tap_run "server_that_closes_is_5" against closes 5 "is it an mpa perf server?" -n 1K
tap_run "newer_server_is_5" against newer 5 "use the same mpa at both ends" -n 1K
tap_run "octets_that_are_missing_are_8" against lies 8 "received there 65535 and" --tcp -n 64K
tap_run "octets_that_differ_are_8" against corrupts 8 "differs from what was sent" --tcp --bidir \
	--verify -n 64K
tap_run "wrong_options_are_2" ends 2 "--reverse and --bidir cannot" client --test latency --reverse x:1
tap_run "record_that_is_too_long_is_2" ends 2 "64768" client --size 70000 --segment off x:1

one() {
	background "$dir/one" "serving on" "$mpa" perf server --one $((port + 3)) || return
	ends 0 "" client -q -n 1K -s 64 "10.5.4.2:$((port + 3))" || return
	wait $pid && grep -q "received 1024 octets" "$dir/one.out"
}

# iperf3's options
letters_of_iperf3() {
	background "$dir/iperf" "serving on" "$mpa" perf -s -1 -J -6 fd05:44::2 \
		-p 5201 || return
	ends 0 "" timeout 150 ip netns exec alpha "$mpa" perf -n 64K -P 3 -O 0 -l 512 \
		-c fd05:44::2 -J -N -R -6 >"$dir/iperf.json" || return
	wait $pid && grep -q '"event": *"run"' "$dir/iperf.out" || return
	background "$dir/iperf2" "serving on" "$mpa" perf --server --one-off || return
	timeout 150 ip netns exec alpha "$mpa" perf -c 10.5.4.2 -J -t 0.05 -P 2 -l 512 \
		>"$dir/iperf.json" || return
	wait $pid && /usr/bin/python3 -c '
import json, sys
it = json.load(open(sys.argv[1]))["parameters"]
assert it["connections"] == 2 and it["size"] == 512 and it["seconds"] == 0.05, it
' "$dir/iperf.json" || return
	ends 2 "give -s or -c HOST once" "$mpa" perf -c x -s 64 || return
	ends 2 "expected 8 to" "$mpa" perf -c x --fq-rate 7 || return
	ends 2 "the host is missing" "$mpa" perf -c
}

# The server sends (--reverse). TCP does not pace its first ten segments; the other
# 18000 octets take 1.8 s at 80 kbit/s.
tcp_is_set() {
	client -J -n 32K -l 512 --segment off --reverse -C reno --window 64K --fq-rate 80K \
		"10.5.4.2:$port" >"$dir/set.json" || return
	/usr/bin/python3 -c '
import json, sys
it = json.load(open(sys.argv[1]))
said, run = it["parameters"], it["rounds"][0]
assert (said["congestion"], said["window"], said["pacing"]) == ("reno", 65536, 80000), said
for end in "client", "server":
    assert run[end]["tcp"]["congestion_control"] == "reno", run[end]["tcp"]
assert run["client"]["received"]["seconds"] > 1, run["client"]
' "$dir/set.json" || return
	ends 1 "is not loaded there" client -n 1K -C nosuch --reverse "10.5.4.2:$port"
}

tap_run "letters_of_iperf3" letters_of_iperf3
tap_run "tcp_is_set_at_both_ends" tcp_is_set
tap_run "server_for_one_ends" one
kill $server
wait $server || true
tap_run "server_says_each_run_as_json" /usr/bin/python3 -c '
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
assert len(runs) > 20 and all(run["event"] == "run" for run in runs), len(runs)
' "$dir/server.out"

# ---- the figures ----

while read -r name rc what; do
	tap_ok "$([[ $rc = ok ]]; echo $?)" "figures_of_$name" "$what"
done < <("${python[@]}" check "$dir")
connections_end || true
tap_end
