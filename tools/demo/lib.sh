# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the demo's scripts. COLOUR=1 prints in colour.

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
