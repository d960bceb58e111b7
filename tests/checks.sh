# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests in shell: `check 'a sentence' COMMAND…` runs the command and counts; it prints the output of a command that failed.
# `sum_up ['N skipped: why']` prints the numbers and exits.

B=$(cd "${B:-build}" && pwd) || exit 1
checks_passed=0 checks_failed=0

check()
{
	local sentence=$1 output
	shift
	if output=$("$@" 2>&1); then
		checks_passed=$((checks_passed + 1))
		echo "ok    $sentence"
	else
		checks_failed=$((checks_failed + 1))
		echo "FAIL  $sentence"
		echo "      $*"
		printf '%s\n' "$output" | sed 's/^/      /'
	fi
}

# exits STATUS COMMAND…
exits()
{
	local wanted=$1 status
	shift
	"$@"
	status=$?
	[ $status -eq "$wanted" ] || { echo "exit status $status instead of $wanted"; return 1; }
}

# says PATTERN COMMAND…: stdout or stderr matches it.
says()
{
	local pattern=$1 output
	shift
	output=$("$@" 2>&1)
	printf '%s\n' "$output"
	grep -qE -- "$pattern" <<<"$output"
}

says_not()
{
	! says "$@"
}

says_nothing()
{
	local output
	output=$("$@" 2>/dev/null)
	printf '%s\n' "$output"
	[ -z "$output" ]
}

# within SECONDS COMMAND…: succeeds in that time; if not, its last output is printed.
within()
{
	local deadline=$((SECONDS + $1)) output
	shift
	until output=$("$@" 2>&1); do
		[ $SECONDS -lt $deadline ] || { printf '%s\n' "$output" && return 1; }
		sleep 0.2
	done
}

# A scene is a function of several steps; if one fails, the trace shows which.
scene()
{
	exec {BASH_XTRACEFD}>&1 # not stderr, which steps may compare
	set -x
	"$@"
}

# json EXPRESSION COMMAND…: the output is JSON, and the expression about `it` (a list: one for each line) is true. The output is left in
# $scratch/json.
json()
{
	local expression=$1
	shift
	"$@" >"${scratch:?}/json"
	python3 -IS -c '
import json, sys
text = open(sys.argv[2]).read()
try:
    it = json.loads(text)
except ValueError:
    it = [json.loads(line) for line in text.splitlines()]
sys.exit(not eval(sys.argv[1]))' "$expression" "$scratch/json" || { head -c 4000 "$scratch/json"; return 1; }
}

as_nobody()
{
	setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# A wait in vain is a failure, also where the checks behind it passed.
sum_up()
{
	[ $checks_failed -gt 0 ] || [ ! -e "${scratch-}/late" ] || check 'each wait ends in time' says_nothing cat "$scratch/late"
	echo "$checks_passed passed, $checks_failed failed${1:+, $1}"
	[ $checks_failed -eq 0 ] && [ $checks_passed -gt 0 ]
	exit
}
