#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl stats: numbers that are those of the records, by each kind of key, on a terminal and in a pipe.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh

start_daemon
for event in counted other; do
	mkfifo "$scratch/$event"
	start "$scratch/program" sh -c 'exec "$0" emit --stdin "$2 u32 n" <"$1"' "$ctl" "$scratch/$event" $event
done
exec 7>"$scratch/counted" 8>"$scratch/other"
within says '^other' "$ctl" events

# is_counted EXPRESSION: `lines` of stats, and `of(NAME)`, the last total of this name, if the intervals add up to it.
is_counted()
{
	json "(lambda lines: (lambda of: $1)(lambda name: (lambda all: all and sum(one['records'] for one in all) == all[-1]['total'] and all[-1]['total'])
		([one for one in lines if name in one.values()])))(it if isinstance(it, list) else [it])" cat "$scratch/stats"
}

# counted EXPRESSION OPTION…: when 150 and 50 records have come, and an interval later.
counted()
{
	local expression=$1
	shift
	env --default-signal=INT "$ctl" stats --json "$@" >"$scratch/stats" 2>&1 &
	local stats=$!
	within json 'any(one["on"] for one in it)' "$ctl" events --json
	seq 0 149 | sed 's/^/n=/' >&7
	seq 0 49 | sed 's/^/n=/' >&8
	within is_counted "$expression"
	sleep 1.1
	kill -INT $stats
	wait $stats
	is_counted "$expression"
}
check 'records by event' counted 'of("counted") == 150 and of("other") == 50' '*'
check '… of the named ones alone' counted 'of("counted") == 150 and of("other") == []' 'c*'
check '… by program' counted 'of("userevctl") == 200' --by=program '*'
check '… by tenant' counted 'lines[-1]["total"] == 200 and of(lines[-1]["tenant"]) == 200' --by=tenant '*'
check '… of another tenant' says_nothing "$ctl" stats --count=1 --tenant=nobody '*'

# A new event makes it ask the daemon, which is stopped.
ends_while_it_asks()
{
	local stats status
	env --default-signal=INT "$ctl" stats --json '*' >"$scratch/asking" 2>&1 &
	stats=$!
	within json 'any(one["on"] for one in it)' "$ctl" events --json
	kill -STOP $daemon
	"$B/tests/direct" --hold 'native u32 n' >/dev/null &
	local native=$!
	within grep -qw native /sys/kernel/tracing/user_events_status
	sleep 1
	kill -INT $stats
	wait $stats
	status=$?
	kill -CONT $daemon
	kill $native
	[ $status = 130 ] && says_nothing grep -v '^{' "$scratch/asking"
}
[ ! -e /sys/kernel/tracing/user_events_status ] || check 'a signal while the daemon is asked ends it without a word' ends_while_it_asks

(while sleep 0.1; do echo n=1; done >&7) &
started+=($!)
check 'lines in a pipe' says '^[1-9][0-9]*	[1-9][0-9]*	[1-9][0-9]*	counted$' "$ctl" stats --count=2 '*'
check '… with an interval of two seconds' json 'it["seconds"] == 2 and it["records"] > 5' "$ctl" stats --json --count=1 --interval=2 counted
check 'blocks on a terminal' says '█.*counted' script -qec "stty cols 100; '$ctl' stats --count=2 '*'" /dev/null
check '… in the place of the last ones' says $'\e\[2A\e\[J' script -qec "stty cols 100; '$ctl' stats --count=2 '*'" /dev/null
check '… which a narrow one lacks' says_not '█' script -qec "stty cols 40; '$ctl' stats --count=2 '*'" /dev/null
check 'the events are off again' json 'not any(one["on"] for one in it)' "$ctl" events --json
check 'a reader that goes' exits 0 sh -c '"$0" stats "*" | head -1 >/dev/null' "$ctl"
check 'no such event' exits 1 "$ctl" stats nosuch
check 'no such key' exits 2 "$ctl" stats --by=nothing
exec 7>&- 8>&-
sum_up
