# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the demo's scripts share. COLOUR=1 colours.

if [[ -n ${COLOUR:-} ]]; then
	bold=$'\e[1m' green=$'\e[32;1m' grey=$'\e[90m' plain=$'\e[0m'
else
	bold='' green='' grey='' plain=''
fi
export green grey

step() {
	printf '\n%s== %s%s\n\n' "$bold" "$*" "$plain"
}

die() {
	echo "demo: $*" >&2
	exit 1
}
