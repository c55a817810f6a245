#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mpa_steal.sh [OPTION]... [CASE...]: the cases of mpa_aligned.sh with the kernel's
# default settings, while processors are taken away from both ends at random
# (kmod/mpa_steal.c) and busy loops run. It prints the share of segments that still
# begin with an FPDU, also in the worst run.
#
# --runs=N: run each case N times. --ms=N: take a processor for N milliseconds at a
# time. --every=N: average milliseconds between; 0: never. --busy=N: number of busy
# loops, by default one for each processor. --no-capture: check the counters only.
# MPA_WIRE_DIR keeps the capture, see mpa_aligned.sh.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=selftests/lib/lib.sh
. "$here/../lib/lib.sh"

# The required share of aligned segments, in 1/1000 of a per cent
wanted_all=99900
wanted_run=99500

runs=20
ms=5
every=25
busy=$(nproc)
options=(--defaults)
while [[ ${1:-} = --* ]]; do
	case $1 in
	--runs=*) runs=${1#*=} ;;
	--ms=*) ms=${1#*=} ;;
	--every=*) every=${1#*=} ;;
	--busy=*) busy=${1#*=} ;;
	--no-capture | --long) options+=("$1") ;;
	*) skip_all "no option $1" ;;
	esac
	shift
done
[[ $# -gt 0 ]] || set -- bulk bulk_1499 slow_reader slow_reader_markers nagle \
	small_send_buffer records_of_1024 mixed_sizes \
	batches_and_a_slow_reader loss loss_records_of_1024

[[ $(id -u) -eq 0 ]] || skip_all "needs root"
mpa_load || skip_all "cannot load mpa: make module, and MPA_KO=.../mpa.ko"
thief=${MPA_KO:+${MPA_KO%/*}/kmod/mpa_steal.ko}
[[ $every -eq 0 || -e $thief ]] || skip_all "no mpa_steal.ko: kmod/build"

cleanup() {
	jobs_end
	[[ ! -d /sys/module/mpa_steal ]] || rmmod mpa_steal
}

# summary: print each case of the table on standard input. Fails if too few segments are
# aligned
summary() {
	awk -v wanted_all=$wanted_all -v wanted_run=$wanted_run '
	$1 != "#" || $3 !~ /^[0-9]+$/ || $4 !~ /^[0-9.]+$/ { next }
	{
		name = $2
		sub(/\.[0-9]+$/, "", name)
		if (!(name in runs))
			order[++cases] = name
		bad = 0
		for (i = 6; i < NF; i += 2) {
			bad += $(i + 1)
			cause[name, $i] += $(i + 1)
			causes[$i] = 1
		}
		share = 100000 * (1 - bad / $3)
		if (!(name in runs) || share < worst[name])
			worst[name] = share
		if (share < wanted_run)
			failed = 1
		runs[name]++
		segments[name] += $3
		misaligned[name] += bad
		all += $3
		all_bad += bad
	}
	END {
		printf "# %-26s %5s %9s %10s %9s %9s\n", "case", "runs",
			"segments", "misaligned", "aligned%", "worst%"
		for (i = 1; i <= cases; i++) {
			name = order[i]
			line = ""
			for (why in causes)
				if ((name, why) in cause)
					line = line " " why " " cause[name, why]
			printf "# %-26s %5d %9d %10d %9.3f %9.3f %s\n", name,
				runs[name], segments[name], misaligned[name],
				100 - 100 * misaligned[name] / segments[name],
				worst[name] / 1000, line
		}
		if (!all)
			exit 1
		printf "# %-26s %5s %9d %10d %9.3f\n", "all", "", all, all_bad,
			100 - 100 * all_bad / all
		exit failed || 100000 * (1 - all_bad / all) < wanted_all
	}'
}

trap cleanup EXIT
for ((; busy; busy--)); do
	(exec nice -n 10 bash -c 'while :; do :; done') &
done
[[ $every -eq 0 ]] || insmod "$thief" "ms=$ms" "every=$every"

rc=0
# It takes long: show the progress.
said=$("$here/mpa_aligned.sh" "${options[@]}" "--times=$runs" "$@" |
	tee /dev/stderr) || rc=$?
tap_ok $rc traffic
rc=0
seen=$(summary <<<"$said") || rc=$?
echo "$seen"
tap_ok $rc aligned "expected 99.9 % of all segments, 99.5 % of each run"
tap_end
