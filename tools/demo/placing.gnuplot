# SPDX-License-Identifier: GPL-2.0
#
# The delay of each record against the time when it was sent. The variables
# terminal_is, build and svg come from the command line.
set xlabel "sent at, in seconds"
set ylabel "ms from send to recv"
set yrange [0:*]
set key outside top center horizontal
set xrange [0:4]
if (terminal_is eq "svg") {
	set terminal svg size 900,320 font "sans-serif,14" background "white"
	set output svg
	set title "Records of 1000 octets, one each 2 ms, path of 20 ms, one of 230 lost"
	set grid ytics
	set xrange [0:2]
	# Records that were placed are in the order in which they came.
	by_time = "< sort -n -k 2 ".build
	plot by_time."/in-order.tsv" using ($2/1000):3 title "in order" \
		with filledcurves y=20 lc rgb "#e57368", \
	     by_time."/placed.tsv" using ($2/1000):3 title "with MPA\\_PLACE" \
		with lines lw 2 lc rgb "#2471a3"
} else {
	if (colours eq "ansi") { set terminal dumb size 78,20 ansi } else { set terminal dumb size 78,20 mono }
	set ylabel "ms"
	set tics scale 0.5
	plot build."/in-order.tsv" using ($2/1000):3 title "in order" \
		with points pt "o", \
	     build."/placed.tsv" using ($2/1000):3 title "with MPA_PLACE" \
		with points pt "*"
}
