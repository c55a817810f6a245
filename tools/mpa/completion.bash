# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# bash completes "mpa ...": from this file in a folder of bash-completion, where it is
# called mpa, or with ". completion.bash". Commands and options are those that mpa
# itself names.

_mpa_commands() {
	"$1" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'
}

# Options of a command, as argp lists them: a short one, a long one, or both
_mpa_options() {
	"$1" "$2" --help 2>/dev/null | awk '/^ +-/ {
		for (i = 1; i <= 2 && $i ~ /^-/; i++) {
			sub(/[,=[].*/, "", $i)
			print $i
		}
	}' | sort -u
}

# Values of an option; "FILE" means names of files, "FOLDER" those of folders
_mpa_values() {
	case $1 in
	--records | -R) echo lines length stream ;;
	--role) echo initiator responder direct ;;
	--revision | -r) echo 0 1 2 ;;
	--p2p) echo fpdu write read ;;
	--send | --port-file) echo FILE ;;
	--receive) echo FILE ;;
	esac
}

_mpa_reply() {
	local line

	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done
}

_mpa() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} values

	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		_mpa_reply < <(compgen -W "$(_mpa_commands "$program") help --help --version" \
			-- "$word")
		return
	fi
	if [[ $command = help ]]; then
		_mpa_reply < <(compgen -W "$(_mpa_commands "$program")" -- "$word")
		return
	fi
	# --option=value comes as three words, as "=" is in COMP_WORDBREAKS.
	if [[ $word = = ]]; then
		word=
	elif [[ $before = = && $COMP_CWORD -ge 3 ]]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	values=$(_mpa_values "$before")
	if [[ $values = FILE ]]; then
		_mpa_reply < <(compgen -f -- "$word")
		compopt -o filenames 2>/dev/null
	elif [[ -n $values ]]; then
		_mpa_reply < <(compgen -W "$values" -- "$word")
	elif [[ $word = -* ]]; then
		_mpa_reply < <(compgen -W "$(_mpa_options "$program" "$command")" -- "$word")
	elif [[ $command = perf && $COMP_CWORD -eq 2 ]]; then
		_mpa_reply < <(compgen -W "server client" -- "$word")
	elif [[ $command =~ ^(connect|ping)$ ]]; then
		_mpa_reply < <(compgen -A hostname -- "$word")
	fi
}

complete -F _mpa mpa
