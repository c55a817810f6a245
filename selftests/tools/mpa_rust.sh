#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tests of the Rust crate, which rust/build has built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
built=$here/../../build/rust

[[ -x $built/test-socket ]] || skip_all "needs build/rust: rust/build"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
ip link set lo up
said=$(mktemp)
trap 'rm -f "$said"' EXIT

for program in "$built"/test-*; do
	rc=0
	"$program" >"$said" 2>&1 || rc=$?
	while read -r name result; do
		tap_ok "$([[ $result = ok ]]; echo $?)" "${program##*/test-}: $name" "$(<"$said")"
	done < <(sed -n 's/^test \([a-z_:]*\) \.\.\. \(.*\)$/\1 \2/p' "$said")
	tap_ok $rc "${program##*/test-}: all of them" "$(tail -n 5 "$said")"
done
tap_end
