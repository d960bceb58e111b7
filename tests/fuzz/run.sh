#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tests/fuzz/run.sh DIRECTORY SECONDS [HARNESS…]: runs each harness for that long, beginning with its corpus (tests/fuzz/corpus); with
# $RUNS for that many executions instead; with SECONDS 0 on the corpus alone.
#
# Leaves new inputs in DIRECTORY/corpus and findings in DIRECTORY/findings. Prints a line for each harness: executions, edges reached,
# findings.

directory=${1:?usage: run.sh DIRECTORY SECONDS [HARNESS…]} seconds=${2:?seconds}
shift 2
tree=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
[ $# -gt 0 ] || set -- $(cd "$tree/tests/fuzz" && ls fuzz_*.c | sed 's/^fuzz_\(.*\)\.c$/\1/')
mkdir -p "$directory/findings"
failed=0

# number NAME: "stat::NAME: 5" in the log.
number()
{
	sed -n "s/^stat::$1: *//p" "$log"
}

for harness; do
	log=$directory/$harness.log
	corpus=$directory/corpus/$harness
	mkdir -p "$corpus"
	[ "$seconds" = 0 ] && limit=-runs=0 || limit=${RUNS:+-runs=$RUNS}
	limit=${limit:--max_total_time=$seconds}
	if "$directory/fuzz_$harness" "$limit" -timeout=20 -rss_limit_mb=2048 -max_len=8192 -print_final_stats=1 \
		-artifact_prefix="$directory/findings/$harness-" "$corpus" "$tree/tests/fuzz/corpus/$harness" >"$log" 2>&1; then
		state=ok
	else
		state=FAIL
		failed=$((failed + 1))
	fi
	edges=$(grep -oE 'cov: [0-9]+' "$log" | tail -1)
	printf '  %-4s  %-12s  %12s executions, %5s edges\n' "$state" "$harness" "$(number number_of_executed_units)" "${edges#cov: }"
	[ $state = ok ] || grep -E 'ERROR|SUMMARY|Test unit written' "$log" | sed 's/^/        /'
done
echo "$(($# - failed)) passed, $failed failed"
[ $failed = 0 ]
