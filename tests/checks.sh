# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests in shell: `check 'a sentence' COMMAND…` runs the command and counts; `sum_up` says the numbers and exits. What a
# command printed is shown where it failed.

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

sum_up()
{
	echo "$checks_passed passed, $checks_failed failed"
	[ $checks_failed -eq 0 ] && [ $checks_passed -gt 0 ]
	exit
}
