#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tracepoints, with trace-cmd, perf and bpftrace: run the examples of
# Documentation/networking/mpa/administration.rst while two hosts exchange records, or a
# peer sends a bad one. This exchange replaces "sleep 10" in the examples.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}
manual=$here/../../Documentation/networking/mpa/administration.rst
tracing=/sys/kernel/tracing
port=5044
list=1-200,1400x20,5000x4
records=224
octets=68100

# One end of a connection. The initiator receives a good FPDU of 1008 octets, and then
# one with a wrong CRC. Its peer uses plain TCP.
bad_end='
import socket, struct, sys

def crc32c(octets):
    crc = 0xffffffff
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (crc & 1) * 0x82f63b78
    return ~crc & 0xffffffff

def peer(at):
    with socket.create_server(at) as listener:
        print("listening", flush=True)
        sock = listener.accept()[0]
    sock.recv(20, socket.MSG_WAITALL)
    sock.sendall(b"MPA ID Rep Frame" + bytes((0x40, 1, 0, 0)))
    sock.recv(16, socket.MSG_WAITALL)
    octets = struct.pack(">H1000s2x", 1000, b"good")
    fpdu = octets + struct.pack("<I", crc32c(octets))
    sock.sendall(fpdu + fpdu[:-1] + bytes((fpdu[-1] ^ 1,)))
    sock.recv(1)

def initiator(to):
    sock = socket.create_connection(to)
    sock.setsockopt(socket.IPPROTO_TCP, 31, b"mpa")
    sock.setsockopt(289, 1, struct.pack("=BBHIHHI16x", 1, 1, 0, 0, 0, 0, 0))
    sock.send(b"0123456789")
    assert len(sock.recv(65536)) == 1000
    try:
        sock.recv(65536)
    except OSError as error:
        assert error.errno == 74, error
    else:
        raise AssertionError("the bad record was returned")

{"listen": peer, "connect": initiator}[sys.argv[1]]((sys.argv[2], int(sys.argv[3])))
'

# between WORD...: run a server in beta and a client in alpha. The word END becomes
# "listen" for the server, and "connect" for the client
between() {
	local fd server rc=0

	exec {fd}< <(exec ip netns exec beta "${@/#END/listen}")
	server=$!
	read -r -u "$fd" _
	ip netns exec alpha "${@/#END/connect}" >/dev/null || rc=$?
	[[ $rc -eq 0 ]] || kill $server 2>/dev/null
	cat <&"$fd" >/dev/null
	wait $server || rc=$?
	return $rc
}

case ${1:-} in
# The initiator requests markers, too: they are not counted as octets.
exchange) between "$bin/mpa_transfer" END 10.5.4.2 $port 1 $list; exit ;;
bad) between python3 -c "$bad_end" END 10.5.4.2 $port; exit ;;
esac

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
[[ -r $manual ]] || skip_all "needs $manual"
for tool in ethtool ip python3 trace-cmd perf bpftrace; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
[[ -d $tracing/events ]] || mount -t tracefs tracefs $tracing 2>/dev/null ||
	skip_all "no tracefs"
[[ -e $tracing/events/mpa ]] || skip_all "a kernel without tracepoints"
# bpftrace looks for tracepoints here.
[[ -d /sys/kernel/debug/tracing ]] ||
	mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null ||
	skip_all "no debugfs"

cleanup() {
	hosts_down
	rm -f /tmp/mpa.dat /tmp/mpa.data
}
trap cleanup EXIT
hosts_down
hosts_up 1500

# example NAME: print the commands after the comment ".. example: NAME"
example() {
	awk -v name="$1" '
		$0 == ".. example: " name { on = 1; next }
		on == 1 && /^  / { on = 2 }
		on == 2 && /^[^ ]/ { exit }
		on { sub(/^  /, ""); print }' "$manual" | grep -v '^::$'
}

# shown EXAMPLE exchange|bad: run the example during the exchange, and print its output
shown() {
	local text

	text=$(example "$1")
	[[ $text = *"sleep 10"* ]] || {
		echo "administration.rst has no example $1, or one without sleep 10"
		return 1
	}
	# bpftrace cannot start scripts: name the shell.
	text=${text//\/usr\/bin\/sleep 10//usr/bin/bash $here/mpa_tracing.sh $2}
	text=${text//sleep 10/$here/mpa_tracing.sh $2}
	seen=$(timeout 180 bash -euc "$text" 2>&1) || {
		echo "$1 ended with $?:"
		echo "$seen"
		return 1
	}
}

# has N REGEX: whether N lines of the output match
has() {
	local n

	n=$(grep -cE "$2" <<<"$seen") || true
	[[ $n -eq $1 ]] && return
	echo "expected $1 lines with '$2', seen $n, in:"
	grep -vE 'mpa_[tr]x:' <<<"$seen" | head -n 40
	return 1
}

# octets_are N REGEX: whether the octets in matching lines add up to N
octets_are() {
	local sum

	sum=$(awk -v what="$2" '
		$0 ~ what && match($0, /octets=[0-9]+/) {
			sum += substr($0, RSTART + 7, RLENGTH - 7)
		}
		END { print sum + 0 }' <<<"$seen")
	[[ $sum -eq $1 ]] && return
	echo "expected $1 octets with '$2', seen $sum"
	return 1
}

# Add up the octets that both ends sent and received.
all_octets() {
	local at

	for at in 1 2; do
		octets_are $octets "mpa_tx: .* local=[^ ]*:10[.]5[.]4[.]$at]" || return
		octets_are $octets "mpa_rx: .* local=[^ ]*:10[.]5[.]4[.]$at]" || return
	done
}

trace_cmd_all() {
	shown trace-cmd exchange || return
	has 1 'mpa_startup_frame: .* local=[^ ]*:10.5.4.1\]:[0-9]+ peer=.* out request flags=MC revision=1 private_data=0$' &&
		has 1 'mpa_startup_frame: .* local=[^ ]*:10.5.4.2\]:5044 peer=.* in request flags=MC revision=1 private_data=0$' &&
		has 1 'mpa_startup_frame: .* local=[^ ]*:10.5.4.2\]:5044 peer=.* out reply flags=MC revision=1 private_data=0$' &&
		has 1 'mpa_startup_frame: .* local=[^ ]*:10.5.4.1\]:[0-9]+ peer=.* in reply flags=MC revision=1 private_data=0$' &&
		has 4 mpa_startup_frame: &&
		has 2 'mpa_state: .* from=idle to=startup$' &&
		has 2 'mpa_state: .* from=startup to=full$' &&
		has 4 mpa_state: &&
		has 0 mpa_error: &&
		all_octets
}

trace_cmd_startup() {
	shown trace-cmd-startup bad || return
	has 1 'mpa_startup_frame: .* out request flags=C ' &&
		has 1 'mpa_startup_frame: .* in reply flags=C ' &&
		has 2 mpa_startup_frame: &&
		has 1 'mpa_error: .* peer=.*10.5.4.2\]:5044 code=crc errno=-74 position=1008$' &&
		has 1 mpa_error: &&
		has 0 'mpa_(state|tx|rx):'
}

# Each call by mpa_transfer is a record.
perf_counts() {
	shown perf-stat exchange || return
	has 1 "^ +$((2 * records)) +mpa:mpa_tx" &&
		has 1 "^ +$((2 * records)) +mpa:mpa_rx"
}

perf_octets() {
	shown perf-record exchange || return
	all_octets
}

bpftrace_octets() {
	shown bpftrace-octets exchange || return
	has 1 "^@sent\\[5044\\]: $octets$" && has 2 "^@sent\\[[0-9]+\\]: $octets$" &&
		has 1 "^@received\\[5044\\]: $octets$" &&
		has 2 "^@received\\[[0-9]+\\]: $octets$"
}

bpftrace_error() {
	shown bpftrace-error bad || return
	has 1 '^::ffff:10.5.4.2 port 5044: code 2, errno -74, position 1008$' &&
		has 1 code
}

# script NAME: run tools/bpftrace/NAME.bt during the exchange
script() {
	seen=$(timeout 180 bpftrace -c "/usr/bin/bash $here/mpa_tracing.sh exchange" \
		"$here/../../tools/bpftrace/$1.bt" 2>&1) || {
		echo "$1.bt ended with $?:"
		echo "$seen"
		return 1
	}
}

# The initiator sends first, then receives. Nothing arrives after the responder's
# octets.
bpftrace_latency() {
	script mpa-latency || return
	has 1 "^@us\[[0-9]+\]: *$" && has 0 "^@us\[5044\]" && has 0 "^@sent" &&
		has 1 '^\[[0-9]+[KM]?, [0-9]+[KM]?\) +1 \|@+\|$'
}

# Records of 5000 octets take four segments, three of which begin inside the record.
bpftrace_unaligned() {
	script mpa-unaligned || return
	has 1 "^@segments\[5044, [0-9]+, 1\]: [1-9][0-9]*$" &&
		has 1 "^@segments\[[0-9]+, 5044, 1\]: [1-9][0-9]*$"
}

bpftrace_short() {
	script mpa-short || return
	has 2 "^@calls\[mpa_transfer, [0-9]+\]: 200$" &&
		has 2 "^@octets\[mpa_transfer, [0-9]+\]: *$"
}

tap_run "trace_cmd_shows_all_that_happens" trace_cmd_all
tap_run "trace_cmd_shows_startup_and_errors_only" trace_cmd_startup
tap_run "perf_counts_runs" perf_counts
tap_run "perf_shows_each_run" perf_octets
# In an emulated guest each takes up to 40 seconds.
if [[ ${MPA_KERNEL:-6.1} = 6.1 ]]; then
	tap_run "bpftrace_sums_up_octets" bpftrace_octets
	tap_run "bpftrace_reports_bad_records" bpftrace_error
	tap_run "mpa_latency_has_a_histogram_of_each_port" bpftrace_latency
	tap_run "mpa_unaligned_counts_by_cause" bpftrace_unaligned
	tap_run "mpa_short_names_the_programs" bpftrace_short
fi
tap_end
