#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# run-tests.sh BUILD PROGRAM… [-- BUILD PROGRAM…]…: runs test programs against the daemon and tools of a build, one after the
# other, and sums up. A program is check's, or a script that ends with "N passed, N failed[, N skipped: why]".

set -u
passed=0 failed=0 skipped=0 reasons=''
build=$1
shift
[ -t 1 ] && red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m' || red='' green='' plain=''
# What a test leaves behind when it fails is gone with this.
TMPDIR=$(mktemp -d /tmp/userevd-XXXXXX)
export TMPDIR
chmod 755 "$TMPDIR"
trap 'rm -rf "$TMPDIR"' EXIT
trap 'exit 130' INT TERM

export CK_FORK=yes CK_VERBOSITY=normal CK_DEFAULT_TIMEOUT=120
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1

# The numbers out of what a program printed last.
count()
{
	local log=$1 status=$2 checks failures errors
	p=0 f=0 s=0
	if read -r checks failures errors < <(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log" | tail -1) && [ -n "$errors" ]; then
		f=$((failures + errors)) p=$((checks - f))
	elif read -r p f s < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped.*\)\?$/\1 \2 \4/p' "$log" | tail -1); then
		s=${s:-0}
		[ "$s" -gt 0 ] && reasons="$reasons; $(sed -n 's/^.* skipped: //p' "$log" | tail -1)"
	fi
	# Whatever it counted: one that ends badly has failed, and one that counted nothing too.
	if [ "$status" -ne 0 ] && [ "$f" -eq 0 ] || [ $((p + f + s)) -eq 0 ]; then
		f=$((f + 1))
	fi
}

while [ $# -gt 0 ]; do
	if [ "$1" = -- ]; then
		build=$2
		shift 2
		continue
	fi
	name=$(basename "$1")
	mkdir -p "$build/logs"
	log=$build/logs/$name.log
	start=$SECONDS
	B=$build timeout -k 10 600 "$1" >"$log" 2>&1 </dev/null
	status=$?
	count "$log" $status
	if [ $f -eq 0 ]; then
		printf '  %sok%s    %-24s %4d passed  %3d s  %s\n' "$green" "$plain" "$name" $p $((SECONDS - start)) "$build"
	else
		printf '  %sFAIL%s  %-24s %4d failed, %d passed (exit status %d; %s)\n' "$red" "$plain" "$name" $f $p $status "$log"
		grep -vE '^[^ ]*:[0-9]+:P:' "$log" | tail -60 | sed 's/^/        /'
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	shift
done

[ $skipped -gt 0 ] && echo "skipped: ${reasons#; }"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ]
