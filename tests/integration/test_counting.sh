#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Filters, histograms and latencies of userevctl, which are the kernel's: as root, in a guest.

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

# between SECONDS OPTION…: the times from a hundred (or $records) records of one event to those of another, which come so much later.
between()
{
	local measuring
	rm -f "$scratch/begin" "$scratch/end"
	begun_and_ended --count="${records:-100}" --number=id
	env --default-signal=INT "$ctl" latency --timeout=300 --key=id "${@:2}" begun ended >"$scratch/latency" 2>"$scratch/errors" &
	measuring=$!
	within measures
	touch "$scratch/begin"
	within grep -q written "$scratch/begun"
	sleep "$1"
	touch "$scratch/end"
	within grep -q written "$scratch/ended"
	kill -INT $measuring
	wait $measuring || { cat "$scratch/errors"; return 1; }
	cat "$scratch/latency"
}

# begun_and_ended OPTION…: programs with these two events, which are registered when this returns.
begun_and_ended()
{
	start "$scratch/begun" "$B/tests/direct" --when="$scratch/begin" "$@" 'begun u32 id'
	start "$scratch/ended" "$B/tests/direct" --when="$scratch/end" "$@" 'ended u32 id'
	within grep -q registered "$scratch/begun" && within grep -q registered "$scratch/ended"
}

measures()
{
	grep -q 'begun # Used by' $tracefs/user_events_status && grep -q 'ended # Used by' $tracefs/user_events_status
}

# The command has no chance to remove anything.
killed_latency_is_removed()
{
	"$ctl" latency --timeout=300 --key=id begun ended &
	local killed=$!
	within measures && kill -KILL $killed
	wait $killed
	grep -q "userevctl_$killed" $tracefs/synthetic_events && exits 0 "$ctl" latency --timeout=1 --key=id begun ended && nothing_is_measured
}

full_table_is_reported()
{
	records=1000 between 0 --entries=128 && grep -q 'userevctl: 872 records were not counted: the kernel.s table of 128 entries' "$scratch/errors"
}

nothing_is_measured()
{
	no_instance && ! grep . $tracefs/synthetic_events && ! measures
}

check 'a histogram counts by powers of two' json \
	'[(one["keys"]["n"], one["hits"]) for one in it] == [(1, 2), (2, 1), (4, 2), (8, 4), (16, 8), (32, 16), (64, 32), (128, 35)]' \
	count --json --key=n.log2
check '… as text, in the order of the ranges' says '^counted	<= 16	8$' count --key=n.log2
check '… with bars on a terminal' says '^counted  <= 128    35  #{30} *$' count --width=80 --key=n.log2
check '… and says how many' grep -q '^userevctl: 100 records counted' "$scratch/errors"
check 'a histogram counts by program' says '^counted	direct .*	100$' count --key=common_pid.execname
check '… and by numbers, in hexadecimal' says '^counted	(0x)?63	1$' count --key=n.hex
check 'a filter leaves records out' json 'sorted(one["keys"]["n"] for one in it) == [97, 98, 99] and it[0]["event"] == "counted"' \
	count --json --key=n --filter='n > 96'
check 'sums of values are shown' json 'it["hits"] == 100 and it["values"] == {"n": 4950}' count --json --key=common_pid --value=n
check 'a histogram leaves nothing behind' no_instance
check 'two tails and their contradictory filters' filters_contradict
check '… leave nothing behind' within no_instance
check 'times between two events' json \
	'(lambda all: sum(one["hits"] for one in all) == 100 and {one["event"] for one in all} == {"begun -> ended"} and
		min(one["keys"]["us"] for one in all) > 200000)(it if isinstance(it, list) else [it])' \
	between 0.2 --json
check '… leave nothing behind' nothing_is_measured
check '… that are longer' json 'min(one["keys"]["us"] for one in (it if isinstance(it, list) else [it])) >= 2 ** 21' between 1.1 --json
check '… as text' says '^begun -> ended	<= [0-9]+	[0-9]+$' between 0
check '… and how many' grep -q '^userevctl: 100 records counted' "$scratch/errors"
check 'more values of the field than the kernel remembers are reported' full_table_is_reported
rm -f "$scratch/begin" "$scratch/end"
begun_and_ended --hold
check 'a killed command is cleaned up by the next' killed_latency_is_removed
check 'a key that the events do not have is refused' exits 1 "$ctl" latency --timeout=1 --key=m begun ended
check '… with the kernel’s sentence' says 'kernel refuses .*find field' "$ctl" latency --timeout=1 --key=m begun ended
check '… and nothing is left' nothing_is_measured
check 'an event that does not exist is refused' exits 1 "$ctl" latency --timeout=1 --key=id begun nosuch
check 'one event is no pair' exits 2 "$ctl" latency --timeout=1 --key=id begun
check 'latency without a key is a wrong usage' exits 2 "$ctl" latency begun ended
start "$scratch/still" "$B/tests/direct" --when="$scratch/never" 'counted u32 n'
within grep -q registered "$scratch/still"
check 'a wrong filter is refused' exits 1 "$ctl" tail --foreign --timeout=20 --filter='m > 1' counted
check '… with the kernel’s sentence' says "counted: the kernel refuses 'm > 1': Field not found" "$ctl" tail --foreign --timeout=20 --filter='m > 1' counted
check 'a wrong key is refused' exits 1 "$ctl" hist --key=m --timeout=1 counted
check '… with the kernel’s sentence' says "counted: the kernel refuses 'hist:keys=m:.*find field" "$ctl" hist --key=m --timeout=1 counted
check '… and nothing is left' no_instance
check 'without a key it is a wrong usage' exits 2 "$ctl" hist counted
sum_up
