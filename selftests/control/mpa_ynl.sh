#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The netlink family "mpa" and its specification, through the kernel's own client
# (scripts/ynl). MPA_YNL is its directory.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"
ynl=${MPA_YNL:-${XDG_CACHE_HOME:-$HOME/.cache}/mpa/ynl}

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
[[ -d $ynl ]] || skip_all "needs the kernel's tools: scripts/ynl"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

exec /usr/bin/python3 -B "$here/mpa_ynl.py" "$ynl" \
	"$here/../../Documentation/netlink/specs/mpa.yaml" "$@"
