#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Which segment is sent, with which octets, and when, seen by a peer whose TCP does
# only what a script says: the cases in this folder.
#
# mpa_exact.sh [WORD...]: all cases, or those whose names contain one of these words
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
for tool in ip unshare /usr/bin/python3; do
	command -v $tool >/dev/null || skip_all "needs $tool"
done
modprobe -q tun || true
[[ -c /dev/net/tun ]] || skip_all "needs /dev/net/tun"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"

exec unshare -n /usr/bin/python3 -B "$here" "$@"
