#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# soak.sh SECONDS [KERNEL [SEED]]: tests/soak/test_soak of the build $B, here or in a guest with that kernel, and what its figures
# look like over the time: on the terminal, and as figures.svg beside its log, below $B/soak, where there is gnuplot.

set -u
seconds=${1:?usage: soak.sh SECONDS [KERNEL [SEED]]} kernel=${2-} seed=${3-}
tree=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
B=$(cd "${B:-build}" && pwd) || exit 1
directory=$B/soak/${kernel:-host}
log=$directory/log
mkdir -p "$directory"
soak=("$B/tests/test_soak" "--seconds=$seconds" ${seed:+"--seed=$seed"})
# A guest whose processors are emulated takes its time to come to an end.
[ -z "$kernel" ] || soak=("$tree/tests/vm/run-guest.sh" "--limit=$((seconds * 3 + 600))" "$kernel" -- "${soak[@]}")

# All but the first, which is the time, and the second, which grows with it.
draw()
{
	grep '^figures: ' "$log" | sed 's/^figures: //' >"$directory/figures"
	gnuplot >"$directory/figures.svg" 2>/dev/null <<-EOT
		set terminal svg size 900,1400
		set multiplot layout 8,1
		set key autotitle columnhead left
		do for [i=3:10] { plot "$directory/figures" using 1:i with linespoints }
	EOT
	echo "drawn: $directory/figures.svg"
}

export B
"${soak[@]}" </dev/null | tee "$log"
status=${PIPESTATUS[0]}
awk -f "$tree/tests/soak/plot.awk" "$log"
[ -z "$(command -v gnuplot)" ] || draw
exit "$status"
