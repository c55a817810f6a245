# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2034,SC2154
#
# Shared by the scripts that apply mutations. selftests/mutations has a file for each; a
# line is a word, a tab and the rest:
#
#   what	the mistake, in a few words
#   kernel	debug, or another kernel of vm/run; host for user space
#   suite	a test program and its tests; kunit; unit, in user space; "prove" is
#		left to explore/prove, which applies all that are called known_*
#   caught	grep -E pattern that the output must match; with unit
#		any failing test is enough
#   change	FILE<tab>sed -E command that changes it in one place; several
#   shown	for explore/prove: a sequence or a race that shows it
#   unseen	for explore/prove: the reason why no sequence of calls can show it
#
# $top is the project's folder.

mutations=$top/selftests/mutations

# A script's exit status when the mutations and the code do not match.
mutations_misfit=3

# mutation_names [PATTERN]: print the names of all mutations, in order
mutation_names() {
	find "$mutations" -type f -name "${1:-*}" -printf '%f\n' | LC_ALL=C sort
}

# value MUTATION WORD: print the rest of this line. For "none", the unchanged code,
# print nothing
value() {
	[[ $1 = none ]] || sed -n "s/^$2\t//p" "$mutations/$1"
}

# mutation_sources DIR: copy the module's unchanged sources
mutation_sources() {
	rm -rf "$1"
	mkdir -p "$1"
	(
		cd "$top" &&
			find include tuf -name '*.[ch]' -exec cp -p --parents {} "$1" \; &&
			cp -p Kbuild ./*.[ch] "$1"
	)
}

# mutation_fits MUTATION [ORIGINAL]: whether it has all necessary lines, and each change
# alters one place of the sources in ORIGINAL, by default the project's. Otherwise print
# the misfit. $mutated gets the changed files, by name.
mutation_fits() {
	local word file sed places before misfits=0

	for word in what kernel suite caught change; do
		[[ $word = caught && $(value "$1" suite) =~ ^(unit|prove)$ ]] ||
			[[ -n $(value "$1" $word) ]] || {
			echo "mutations/$1 has no line '$word'" >&2
			misfits=1
		}
	done
	declare -gA mutated=()
	while IFS=$'\t' read -r word file sed; do
		[[ $word = change ]] || continue
		[[ -n $sed && -f ${2:-$top}/$file ]] || {
			echo "mutations/$1: not 'change<tab>FILE<tab>SED'" \
			     "of a file that is there: $file" >&2
			misfits=1
			continue
		}
		# The dot keeps a newline at the end.
		before=${mutated[$file]-$(cat "${2:-$top}/$file" && echo .)}
		mutated[$file]=$(printf %s "${before%.}" | sed -E -e "$sed" && echo .) || {
			echo "mutations/$1: no command of sed -E: $sed" >&2
			misfits=1
			continue
		}
		places=$(diff <(printf %s "$before") <(printf %s "${mutated[$file]}") |
			 grep -c '^[0-9]')
		[[ $places -eq 1 ]] || {
			echo "mutations/$1 changes $places places of $file," \
			     "not one: $sed" >&2
			misfits=1
		}
	done <"$mutations/$1"
	return $misfits
}

# mutation_apply MUTATION DIR: change the sources in DIR
mutation_apply() {
	local file

	mutation_fits "$1" "$2" || return
	for file in "${!mutated[@]}"; do
		printf %s "${mutated[$file]%.}" >"$2/$file"
	done
}
