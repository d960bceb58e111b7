# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Sourced by tests of recordings: their numbered records, as report and trace-cmd show them. After tool.sh.

# shellcheck disable=SC2154 # of tool.sh, and of the test
file=$scratch/trace.dat

# ends STATUS: the recorder, after a SIGINT.
ends()
{
	kill -INT "$recorder"
	exits "$1" wait "$recorder"
}

# numbers FILE: of the records, as report and trace-cmd show them; empty if they differ.
numbers()
{
	"$ctl" report "$1" 2>"$scratch/report.error" | grep -oE 'n=[0-9]+' >"$scratch/ours"
	[ "$without_trace_cmd" ] || trace-cmd report "$1" 2>/dev/null | grep -E ' (counted|large): ' | grep -oE 'n=[0-9]+' >"$scratch/theirs"
	[ "$without_trace_cmd" ] || cmp -s "$scratch/ours" "$scratch/theirs" || { echo 'report and trace-cmd differ' >&2; return 1; }
	cut -d= -f2 "$scratch/ours"
}

without_trace_cmd=$(command -v trace-cmd >/dev/null || echo yes)

# are_all N: the records of the file have the numbers from 0 to N - 1.
are_all()
{
	diff <(numbers "$file") <(seq 0 $(($1 - 1)))
}

# add_up N: written and lost records, as the recorder said (FILE if it was not killed), and as the file says.
add_up()
{
	numbers "$file" >"$scratch/numbers" || return 1
	sort -n -u "$scratch/numbers" | cmp - "$scratch/numbers" || return 1
	local written lost
	written=$(wc -l <"$scratch/numbers")
	lost=$("$ctl" report "$file" 2>&1 >/dev/null | sed -nE 's/^userevctl: (.*: )?([0-9,]+) records? (is|are) (missed|missing).*/\2/p' |
		tr -d , | awk '{ sum += $1 } END { print sum + 0 }')
	echo "$written written, $lost lost"
	[ $((written + lost)) -eq "$1" ] && said "$written" "$lost"
}

# said WRITTEN LOST: at the end of the recorder.
said()
{
	tr -d , <"$scratch/record.error" | grep -E "^userevctl: $1 records? $2 lost"
}
