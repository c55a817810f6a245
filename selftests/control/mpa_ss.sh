#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# How the installed ss shows sockets with MPA, and the ss that tools/iproute2/build has
# built (MPA_SS). Without MPA_SS the tests of the latter are skipped.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
bin=${MPA_BIN:-$here/..}

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
command -v ss setpriv >/dev/null || skip_all "needs iproute2 and util-linux"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
modprobe -q tcp_diag || true

work=$(mktemp -d)
# shellcheck disable=SC2317 # a trap calls it
cleanup() {
	exec 8>&-
	wait
	rm -rf "$work"
}
trap cleanup EXIT

stock=$(command -v ss)
patched=
if [[ -n ${MPA_SS:-} ]]; then
	# A user that may not read root's cache needs it, too.
	chmod 755 "$work"
	install -m 755 "$MPA_SS" "$work/ss"
	patched=$work/ss
fi

# The sockets: port[NAME] and peer[NAME]
declare -A port=() peer=()
mkfifo "$work/stays"
exec 7< <(exec "$bin/mpa_ends" <"$work/stays")
exec 8>"$work/stays"
while read -r -u 7 name one other && [[ $name != ready ]]; do
	port[$name]=$one
	peer[$name]=$other
done
[[ $name = ready ]] || {
	tap_ok 1 "sockets_are_made" "mpa_ends has said why"
	tap_end
	exit 1
}

# Output of each ss for each socket, as root and as an ordinary user: line["WHO NAME"],
# with single blanks. WHO is stock, patched, nobody_stock or nobody_patched
declare -A line=()

# look WHO COMMAND...: COMMAND must return 0, print nothing else, and show each socket
look() {
	local who=$1 name words ends

	shift
	"$@" -tieaHOn >"$work/said" 2>"$work/err" || {
		echo "$* has ended with $?"
		cat "$work/err"
		return 1
	}
	[[ ! -s $work/err ]] || {
		echo "expected no complaint, seen:"
		cat "$work/err"
		return 1
	}
	# State, two queues, local address:port, remote address:port, the rest
	while read -r -a words; do
		ends="${words[3]##*:} ${words[4]##*:}"
		for name in "${!port[@]}"; do
			[[ $ends != "${port[$name]} ${peer[$name]}" ]] ||
				line["$who $name"]=" ${words[*]} "
		done
	done <"$work/said"
	for name in "${!port[@]}"; do
		[[ ${line["$who $name"]-} ]] || {
			echo "expected $name (${port[$name]} ${peer[$name]}), seen:"
			cat "$work/said"
			return 1
		}
	done
}

# has WHO NAME WORD...: whether the line has all these words
has() {
	local seen=${line["$1 $2"]} word

	for word in "${@:3}"; do
		[[ $seen = *" $word "* ]] || {
			echo "$2: expected $word, seen: $seen"
			return 1
		}
	done
}

# lacks WHO NAME PATTERN...: whether no word of the line matches
lacks() {
	local seen=${line["$1 $2"]} pattern

	for pattern in "${@:3}"; do
		# shellcheck disable=SC2053 # a pattern
		[[ $seen != *\ $pattern\ * ]] || {
			echo "$2: expected no $pattern, seen: $seen"
			return 1
		}
	done
}

# tcp_words WHO NAME PATTERN...: print TCP's matching words in the line, except times,
# which grow
tcp_words() {
	local word pattern words

	read -r -a words <<<"${line["$1 $2"]%% tcp-ulp-mpa*}"
	for word in "${words[@]}"; do
		for pattern in "${@:3}"; do
			# shellcheck disable=SC2053 # a pattern
			[[ $word != $pattern || $word = last*:* ]] ||
				echo "$word"
		done
	done
}

# same_words WHO NAME WHO NAME PATTERN...: whether the matching words of both lines are
# the same
same_words() {
	local first second

	first=$(tcp_words "$1" "$2" "${@:5}")
	second=$(tcp_words "$3" "$4" "${@:5}")
	[[ -n $first && $first = "$second" ]] || {
		echo "expected, as $4 has it: ${second//$'\n'/ }"
		echo "seen of $2: ${first//$'\n'/ }"
		return 1
	}
}

# patched_run NAME COMMAND...: tap_run, if there is a patched ss
patched_run() {
	[[ -n $patched ]] || {
		tap_ok 0 "$1 # SKIP no MPA_SS"
		return
	}
	tap_run "$@"
}

# looked NAME WHO COMMAND...: as tap_run, but not in a subshell
looked() {
	local rc=0

	look "${@:2}" >"$work/look" || rc=$?
	tap_ok $rc "$1" "$(<"$work/look")"
	[[ $rc -eq 0 ]] || {
		tap_end
		exit 1
	}
}

nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
looked "stock_ss_lists_all" stock "$stock"
looked "stock_ss_lists_all_for_an_ordinary_user" nobody_stock "${nobody[@]}" \
	"$stock"
if [[ -n $patched ]]; then
	looked "ss_lists_all" patched "$patched"
	looked "ss_lists_all_for_an_ordinary_user" nobody_patched \
		"${nobody[@]}" "$patched"
fi

# ---- the installed ss ----

stock_names_it() {
	local each

	for each in idle initiator responder failed child closing; do
		has stock $each tcp-ulp-mpa || return
		lacks stock $each 'role:*' 'state:*' || return
	done
	has stock tuf tcp-ulp-tuf || return
	lacks stock tuf 'role:*' 'state:*' 'tuf_*' || return
	lacks stock plain 'tcp-ulp*'
}

# Words that depend on the path, but not on time or on octets sent
path=(cubic reno ts sack 'wscale:*' 'pmtu:*' 'advmss:*')

tap_run "stock_ss_names_the_ulp_only" stock_names_it
tap_run "stock_ss_shows_tcp_as_without_mpa" \
	same_words stock initiator stock plain "${path[@]}"

# ---- the ss that knows MPA ----

agreed() {
	has patched initiator tcp-ulp-mpa role:initiator state:full rev:1 \
		markers:rx,tx crc:rx,tx may_send tx_ulpdus:2 rx_ulpdus:1 &&
		lacks patched initiator placing 'error:*' 'errno:*' 'pos:*' &&
		has patched responder tcp-ulp-mpa role:responder state:full \
			rev:1 markers:rx,tx crc:rx,tx placing tx_ulpdus:1 \
			rx_ulpdus:2
}

sizes() {
	local seen=${line["patched responder"]}

	[[ $seen =~ \ emss:([0-9]+)\ mulpdu:([0-9]+)\  ]] &&
		[[ ${BASH_REMATCH[1]} -gt ${BASH_REMATCH[2]} &&
		   ${BASH_REMATCH[2]} -ge 128 ]] && return
	echo "expected emss:N and a lower mulpdu:N, seen: $seen"
	return 1
}

# The FPDU before the bad one has 2 + 100 + 2 + 4 octets.
error() {
	has patched failed tcp-ulp-mpa role:responder state:full crc:rx,tx \
		rx_ulpdus:1 error:crc errno:74 pos:108 &&
		lacks patched failed 'markers:*' placing
}

not_started() {
	local unknown=('rev:*' 'markers:*' 'crc:*' 'error:*' 'pos:*')

	has patched idle tcp-ulp-mpa state:idle &&
		lacks patched idle "${unknown[@]}" &&
		has patched child tcp-ulp-mpa role:responder state:startup &&
		lacks patched child "${unknown[@]}"
}

tuf() {
	has patched tuf tcp-ulp-tuf role:unspec state:full tuf_tx:align \
		tuf_rx:markers tx_ulpdus:1 segs_aligned:1 &&
		lacks patched tuf 'rev:*' 'markers:*' 'crc:*' resegmented &&
		lacks patched initiator 'tuf_*' resegmented
}

without() {
	lacks patched plain 'tcp-ulp*' 'role:*' 'state:*' &&
		same_words patched initiator stock initiator '*'
}

patched_run "ss_shows_what_was_agreed_on" agreed
patched_run "ss_shows_emss_and_mulpdu" sizes
patched_run "ss_shows_an_error_and_where" error
patched_run "ss_shows_who_is_not_started" not_started
patched_run "ss_shows_how_tuf_frames" tuf
patched_run "ss_shows_a_listener" has patched listener LISTEN
# After the program ends, MPA's state is gone.
patched_run "ss_shows_who_is_closing" \
	has patched closing FIN-WAIT-1 tcp-ulp-mpa
patched_run "ss_shows_tcp_as_the_stock_one" without

# le OCTETS NUMBER: print it in hexadecimal, least significant octet first
le() {
	local i

	for ((i = 0; i < $1; i++)); do
		printf %02x $(($2 >> 8 * i & 255))
	done
}

# attr TYPE HEX: a netlink attribute
attr() {
	local len=$((${#2} / 2 + 4)) hex=$2

	while [[ $((${#hex} % 8)) -ne 0 ]]; do
		hex+=00
	done
	echo "$(le 2 $len)$(le 2 "$1")$hex"
}

# shown ATTRIBUTES: print ss's words for a socket with these MPA_A_CONN_*, in
# hexadecimal
shown() {
	local msg

	# struct inet_diag_msg: AF_INET, ESTABLISHED
	msg=02010000$(le 2 1)$(le 2 2)$(le 32 0)$(le 12 0)$(le 20 0)
	# INET_DIAG_ULP_INFO: INET_ULP_INFO_NAME, MPA_INET_ULP_INFO
	msg+=$(attr 19 "$(attr 1 6d706100)$(attr 289 "$1")")
	msg=$(le 4 $((${#msg} / 2 + 16)))$(le 2 20)$(le 2 2)$(le 8 0)$msg
	# NLMSG_DONE
	msg+=$(le 4 20)$(le 2 3)$(le 2 2)$(le 8 0)$(le 4 0)
	# shellcheck disable=SC2059 # octets
	printf "${msg//??/\\x&}" >"$work/msg"
	TCPDIAG_FILE=$work/msg "$patched" -tieHOn | sed 's/.* tcp-ulp-mpa/mpa/; s/ *$//'
}

# as_shown ATTRIBUTES WORDS: whether ss prints these words for the attributes
as_shown() {
	local seen

	seen=$(shown "$1")
	[[ $seen = "$2" ]] || {
		echo "expected \"$2\" of $1, seen \"$seen\""
		return 1
	}
}

# MPA_A_CONN_ROLE is 13, then _STATE, _REVISION, _FLAGS; 20 _EMSS, 22 _TX_ULPDUS,
# 35 _ERROR, then _ERRNO and _ERROR_POSITION; 41 _TUF_TX, then _TUF_RX, _RESEGMENTED.
odd() {
	as_shown "" mpa &&
		as_shown "$(attr 13 "$(le 4 77)")$(attr 14 ffffffff)$(
			attr 35 "$(le 4 8)")" \
			"mpa role:77 state:4294967295 error:8" &&
		as_shown "$(attr 16 "$(le 4 $((0x181)))")" \
			"mpa markers:tx flags:0x180" &&
		as_shown "$(attr 13 01)$(attr 16 "")$(attr 20 010203)$(
			attr 22 "$(le 4 1)")$(attr 36 "")$(attr 37 00)$(
			attr 999 01)$(attr 15 "$(le 4 1)")" "mpa rev:1" &&
		as_shown "$(attr 41 "$(le 4 3)")$(attr 42 "$(le 4 4)")$(attr 43 "")" \
			"mpa tuf_tx:segments tuf_rx:4 resegmented" &&
		as_shown "$(attr 41 01)$(attr 42 "")$(attr 17 "")" "mpa placing"
}

patched_run "ss_takes_odd_attributes" odd

# ---- an ordinary user ----

# Since 6.15 the kernel shows a ULP's attributes to all users.
all_may=$(printf '%s\n' 6.15 "$(uname -r)" | sort -V | head -n 1)
[[ $all_may = 6.15 ]] || all_may=

# seen_by_nobody WHO [WORD...]: whether an ordinary user sees these words of the
# responder
seen_by_nobody() {
	local each

	for each in idle initiator responder failed child; do
		if [[ -n $all_may ]]; then
			has "$1" $each tcp-ulp-mpa || return
		else
			lacks "$1" $each 'tcp-ulp*' 'role:*' 'state:*' || return
		fi
	done
	[[ -z $all_may ]] || has "$1" responder "${@:2}" || return
	same_words "$1" initiator "$1" plain "${path[@]}"
}

sees=$([[ -n $all_may ]] && echo sees || echo does_not_see)
tap_run "an_ordinary_user_${sees}_the_ulp" seen_by_nobody nobody_stock
patched_run "an_ordinary_user_${sees}_what_it_says" \
	seen_by_nobody nobody_patched role:responder state:full placing
tap_end
