#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa_nl_fuzz.sh [--seed N] [--time SECONDS]: malformed requests to the netlink
# family "mpa"; see mpa_nl_fuzz.py.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip_all "needs python3-yaml"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

exec /usr/bin/python3 -B "$here/mpa_nl_fuzz.py" "$@" \
	"$here/../../Documentation/netlink/specs/mpa.yaml"
