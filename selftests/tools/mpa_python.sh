#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The Python package python/mpa against itself, C programs and simulated peers, and the
# programs in its documentation.
#
# mpa_python.sh [NAME...]: all tests, or those whose names contain one of these
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
for tool in ip tc ethtool unshare /usr/bin/python3; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
modprobe -q sch_netem || true
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

export MPA_BIN=${MPA_BIN:-$here/..}
# Use a loopback device of its own, as a test drops packets there.
# shellcheck disable=SC2016 # for the inner shell
exec unshare -n sh -c 'ip link set lo up && exec /usr/bin/python3 -B "$@"' sh \
	"$here/mpa_python.py" "$@"
