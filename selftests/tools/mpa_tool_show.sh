#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa show, mpa monitor, mpa policy: connections between the hosts alpha and beta,
# opened by mpa_tool_ends.py; each command has to show their states.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
tool=${MPA_TOOL:-$here/../../build/tools/mpa}

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
for word in ip ethtool setpriv /usr/bin/python3; do
	command -v $word >/dev/null || skip_all "needs $word"
done
[[ -x $tool ]] || skip_all "needs the mpa command: make tools"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

work=$(mktemp -d)
pids=()
# shellcheck disable=SC2317 # a trap calls it
cleanup() {
	local pid

	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	exec 8>&-
	wait
	hosts_down
	rm -rf "$work"
}
trap cleanup EXIT

hosts_down
hosts_up 1500
mkfifo "$work/commands"
exec 7< <(exec /usr/bin/python3 -B "$here/mpa_tool_ends.py" <"$work/commands" 2>&1)
exec 8>"$work/commands"

# ends COMMAND...: send it to mpa_tool_ends.py; the reply is in $answer
ends() {
	echo "$*" >&8
	read -r -t 150 -u 7 answer
	[[ $answer != failed* ]] || {
		tap_ok 1 "ends_are_made" "$answer"
		tap_end
		exit 1
	}
}

# The local port and the cookie of each end: port[NAME.a], cookie[NAME.a]
declare -A port=() cookie=()

# made NAME KIND [ARGUMENT]...: open a connection
made() {
	local words

	ends "$2" "$1" "${@:3}"
	read -r -a words <<<"$answer"
	if [[ ${#words[@]} -eq 2 ]]; then
		words=(0 0 "${words[@]}")
	fi
	port[$1.a]=${words[0]}
	cookie[$1.a]=${words[1]}
	port[$1.b]=${words[2]}
	cookie[$1.b]=${words[3]}
}

# on HOST COMMAND...: run mpa on that host
on() {
	ip netns exec "$1" timeout 150 "$tool" "${@:2}"
}

# as_nobody HOST COMMAND...: run mpa on that host as an ordinary user
as_nobody() {
	ip netns exec "$1" setpriv --reuid 65534 --regid 65534 --clear-groups \
		timeout 150 "$work/mpa" "${@:2}"
}

# has TEXT PATTERN...: whether the text matches each pattern
has() {
	local pattern

	for pattern in "${@:2}"; do
		grep -qE -e "$pattern" <<<"$1" || {
			echo "expected $pattern, seen:"
			echo "$1"
			return 1
		}
	done
}

# lacks TEXT PATTERN...: whether the text matches no pattern
lacks() {
	local pattern

	for pattern in "${@:2}"; do
		! grep -qE -e "$pattern" <<<"$1" || {
			echo "expected no $pattern, seen:"
			echo "$1"
			return 1
		}
	done
}

# ends_with STATUS PATTERN COMMAND...: COMMAND must end with STATUS, and its output must
# match
ends_with() {
	local rc=0 seen

	seen=$("${@:3}" 2>&1) || rc=$?
	[[ $rc -eq $1 ]] || {
		echo "expected the exit status $1, seen $rc: $seen"
		return 1
	}
	has "$seen" "$2"
}

# json TEXT EXPRESSION: whether EXPRESSION is true, with the parsed JSON as "it"
json() {
	/usr/bin/python3 -c '
import json, sys
text, expression = sys.argv[1:]
it = json.loads(text)
sys.exit(0 if eval(expression) else f"expected {expression} of {text}")' "$1" "$2"
}

# lines FILE PATTERN [NUMBER]: wait until NUMBER lines (1) match
lines() {
	local until=$((SECONDS + 100))

	while [[ $(grep -cE -e "$2" "$1") -lt ${3-1} ]]; do
		[[ $SECONDS -lt $until ]] || {
			echo "expected ${3-1} of $2, seen:"
			cat "$1"
			return 1
		}
		read -r -t 0.05 <> <(:) || true
	done
}

# watch NAME HOST ARGUMENT...: start mpa monitor, and wait until it has subscribed. Its
# output is in $work/NAME.out and .err; ${watcher[NAME]} is its process
declare -A watcher=()
watch() {
	: >"$work/$1.err"
	ip netns exec "$2" timeout 1200 "$tool" monitor "${@:3}" >"$work/$1.out" \
		2>"$work/$1.err" &
	watcher[$1]=$!
	pids+=("$!")
	lines "$work/$1.err" watching
}

# unwatch NAME: stop that monitor, and print its output
unwatch() {
	kill "${watcher[$1]}"
	wait "${watcher[$1]}" || true
	cat "$work/$1.out"
}

# Ordinary users need to read this folder.
chmod 755 "$work"
install -m 755 "$tool" "$work/mpa"

watch alpha alpha
watch beta beta
watch json beta --json
made one pair 0 1 1
made marked pair 1 1
made enhanced enhanced
made idle idle
made silent silent
made unanswered unanswered
made requested requested
made rejected rejected
made malformed malformed
made timeout timed_out
made listener listener
made tuf tuf
made plain plain
ends many one.a,one.b 5 1000
ends many tuf.a,tuf.b 3 100

# ---- show ----

# row HOST NAME.END: print the line of this connection
row() {
	on "$1" show -H cookie "${cookie[$2]}"
}

both_ends_are_shown_alike() {
	has "$(row alpha one.a)" "^full +initiator +10.5.4.1:${port[one.a]} +10.5.4.2:${port[one.b]} +rev 1, CRC, markers sent +[0-9]+ +good, aligned 100 %$" &&
		has "$(row beta one.b)" "^full +responder +10.5.4.2:${port[one.b]} +10.5.4.1:${port[one.a]} +rev 1, CRC, markers received +[0-9]+ +good, placing on$" &&
		has "$(row alpha marked.a)" "rev 1, CRC, markers both ways" &&
		has "$(row beta marked.b)" "rev 1, CRC, markers both ways" &&
		has "$(row alpha enhanced.a)" "rev 2, CRC, IRD 3 ORD 3" &&
		has "$(row beta enhanced.b)" "rev 2, CRC, IRD 3 ORD 3"
}

what_waits_says_for_what() {
	has "$(row beta marked.b)" "waits for the peer's first record$" &&
		has "$(row beta silent.b)" "^startup .*waits for the peer's request$" &&
		has "$(row alpha unanswered.a)" "^startup .*waits for the peer's reply$" &&
		has "$(row beta requested.b)" "^requested .*waits for its program"
}

what_is_not_started_is_shown() {
	has "$(row alpha idle.a)" "^idle .*attached, not started$" &&
		has "$(row beta listener.b)" "^listening +- +10.5.4.2:${port[listener.b]} +\*:\* .*listens$" &&
		lacks "$(on alpha show)" ":${port[plain.a]} "
}

what_has_failed_says_why() {
	has "$(row beta malformed.b)" "^failed .*malformed.*EPROTO" &&
		has "$(row beta timeout.b)" "^failed .*did not arrive in time.*ETIMEDOUT" &&
		has "$(row beta rejected.b)" "^rejected .*refused by the local program$" &&
		has "$(row alpha rejected.a)" "^rejected .*refused by the peer$"
}

tuf_is_shown() {
	has "$(row alpha tuf.a)" "^full +tuf .*TUF sent align, received align .*aligned 100 %" &&
		has "$(on beta show --tuf -H)" ":${port[tuf.b]} .*TUF" &&
		[[ $(on beta show --tuf -H | wc -l) -eq 1 && $(on beta show -H tuf) = "$(on beta show -H --tuf)" ]]
}

# shown WORDS NAME...: whether exactly these of beta's connections are shown, by cookie
shown() {
	local each expected=()

	for each in "${@:2}"; do
		expected+=("${cookie[$each]}")
	done
	# shellcheck disable=SC2086 # words
	json "$(on beta show --json $1)" \
		"sorted(c['cookie'] for c in it) == sorted([$(IFS=,; echo "${expected[*]}")])"
}

summary_counts() {
	has "$(on beta show --summary)" "^NUMBER +FAILED +STATE +ROLE$" "^ +1 +1 +rejected +responder$" \
		"^ +2 +2 +failed +responder$" "^ +1 +0 +listening +-$" "^ +3 +0 +full +responder$" &&
		json "$(on beta show -s --json)" "sum(g['number'] for g in it) == 10 and all(g['failed'] <= g['number'] for g in it)" &&
		json "$(on beta show -s --json port 1)" "it == []"
}

filters() {
	shown "state startup" silent.b &&
		shown "state startup,requested" silent.b requested.b &&
		shown "state listening" listener.b &&
		shown "state listening,startup" silent.b listener.b &&
		shown "role responder state idle,startup" silent.b &&
		shown "port ${port[one.a]}" one.b &&
		shown "port ${port[one.b]}" one.b &&
		shown "local 10.5.4.2:${port[tuf.b]}" tuf.b &&
		shown "local :${port[tuf.b]} remote 10.5.4.0/24" tuf.b &&
		shown "local :${port[tuf.b]} remote 10.5.5.0/24" &&
		shown "remote 10.5.4.1:${port[one.a]}" one.b &&
		shown "cookie ${cookie[one.b]}" one.b &&
		shown "$(printf 0x%x "${cookie[one.b]}")" one.b &&
		shown "failed" malformed.b timeout.b rejected.b &&
		shown "failed state failed" malformed.b timeout.b &&
		shown "user nobody" &&
		shown "user root role unspec" tuf.b listener.b
}

bad_filters_are_refused() {
	ends_with 2 "expected idle, startup, full" on beta show state open &&
		ends_with 2 "a port is a number" on beta show port http &&
		ends_with 2 "value is missing" on beta show state &&
		ends_with 2 "is not a filter" on beta show thing &&
		ends_with 2 "address" on beta show local nowhere &&
		ends_with 2 "thing: stat takes no argument" on beta show stat thing
}

json_has_all_of_it() {
	local names="cookie family local-addr4 local-port remote-addr4 remote-port inode uid role state revision flags placing emss mulpdu tx-ulpdus tx-octets tx-markers rx-ulpdus rx-octets rx-markers rx-placed rx-edge tx-packets tx-segs-aligned tx-segs-unaligned rx-held tx-held health has-failed"

	json "$(on beta show --json "${cookie[one.b]}")" \
		"set(it[0]) == set('$names'.split()) and it[0]['flags'] == ['rx-markers', 'tx-crc', 'rx-crc', 'may-send'] and it[0]['rx-ulpdus'] == 5 and it[0]['rx-octets'] == 5000 and it[0]['placing'] and it[0]['role'] == 'responder'" &&
		json "$(on beta show --json)" "len(it) == 10" &&
		json "$(on beta show --json state failed)" "all(c['error'] == 'startup' and c['has-failed'] for c in it)" &&
		json "$(on beta show --json port 1)" "it == []"
}

verbose_has_a_line_for_each() {
	has "$(on beta show -v "${cookie[one.b]}")" "^10.5.4.2:${port[one.b]} -> 10.5.4.1:${port[one.a]}$" \
		"^ +rx-ulpdus +5$" "^ +flags +rx-markers tx-crc rx-crc may-send$" "^ +placing +yes$" \
		"^ +cookie +${cookie[one.b]}$" "^ +health +good, placing on$"
}

lines_fit_the_terminal() {
	local columns seen

	for columns in 132 80 40; do
		seen=$(COLUMNS=$columns on beta show -p)
		[[ $(awk '{ print length }' <<<"$seen" | sort -n | tail -n 1) -le $columns ]] || {
			echo "expected at most $columns columns, seen:"
			echo "$seen"
			return 1
		}
		lacks "$seen" " $" || return
		has "$(tr -s ' \n' ' ' <<<"$seen")" "startup failed: the peer's frame is malformed: does it speak MPA\? \(EPROTO\)" || return
	done
	lacks "$(on beta show -H)" STATE && has "$(on beta show)" "^STATE +ROLE +LOCAL +REMOTE "
}

processes_are_shown() {
	local pid

	pid=$(pgrep -f mpa_tool_ends.py)
	has "$(on beta show -p "${cookie[one.b]}")" "python3[.0-9]*\($pid\)" &&
		json "$(on beta show -p --json "${cookie[one.b]}")" "it[0]['processes'][0]['pid'] == $pid" &&
		ends_with 0 "processes of other users are not shown" as_nobody beta show -p
}

watching_shows_rates() {
	local seen=$work/rates pid n

	on beta show --json --watch 0.5 "${cookie[one.b]}" >"$seen" &
	pid=$!
	lines "$seen" connections || return
	ends many one.a,one.b 20 500
	# Complete lines; when the last was printed, all had come
	n=$(($(wc -l <"$seen") + 2))
	lines "$seen" connections $((n + 1)) || return
	kill "$pid"
	wait "$pid" || true
	[[ $(on beta show --json --watch 0.01 --count 3 | wc -l) -eq 3 ]] || return
	json "[$(head -n "$n" "$seen" | paste -sd,)]" "len(it) == $n and 'rates' not in it[0]['connections'][0] and it[1]['seconds'] > 0.4 and abs(sum(r['connections'][0]['rates']['rx-ulpdus'] * r['seconds'] for r in it[1:]) - 20) < 0.001 and abs(sum(r['connections'][0]['rates']['rx-octets'] * r['seconds'] for r in it[1:]) - 10000) < 0.001" &&
		has "$(on beta show --watch 0.1 --count 2)" "READ/s" "^[0-9-]+ [0-9:]+$"
}

anybody_may_look() {
	has "$(as_nobody beta show)" "10.5.4.2:${port[one.b]}" &&
		has "$(as_nobody beta policy)" "startup-max"
}

# on_terminal COMMAND...: print what mpa writes to a terminal, on beta
on_terminal() {
	TERM=xterm script -qec "ip netns exec beta $(printf '%q ' "$tool" "$@")" /dev/null
}

colours_are_for_terminals() {
	local red=$'\e\\[31m'

	has "$(on_terminal show failed)" "${red}.*malformed" &&
		lacks "$(on_terminal show -H "cookie" "${cookie[one.b]}")" "$red" &&
		lacks "$(NO_COLOR=1 on_terminal show failed)" $'\e\\[' &&
		lacks "$(on beta show failed)" $'\e\\['
}

# Without a reader mpa ends silently, like ss.
a_reader_may_go() {
	local each said status

	mkfifo "$work/gone"
	exec 5<>"$work/gone" 6>"$work/gone" 5<&-
	for each in "show -v" "show stat --all" policy "show --watch 0.01"; do
		status=0
		# shellcheck disable=SC2086 # words
		said=$(ip netns exec beta "$tool" $each 2>&1 >&6) || status=$?
		[[ ! $said && $status -eq 141 ]] || {
			echo "mpa $each: expected nothing and 141, seen \"$said\" and $status"
			return 1
		}
	done
}

tap_run "both_ends_are_shown_alike" both_ends_are_shown_alike
tap_run "what_waits_says_for_what" what_waits_says_for_what
tap_run "what_is_not_started_is_shown" what_is_not_started_is_shown
tap_run "what_has_failed_says_why" what_has_failed_says_why
tap_run "tuf_is_shown" tuf_is_shown
tap_run "summary_counts_by_state_and_role" summary_counts
tap_run "filters" filters
tap_run "bad_filters_are_refused" bad_filters_are_refused
tap_run "json_has_all_of_it" json_has_all_of_it
tap_run "verbose_has_a_line_for_each" verbose_has_a_line_for_each
tap_run "lines_fit_the_terminal" lines_fit_the_terminal
tap_run "processes_are_shown" processes_are_shown
tap_run "colours_are_for_terminals" colours_are_for_terminals
tap_run "a_reader_may_go" a_reader_may_go
tap_run "watching_shows_rates" watching_shows_rates
tap_run "anybody_may_look" anybody_may_look

# ---- show stat ----

counters_are_shown_in_words() {
	local seen

	seen=$(on beta show stat)
	has "$seen" "^ *[1-9][0-9]* +MpaRxFpdus +records received" \
		"^ *1 +MpaRefusedMalformed +startups with a malformed frame" || return
	# Each counter has words, and no counter shown is 0.
	lacks "$seen" "^ *[0-9]+ +Mpa[A-Za-z]+$" "^ *0 " || return
	seen=$(on beta show stat --all)
	lacks "$seen" "^ *[0-9]+ +Mpa[A-Za-z]+$" || return
	[[ $(wc -l <<<"$seen") -eq $(($(ip netns exec beta cat /proc/net/mpa_stat | wc -l) + 1)) ]] ||
		return
	lacks "$(awk 'NR > 1 && $1 == 0 { z = 1 } NR > 1 && $1 && z' <<<"$seen")" .
}

counters_are_json() {
	json "$(on beta show stat --json)" \
		"it['MpaRefusedMalformed'] == 1 and it['MpaRefusedTimeout'] == 1 and it['MpaCurrResponders'] >= 3" &&
		json "[$(on beta show stat --json --watch 0.2 --count 2 | paste -sd,)]" \
			"'rates' not in it[0] and it[1]['rates']['MpaRxFpdus'] >= 0 and 'MpaInStartup' not in it[1]['rates']"
}

# The output for Prometheus has each counter once, with the kernel's value, and a type.
metrics_are_those_of_the_kernel() {
	ip netns exec beta cat /proc/net/mpa_stat >"$work/stat"
	on beta show --openmetrics >"$work/metrics" || return
	/usr/bin/python3 - "$work" <<-'END2' || return
	import re, sys
	lines = open(sys.argv[1] + "/metrics").read().split("\n")
	assert lines[-2:] == ["# EOF", ""], lines[-3:]
	types, seen = {}, {}
	for line in lines[:-2]:
	    if line.startswith("# TYPE "):
	        name, kind = line.split()[2:]
	        assert name not in types and kind in ("counter", "gauge"), line
	        types[name] = kind
	    elif line.startswith("# HELP "):
	        assert line.split()[2] == name and len(line.split()) > 3, line
	    else:
	        what, labels, value = re.fullmatch(r"([a-z0-9_]+)(\{.*\})? ([0-9]+)", line).groups()
	        assert what == name + ("_total" if types[name] == "counter" else ""), line
	        seen[what, labels] = int(value)
	for line in open(sys.argv[1] + "/stat"):
	    name, value = line.split()
	    name = re.sub(r"(?<=.)([A-Z])", r"_\1", name).lower()
	    name += "_total" if types[name] == "counter" else ""
	    # Others are counted while this is read.
	    assert seen[name, None] >= int(value) or types[name[:-6]] != "counter", line
	assert seen["mpa_rx_fpdus_total", None] > 0 and types["mpa_mem_kept"] == "gauge"
	assert seen["mpa_connections", '{state="listening",role="-"}'] == 1
	assert seen["mpa_connections", '{state="failed",role="responder"}'] == 2
	END2
	has "$(on beta show --openmetrics state full)" 'mpa_connections\{state="full",role="tuf"\} 1$' &&
		lacks "$(on beta show --openmetrics state full)" 'state="failed"' &&
		as_nobody beta show --openmetrics >/dev/null &&
		ends_with 2 "cannot be combined with --watch" on beta show --openmetrics --watch 1
}

# asks_for_metrics FILE LEAST: whether the example requests LEAST metrics or more, all
# of which exist
asks_for_metrics() {
	local each n=0

	for each in $(grep -oE '\bmpa_[a-z_]+' "$here/../../tools/monitoring/$1" | sort -u); do
		n=$((n + 1))
		has "$(<"$work/metrics")" "^$each [0-9]" || return
	done
	[[ $n -ge $2 ]]
}

# Grafana can load the board; its panels do not overlap.
board_is_whole() {
	python3 - "$here/../../tools/monitoring/mpa-grafana.json" <<-'END2' || return
	import json, sys
	panels = json.load(open(sys.argv[1]))["panels"]
	cells = [(x, y) for p in (panel["gridPos"] for panel in panels)
	         for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
	assert len(set(cells)) == len(cells) and max(cells)[0] < 24
	assert len({panel["id"] for panel in panels}) == len(panels)
	for panel in panels:
	    assert all(t["expr"] and t["legendFormat"] for t in panel["targets"]), panel["title"]
	END2
	asks_for_metrics mpa-grafana.json 20
}

tap_run "metrics_are_those_of_the_kernel" metrics_are_those_of_the_kernel
tap_run "alerts_are_of_metrics" asks_for_metrics mpa-alerts.yml 8
tap_run "board_is_of_metrics" board_is_whole
tap_run "counters_are_shown_in_words" counters_are_shown_in_words
tap_run "counters_are_json" counters_are_json

# ---- monitor ----

# A path changes a bit of record 2. Two FPDUs of 2 + 100 + 2 + 4 octets precede it.
path_changes_a_bit() {
	made flipped flipped 2
	ends send flipped.a 100 100 100 100
	ends read flipped.b 4
	[[ $answer = "100 100 Bad message" ]] || {
		echo "expected two good records and an error, seen $answer"
		return 1
	}
	lines "$work/beta.out" \
		"failed +responder .*cookie ${cookie[flipped.b]}: stopped: CRC error \(2\) at stream position 216 \(error crc, 2; errno EBADMSG, 74: Bad message\)$" &&
		has "$(row beta flipped.b)" "stopped: CRC error \(2\) at stream position 216" &&
		has "$(on beta show failed)" ":${port[flipped.b]} " &&
		lines "$work/json.out" "\"failed-ntf\"" &&
		json "$(grep -F '"failed-ntf"' "$work/json.out" | head -n 1)" \
			"it['error'] == 'crc' and it['errno'] == 74 and it['error-position'] == 216 and it['cookie'] == ${cookie[flipped.b]} and it['time'] > 0"
}

# Do not run it in a subshell, as tap_run would: it opens connections.
run_here() {
	local rc=0

	"${@:2}" >"$work/seen" 2>&1 || rc=$?
	tap_ok $rc "$1" "$(<"$work/seen")"
}

events_are_reported() {
	made short pair
	ends send short.a hello
	ends read short.b
	ends close short.a short.b
	made torn pair
	ends reset torn.a
	lines "$work/beta.out" "started +responder 10.5.4.2:${port[short.b]} -> 10.5.4.1:${port[short.a]} cookie ${cookie[short.b]}: rev 1, CRC, MULPDU [0-9]+$" &&
		lines "$work/alpha.out" "started +initiator .*cookie ${cookie[short.a]}:" &&
		lines "$work/alpha.out" "closed +initiator .*cookie ${cookie[short.a]}: sent 1 records, 5 octets; read 0 records, 0 octets$" &&
		lines "$work/beta.out" "closed +responder .*cookie ${cookie[short.b]}: sent 0 records, 0 octets; read 1 records, 5 octets$" &&
		lines "$work/beta.out" "failed +responder .*cookie ${cookie[torn.b]}: lost: .*ECONNRESET" &&
		lines "$work/beta.out" "started +tuf .*cookie ${cookie[tuf.b]}:"
}

refusals_say_why() {
	lines "$work/alpha.out" "refused +initiator .*cookie ${cookie[rejected.a]}: by-peer: the peer rejected.*ECONNREFUSED, 111" &&
		lines "$work/beta.out" "refused +responder .*cookie ${cookie[rejected.b]}: by-user: " &&
		lines "$work/beta.out" "refused +responder .*cookie ${cookie[malformed.b]}: malformed: .*error startup, 4; errno EPROTO, 71" &&
		lines "$work/beta.out" "refused +responder .*cookie ${cookie[timeout.b]}: timeout: .*ETIMEDOUT, 110"
}

path_that_becomes_narrow_is_reported() {
	made narrow pair
	ends many narrow.a,narrow.b 1 100
	ip -n alpha link set va mtu 1400
	ends many narrow.a,narrow.b 2 1000
	lines "$work/alpha.out" "mulpdu +initiator .*cookie ${cookie[narrow.a]}: MULPDU is [0-9]+ now, EMSS 1348$" || return
	ends send narrow.a 5000
	ends read narrow.b
	lines "$work/alpha.out" "unaligned +initiator .*cookie ${cookie[narrow.a]}: oversized: " || return
	has "$(row alpha narrow.a)" "aligned [0-9]+\.[0-9] %" || return
	ip -n alpha link set va mtu 1500
}

monitor_filters_and_counts() {
	watch filtered beta --event closed,failed --count 2 role responder
	watch limited beta --timeout 0.2 --count 1 port 1
	made first pair
	ends close first.a first.b
	ends reset tuf.a
	made second pair
	ends close second.a second.b
	wait "${watcher[filtered]}" || {
		echo "expected the exit status 0, seen $?"
		return 1
	}
	[[ $(wc -l <"$work/filtered.out") -eq 2 ]] &&
		lacks "$(<"$work/filtered.out")" started " tuf " &&
		has "$(<"$work/filtered.out")" "closed .*cookie ${cookie[first.b]}:" "closed .*cookie ${cookie[second.b]}:" || return
	! wait "${watcher[limited]}" || {
		echo "expected another exit status than 0 of a reader that has seen too few"
		return 1
	}
}

events_that_are_lost_are_reported() {
	watch slow beta --buffer 1
	kill -STOP "$(pgrep -P "${watcher[slow]}")"
	ends again many 40
	kill -CONT "$(pgrep -P "${watcher[slow]}")"
	lines "$work/slow.out" "events were lost" || return
	# The monitor continues.
	made after pair
	lines "$work/slow.out" "started .*cookie ${cookie[after.b]}:" &&
		lines "$work/slow.out" "events were lost: [0-9]+$" || return
	unwatch slow >/dev/null
	ends close after.a after.b
}

run_here "path_that_changes_a_bit_is_reported_with_its_place" path_changes_a_bit
run_here "events_are_reported" events_are_reported
run_here "refusals_say_why" refusals_say_why
run_here "path_that_becomes_narrow_is_reported" path_that_becomes_narrow_is_reported
run_here "monitor_filters_and_counts" monitor_filters_and_counts
run_here "events_that_are_lost_are_reported" events_that_are_lost_are_reported

# ---- records ----

records_are_shown() {
	watch tap beta --records "${cookie[one.b]}"
	ends many one.a,one.b 1 100
	ends send one.a hello
	ends read one.b
	ends send one.b world
	ends read one.a
	lines "$work/tap.out" "sent position 0, 5 octets: \"world\"$" || return
	# Some records were read before, none was sent.
	has "$(head -n 1 "$work/tap.out")" \
		"received before position [1-9][0-9]*: not seen, the tap started later$" || return
	[[ $(grep -c "before position" "$work/tap.out") -eq 1 ]] || return
	has "$(<"$work/tap.out")" "received position [0-9]+, 100 octets, good$" \
		"^    0000  00 64 c8 .*  \.d" "^    0030 " \
		"received position [0-9]+, 5 octets, good: \"hello\"$" &&
		lacks "$(<"$work/tap.out")" "^    0040 "
}

# The tap ends with its process, and another process may set one.
tap_ends_with_a_signal() {
	[[ $(unwatch tap | wc -l) -gt 0 ]] || return
	watch next beta --json --octets 3 --records port "${port[one.b]}" --count 1
	ends send one.a goodbye
	ends read one.b
	wait "${watcher[next]}" || return
	json "$(head -n 1 "$work/next.out")" \
		"it['name'] == 'missed' and it['direction'] == 'rx' and it['position'] > 5040 and it['cookie'] == ${cookie[one.b]}" || return
	json "$(tail -n 1 "$work/next.out")" \
		"it['name'] == 'record-ntf' and it['length'] == 7 and it['direction'] == 'rx' and it['data'] == '676f6f' and it['text'] == 'goo' and it['verdict'] == 'none' and it['seq'] == 1"
}

bad_record_is_shown() {
	made bad flipped 1
	watch bad beta --records "${cookie[bad.b]}"
	ends send bad.a 100 100
	ends read bad.b 2
	lines "$work/bad.out" "received position 108, 100 octets, BAD: crc" &&
		lines "$work/bad.out" "failed .*at stream position 108" || return
	# The tap ends with the connection.
	ends close bad.b
	lines "$work/bad.out" "closed +responder" || return
	wait "${watcher[bad]}"
}

taps_wait_for_connections() {
	watch later beta --records local 10.5.4.2 state full
	made later pair
	lines "$work/later.err" "records of .*cookie ${cookie[later.b]}" || return
	ends send later.a first
	ends read later.b
	lines "$work/later.out" "${port[later.b]} -> 10.5.4.1:${port[later.a]}: received position 0, 5 octets, good: \"first\"" || return
	unwatch later >/dev/null
}

records_that_are_lost_are_reported() {
	local until=$((SECONDS + 100))

	watch lossy beta --buffer 1 --records "${cookie[one.b]}"
	kill -STOP "$(pgrep -P "${watcher[lossy]}")"
	ends many one.a,one.b 60 500
	kill -CONT "$(pgrep -P "${watcher[lossy]}")"
	lines "$work/lossy.out" "received position" || return
	# Once there is space, the record after the gap shows the number.
	until grep -q "records were lost: [0-9]" "$work/lossy.out"; do
		[[ $SECONDS -lt $until ]] || return
		ends many one.a,one.b 1 10
	done
	unwatch lossy >/dev/null
}

no_such_connection() {
	ends_with 1 "there is no connection with cookie 999999" on beta monitor --records 999999
}

# An IPv4 address on an IPv6 socket, and the peer-to-peer model.
mapped_addresses_have_their_form() {
	local near alpha

	rm -f "$work/near" "$work/open"
	mkfifo "$work/near" "$work/open"
	ip netns exec beta timeout 150 "$tool" listen --port-file "$work/near" 0 \
		</dev/null >"$work/mapped" 2>&1 &
	read -r -t 150 near <>"$work/near" || return
	exec 9<>"$work/open"
	ip netns exec alpha timeout 150 "$tool" connect --p2p 10.5.4.2 "$near" \
		<"$work/open" >/dev/null 2>&1 9>&- &
	alpha=$!
	lines "$work/beta.out" "started +responder 10.5.4.2:$near -> .*, p2p, MULPDU" || return
	json "$(on beta show --json state full local ":$near")" \
		"it[0]['local-addr6'] == '::ffff:10.5.4.2' and it[0]['remote-addr6'] == '::ffff:10.5.4.1' and 'p2p' in it[0]['flags']" &&
		has "$(on beta show state full local ":$near")" " 10.5.4.2:$near +10.5.4.1:.*, p2p " || return
	echo the end >&9
	exec 9>&-
	wait "$alpha" && lines "$work/mapped" "the end"
}

output_that_fails_is_reported() {
	local command watcher

	for command in show "show --watch 0.01" "show stat --watch 0.01" policy; do
		# shellcheck disable=SC2086 # words
		ends_with 1 "standard output: No space left" \
			full_output beta $command || return
	done
	full_output beta monitor 2>"$work/full.err" &
	watcher=$!
	lines "$work/full.err" watching || return
	ends again full 1
	! wait "$watcher" && has "$(<"$work/full.err")" "standard output: No space left"
}

# full_output HOST COMMAND...: run mpa on that host, with its output to a full device
full_output() {
	on "$@" >/dev/full
}

events_have_a_date() {
	local date='[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{6}'

	watch short beta -ts
	watch long beta -t
	made dated pair
	lines "$work/short.out" "^\[$date\] started +responder .*cookie ${cookie[dated.b]}:" &&
		lines "$work/long.out" "^started +responder .*cookie ${cookie[dated.b]}:" &&
		lines "$work/long.out" "^Timestamp: [A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4} [0-9]+ usec$" &&
		unwatch short >/dev/null && unwatch long >/dev/null
}

run_here "events_have_a_date" events_have_a_date
run_here "mapped_addresses_have_their_form" mapped_addresses_have_their_form
run_here "output_that_fails_is_reported" output_that_fails_is_reported
run_here "records_are_shown" records_are_shown
run_here "tap_ends_with_a_signal" tap_ends_with_a_signal
run_here "bad_record_is_shown" bad_record_is_shown
run_here "taps_wait_for_connections" taps_wait_for_connections
run_here "records_that_are_lost_are_reported" records_that_are_lost_are_reported
tap_run "no_such_connection" no_such_connection

# ---- policy ----

policy_is_shown_and_set() {
	local defaults='{"crc-optional": 0, "startup-timeout-ms": 10000, "startup-max": 4096, "markers": 0, "place": 1}'

	json "$(on beta policy --json)" "it == json.loads('$defaults')" &&
		has "$(on beta policy crc-optional=1 startup_max=12)" \
			"^crc-optional +1 +\(default: 0\) connections have no CRCs if" \
			"^startup-max +12 +\(default: 4096\) " "^place +1 +programs" &&
		[[ $(ip netns exec beta sysctl -n net.mpa.startup_max) = 12 ]] &&
		[[ $(on beta policy startup-max) = 12 ]] &&
		[[ $(on beta policy startup-max=13 net.mpa.startup_max) = 13 ]] &&
		json "$(on beta policy --json place startup-max)" \
			"it == {'startup-max': 13, 'place': 1}" &&
		json "$(on beta policy --json crc-optional=0 net.mpa.startup_max=4096)" \
			"it == json.loads('$defaults')"
}

# Completion offers only words that the command accepts.
completed_words_are_good() {
	local each

	# shellcheck source=tools/mpa/completion.bash
	. "$here/../../tools/mpa/completion.bash"
	for each in $(_mpa_values monitor --event | tr -d ,); do
		ends_with 0 watching on beta monitor --timeout 0.01 --event "$each" || return
	done
	for each in $(_mpa_words show state | tr -d ,); do
		ends_with 0 "" on beta show state "$each" || return
	done
	for each in $(_mpa_words show role | tr -d ,); do
		ends_with 0 "" on beta show role "$each" || return
	done
	for each in $(_mpa_words policy policy | tr ' ' '\n' | grep -v '='); do
		ends_with 0 "^[0-9]+\$" on beta policy "$each" || return
	done
	for each in $(_mpa_words policy policy | tr ' ' '\n' | grep '='); do
		ends_with 2 "$each.*takes a number" on beta policy "${each}x" || return
	done
}

policy_out_of_range_is_refused() {
	ends_with 2 "crc-optional: .*out of range.*0 to 1$" on beta policy markers=1 crc-optional=2 &&
		ends_with 2 "startup-timeout-ms: .*1 to 3600000$" on beta policy startup-timeout-ms=0 &&
		ends_with 2 "takes a number from 0 to 1$" on beta policy place=yes &&
		ends_with 2 "unknown name \"colour\"" on beta policy colour=1 &&
		json "$(on beta policy --json)" "it['markers'] == 0"
}

who_may_not_gets_an_error() {
	ends_with 1 "sudo" as_nobody beta policy markers=1 &&
		ends_with 1 "sudo mpa monitor" as_nobody beta monitor &&
		ends_with 1 "sudo mpa monitor" as_nobody beta monitor --records "${cookie[one.b]}"
}

tap_run "policy_is_shown_and_set" policy_is_shown_and_set
tap_run "completed_words_are_good" completed_words_are_good
tap_run "policy_out_of_range_is_refused" policy_out_of_range_is_refused
tap_run "who_may_not_gets_an_error" who_may_not_gets_an_error

# ---- without the module ----

without_the_module() {
	local command rc=0

	mpa_unused 20 && rmmod mpa || return
	for command in show "show stat" monitor policy; do
		# shellcheck disable=SC2086 # words
		ends_with 1 "mpa is not loaded: sudo modprobe mpa \(or insmod mpa.ko\)$" on beta $command || rc=1
	done
	mpa_load && [[ $rc -eq 0 ]]
}

for each in alpha beta json; do
	unwatch $each >/dev/null
done
exec 8>&-
wait
tap_run "without_the_module" without_the_module
tap_end
