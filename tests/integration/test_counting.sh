#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Filters and histograms of userevctl, which are the kernel's: as root, in a guest.

cd "$(dirname "$0")/../.." || exit 1
tracefs=/sys/kernel/tracing
if [ "$(id -u)" != 0 ] || [ ! -e $tracefs/user_events_status ]; then
	echo '0 passed, 0 failed, 1 skipped: tracing needs root and a kernel with user_events'
	exit 0
fi
. tests/integration/tool.sh

# used N: so many tracers use the event that is counted: each has an instance.
used()
{
	[ "$(ls $tracefs/instances | grep -c '^userevctl-')" -eq "$1" ] && grep -qE '(^|:)counted # Used by' $tracefs/user_events_status
}

no_instance()
{
	! ls $tracefs/instances | grep '^userevctl-'
}

# count OPTION…: the histogram of a hundred records, n from 0 to 99.
count()
{
	local counting
	rm -f "$scratch/go"
	start "$scratch/program" "$B/tests/direct" --when="$scratch/go" --count=100 --number=n 'counted u32 n'
	within grep -q registered "$scratch/program"
	# A shell starts background programs with SIGINT ignored.
	env --default-signal=INT "$ctl" hist --timeout=300 "$@" counted >"$scratch/hist" 2>"$scratch/errors" &
	counting=$!
	within used 1
	touch "$scratch/go"
	wait "${started[-1]}"
	kill -INT $counting
	wait $counting || { cat "$scratch/errors"; return 1; }
	cat "$scratch/hist"
}

# fields FILE: of its records.
fields()
{
	grep -oE 'n=[0-9]+$' "$scratch/$1"
}

# Two tails and one that shows everything, of the same records.
filters_contradict()
{
	local tails=()
	rm -f "$scratch/go"
	start "$scratch/program" "$B/tests/direct" --when="$scratch/go" --count=100 --number=n 'counted u32 n'
	within grep -q registered "$scratch/program"
	"$ctl" tail --foreign --count=100 counted >"$scratch/all" 2>&1 &
	tails+=($!)
	"$ctl" tail --foreign --count=9 --filter='n > 90' counted >"$scratch/above" 2>&1 &
	tails+=($!)
	"$ctl" tail --foreign --count=10 --filter='n < 10' counted >"$scratch/below" 2>&1 &
	tails+=($!)
	within used 3
	touch "$scratch/go"
	wait "${tails[@]}"
	diff <(fields all | awk -F= '$2 > 90') <(fields above) && diff <(fields all | awk -F= '$2 < 10') <(fields below) &&
		[ "$(fields all | wc -l)" -eq 100 ]
}

check 'a histogram counts by powers of two' json \
	'[(one["keys"]["n"], one["hits"]) for one in it] == [(1, 2), (2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (64, 32), (128, 35)]' \
	count --json --key=n.log2
check '… as text, in the order of the ranges' says '^counted	<= 16	8$' count --key=n.log2
check '… with bars on a terminal' says '^counted  <= 128    35  #{30} *$' count --width=80 --key=n.log2
check '… and says how many' grep -q '^userevctl: 100 records counted' "$scratch/errors"
check 'a filter leaves records out' json 'sorted(one["keys"]["n"] for one in it) == [97, 98, 99] and it[0]["event"] == "counted"' \
	count --json --key=n --filter='n > 96'
check 'sums of values are shown' json 'it["hits"] == 100 and it["values"] == {"n": 4950}' count --json --key=common_pid --value=n
check 'a histogram leaves nothing behind' no_instance
check 'two tails and their contradictory filters' filters_contradict
check '… leave nothing behind' within no_instance
start "$scratch/still" "$B/tests/direct" --when="$scratch/never" 'counted u32 n'
within grep -q registered "$scratch/still"
check 'a wrong filter is refused' exits 1 "$ctl" tail --foreign --timeout=20 --filter='m > 1' counted
check '… with the kernel’s sentence' says "counted: the kernel refuses 'm > 1': Field not found" "$ctl" tail --foreign --timeout=20 --filter='m > 1' counted
check 'a wrong key is refused' exits 1 "$ctl" hist --key=m --timeout=1 counted
check '… with the kernel’s sentence' says "counted: the kernel refuses 'hist:keys=m:.*find field" "$ctl" hist --key=m --timeout=1 counted
check '… and nothing is left' no_instance
check 'without a key it is a wrong usage' exits 2 "$ctl" hist counted
sum_up
