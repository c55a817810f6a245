# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# bash completion for "mpa ...": install this file as "mpa" in a folder of
# bash-completion, or load it with ". completion.bash". Commands and options come
# from mpa itself.

_mpa_commands() {
	"$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
}

# PROGRAM COMMAND...: its options, as argp lists them: short, long, or both
_mpa_options() {
	"$@" --help 2>/dev/null | awk '/^ +-/ {
		for (i = 1; i <= NF && $i ~ /^-/; i++) {
			sub(/[,=[].*/, "", $i)
			print $i
		}
	}' | sort -u
}

# OPTION PROGRAM COMMAND...: whether the next word is its value
_mpa_takes_value() {
	"${@:2}" --help 2>/dev/null |
		grep -qE -- "^ +(-[^ ]+, )*$1(, -[^ =]+)*="
}

# COMMAND OPTION: its fixed values. FILE stands for file names, a comma at the
# beginning for a list of values.
_mpa_values() {
	case "$1 $2" in
	"listen --records" | "listen -R" | "connect --records" | "connect -R")
		echo lines length stream ;;
	*" --role") echo initiator responder direct ;;
	*" --revision" | "listen -r" | "connect -r" | "ping -r" | "perf client -r")
		echo 0 1 2 ;;
	*" --p2p") echo , fpdu write read ;;
	"monitor --event" | "monitor -e")
		echo , started refused failed mulpdu unaligned closed ;;
	"perf client --test") echo stream rate latency ;;
	"perf client --segment") echo fill off ;;
	*" --send" | *" --receive" | *" --port-file") echo FILE ;;
	esac
}

# COMMAND WORD-BEFORE: the words, other than options, that may follow
_mpa_words() {
	case "$1 $2" in
	"show state" | "monitor state")
		echo , idle startup requested full rejected failed listening ;;
	"show role" | "monitor role") echo , initiator responder direct unspec ;;
	"show user" | "monitor user") compgen -u ;;
	*" port" | *" local" | *" remote" | *" cookie") ;;
	"show show") echo stat state role port local remote cookie user failed tuf ;;
	"show "* | "monitor "*) echo state role port local remote cookie user failed tuf ;;
	"policy "*)
		echo crc-optional= startup-timeout-ms= startup-max= markers= place= \
			crc-optional startup-timeout-ms startup-max markers place ;;
	"perf perf") echo server client -s -c ;;
	"connect "* | "ping "* | "perf client "*) compgen -A hostname ;;
	esac
}

_mpa_reply() {
	local line

	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done
}

# WORD VALUES: the values that match
_mpa_offer() {
	local word=$1 values=$2 front=

	if [[ $values = FILE ]]; then
		_mpa_reply < <(compgen -f -- "$word")
		compopt -o filenames 2>/dev/null
		return
	fi
	if [[ $values = ,* ]]; then
		values=${values#,}
		[[ $word != *,* ]] || front=${word%,*},
	fi
	_mpa_reply < <(compgen -P "$front" -W "$values" -- "${word#"$front"}")
	[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}

_mpa() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local program=${COMP_WORDS[0]} command=("${COMP_WORDS[1]}") equals=

	COMPREPLY=()
	if [[ ${command[0]} = -N || ${command[0]} = --netns ]] && [[ $COMP_CWORD -ge 2 ]]; then
		if [[ $COMP_CWORD -eq 2 ]]; then
			_mpa_offer "$word" "$(ip netns list 2>/dev/null | sed 's/ .*//')"
			return
		fi
		local COMP_WORDS=("$program" "${COMP_WORDS[@]:3}") COMP_CWORD=$((COMP_CWORD - 2))
		_mpa
		return
	fi
	if [[ $COMP_CWORD -eq 1 ]]; then
		_mpa_offer "$word" "$(_mpa_commands "$program") help --help --version --netns"
		return
	fi
	if [[ ${command[0]} = help ]]; then
		_mpa_offer "$word" "$(_mpa_commands "$program")"
		return
	fi
	if [[ ${command[0]} = perf && $COMP_CWORD -gt 2 ]]; then
		command+=("${COMP_WORDS[2]}")
		[[ ${command[1]} != -c ]] || command[1]=client
		[[ ${command[1]} != -s ]] || command[1]=server
	fi
	# --option=value arrives as three words, as "=" is in COMP_WORDBREAKS.
	if [[ $word = = ]]; then
		word=
		equals=1
	elif [[ $before = = && $COMP_CWORD -ge 3 ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
		equals=1
	fi
	if [[ $before = -* ]] && { [[ -n $equals ]] ||
	   _mpa_takes_value "$before" "$program" "${command[@]}"; }; then
		_mpa_offer "$word" "$(_mpa_values "${command[*]}" "$before")"
	elif [[ $word = -* ]]; then
		_mpa_offer "$word" "$(_mpa_options "$program" "${command[@]}")"
	elif [[ -z $equals ]]; then
		_mpa_offer "$word" "$(_mpa_words "${command[*]}" "$before")"
	fi
}

complete -F _mpa mpa
