# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# TAP, hosts and the module, for shell tests.

# mpa_ends.py, for tests' Python code
PYTHONPATH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)${PYTHONPATH:+:$PYTHONPATH}
export PYTHONPATH

tap_n=0
tap_failed=0

# tap_ok RC NAME [WHAT-WAS-SEEN]
tap_ok() {
	tap_n=$((tap_n + 1))
	if [[ $1 -eq 0 ]]; then
		echo "ok $tap_n $2"
	else
		echo "not ok $tap_n $2"
		tap_failed=$((tap_failed + 1))
		[[ -z ${3:-} ]] || echo "# ${3//$'\n'/$'\n'# }"
	fi
}

# tap_run NAME COMMAND...: shows COMMAND's output if it fails
tap_run() {
	local name=$1 seen rc=0

	shift
	seen=$("$@" 2>&1) || rc=$?
	tap_ok "$rc" "$name" "$seen"
}

tap_end() {
	echo "1..$tap_n"
	[[ $tap_failed -eq 0 ]]
}

# tap_judge STATUS FILE: return the status of a program that ended with STATUS and
# printed FILE. If STATUS means success or skipped, FILE must have a result for each
# planned test.
tap_judge() {
	[[ $1 -eq 0 || $1 -eq 4 ]] || return "$1"
	awk -v status="$1" '
		/^1\.\.[0-9]+/ { plans++; planned += substr($1, 4) }
		/^(not )?ok( |$)/ { results++ }
		/^not ok/ && !/# (SKIP|TODO|XFAIL)/ { failed++ }
		END {
			if (failed)
				why = failed " of its tests failed"
			else if (!plans)
				why = "it printed no plan (1..N)"
			else if (results < planned)
				why = sprintf("it printed %d of %d results", results, planned)
			if (why)
				print "# it ended with " status ", but " why
			exit why ? 1 : status
		}' "$2"
}

skip_all() {
	echo "1..0 # SKIP $*"
	exit 4
}

mpa_loaded() {
	[[ -d /sys/module/mpa ]]
}

# mpa_unused SECONDS [MODULE]: wait until nothing uses the module, mpa by default
mpa_unused() {
	local until=$((SECONDS + $1))

	while [[ $(<"/sys/module/${2-mpa}/refcnt") -ne 0 ]]; do
		[[ $SECONDS -lt $until ]] || return
		read -r -t 0.05 <> <(:) || true
	done
}

# Load the file $MPA_KO, or the installed module.
mpa_load() {
	mpa_loaded && return
	if [[ -n ${MPA_KO:-} ]]; then
		# insmod does not load dependencies.
		modprobe -q libcrc32c || true
		insmod "$MPA_KO"
	else
		modprobe mpa
	fi
}

# hosts_up MTU: two hosts, joined by a wire
#
#   netns alpha                               netns beta
#   10.5.4.1/24, fd05:44::1/64  va --- vb  10.5.4.2/24, fd05:44::2/64
#
hosts_up() {
	local host

	modprobe -q veth || true
	ip netns add alpha
	ip netns add beta
	# RDMA finds a listener on a wildcard address by its device's index, in any
	# namespace. Make the indices differ.
	ip link add va index 11 netns alpha mtu "$1" type veth peer name vb \
		index 12 netns beta mtu "$1"
	for host in "alpha va 1" "beta vb 2"; do
		# shellcheck disable=SC2086 # three words
		set -- $host
		# Capture packets as on the wire, not before segmentation or after GRO.
		ip netns exec "$1" ethtool -K "$2" tso off gso off gro off \
			>/dev/null
		host_up "$@"
	done
}

# host_up NETNS DEVICE N: make the namespace the Nth of the two hosts, with this device
host_up() {
	# No duplicate address detection, so that an address is usable at once
	ip netns exec "$1" sysctl -qw net.ipv6.conf.all.accept_dad=0 \
		"net.ipv6.conf.$2.accept_dad=0"
	ip -n "$1" -batch - <<-END
		addr add 10.5.4.$3/24 dev $2
		addr add fd05:44::$3/64 dev $2 nodad
		link set $2 up
		link set lo up
	END
}

# Call this before the wire is removed: an unacknowledged FIN holds the module.
connections_end() {
	local tries host

	for ((tries = 0; tries < 300; tries++)); do
		for host in alpha beta; do
			ip netns exec $host ss -Htn state connected exclude time-wait
		done | grep -q . || return 0
		sleep 0.1
	done
}

hosts_down() {
	ip netns del alpha 2>/dev/null || true
	ip netns del beta 2>/dev/null || true
}

jobs_end() {
	local pids

	pids=$(jobs -p)
	# shellcheck disable=SC2086 # one word a process
	[[ -z $pids ]] || kill $pids 2>/dev/null || true
}

# For "trap cleanup EXIT": end the background jobs, and remove the hosts and the folder
# $dir, if set
cleanup() {
	jobs_end
	hosts_down
	[[ -z ${dir-} ]] || rm -rf "$dir"
}

# capture_start NETNS DEVICE PCAP FILTER: start a capture; wait until it runs
capture_start() {
	local said line

	capture_file=$3
	said=$(mktemp -u)
	mkfifo "$said"
	# -Z root: Debian's tcpdump otherwise switches to a user that may not write
	# here.
	ip netns exec "$1" tcpdump -Z root -i "$2" -U --immediate-mode \
		-B 65536 -w "$3" "($4) or udp port 9" 2>"$said" &
	capture_pid=$!
	exec {capture_says}<"$said"
	rm "$said"
	until read -r -u "$capture_says" line &&
	      [[ $line = *"listening on"* ]]; do :; done
}

# Stop the capture once all packets are in the file.
capture_stop() {
	# Send a datagram last: once it is in the file, all earlier packets are, too.
	ip netns exec alpha bash -c 'echo end-of-capture >/dev/udp/10.5.4.2/9'
	LC_ALL=C grep -aqF -m 1 end-of-capture \
		< <(exec tail --pid "$capture_pid" -c 65536 -f "$capture_file")
	kill -INT "$capture_pid"
	wait "$capture_pid" || true
	grep -q '^0 packets dropped by kernel' <&"$capture_says" || {
		echo "tcpdump lost packets"
		return 1
	}
	exec {capture_says}<&-
}

# capture NETNS DEVICE PCAP FILTER COMMAND...: run COMMAND and capture its packets
capture() {
	local rc=0

	capture_start "$1" "$2" "$3" "$4"
	"${@:5}" || rc=$?
	capture_stop || rc=1
	return $rc
}
