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

# has_line PATTERN TEXT: a line of the text matches. By the shell itself if it can: in a guest the start of grep takes longer than a
# command of userevctl's.
has_line()
{
	local lines line
	mapfile -t -n 50 lines <<<"$2"
	[ ${#lines[@]} -lt 50 ] || { grep -qE -- "$1" <<<"$2"; return; }
	for line in "${lines[@]}"; do
		[[ $line =~ $1 ]]
		case $? in
		0) return ;;
		2) grep -qE -- "$1" <<<"$2" && return ;; # this expression is grep's alone
		esac
	done
	return 1
}

# says PATTERN COMMAND…: stdout or stderr matches it.
says()
{
	local pattern=$1 output
	shift
	output=$("$@" 2>&1)
	printf '%s\n' "$output"
	has_line "$pattern" "$output"
}

# fails STATUS PATTERN COMMAND…: exits and says in one.
fails()
{
	local wanted=$1 pattern=$2 output status
	shift 2
	output=$("$@" 2>&1)
	status=$?
	printf '%s\n' "$output"
	[ $status -eq "$wanted" ] || { echo "exit status $status instead of $wanted"; return 1; }
	has_line "$pattern" "$output"
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
# $scratch/json. (To import the module json takes longer than all of the rest: only if its scanner finds an error.)
json()
{
	local expression=$1
	shift
	"$@" >"${scratch:?}/json"
	python3 -IS -c '
import _json, sys
class Options:
    strict, parse_float, parse_int, parse_constant, object_hook, object_pairs_hook = True, float, int, None, None, None
scan = _json.make_scanner(Options)
def loads(text):
    it, end = scan(text, 0)
    if text[end:].strip():
        raise ValueError
    return it
text = open(sys.argv[2]).read()
try:
    try:
        it = loads(text)
    except (ValueError, StopIteration):
        it = [loads(line) for line in text.splitlines()]
except Exception:
    import json
    it = json.loads(text)
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
