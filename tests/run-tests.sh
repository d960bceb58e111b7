#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# run-tests.sh [-- BUILD PROGRAM…]… [--guest KERNEL BUILD PROGRAM…]…: runs test programs against the daemon and tools of a build, one
# after the other, and those for guests in them, and sums up. Each guest starts where it is named, and runs beside all that follows.
# A program is check's, or a script that ends with "N passed, N failed[, N skipped: why]". A KERNEL is 6.12, 6.1, or one with systemd:
# 6.12+systemd, or 6.12+early, whose systemd finds what is installed, and programs that can't wait for it, when it starts.
# The first "--" may be left out.
#
# A program that takes longer than TEST_LIMIT seconds (1200) has failed, and so has a guest after GUEST_LIMIT (2400).
#
# In a guest this runs, too, and the host learns the numbers so far, and what is running now, from the file $SUMS.

set -u
passed=0 failed=0 skipped=0 reasons='' where=''
guests=() shares=()
if [ -t 1 ] || [ -n "${COLOR-}" ]; then
	red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m' COLOR=1
else
	red='' green='' plain='' COLOR=
fi
[ -z "${SUMS-}" ] || where=", $(uname -r)"

# What a test leaves behind when it fails is gone with this.
TMPDIR=$(mktemp -d /tmp/userevd-XXXXXX)
export TMPDIR COLOR
chmod 755 "$TMPDIR"
end()
{
	[ ${#guests[@]} -eq 0 ] || { kill "${guests[@]}"; wait; } 2>/dev/null
	rm -rf "$TMPDIR"
}
trap end EXIT
trap 'exit 130' INT TERM

export CK_FORK=yes CK_VERBOSITY=normal
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1

# The numbers out of what a program printed last.
count()
{
	local log=$1 status=$2 checks failures errors
	p=0 f=0 s=0
	if read -r checks failures errors < <(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log" | tail -1) && [ -n "$errors" ]; then
		f=$((failures + errors)) p=$((checks - f))
	elif read -r p f s < <(sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped.*\)\?$/\1 \2 \4/p' "$log" | tail -1); then
		[ "${s:-0}" -gt 0 ] && reasons="$reasons; $(sed -n 's/^.* skipped: //p' "$log" | tail -1)"
	fi
	p=${p:-0} f=${f:-0} s=${s:-0}
	# Whatever it counted: one that ends badly has failed, and one that counted nothing too.
	if [ "$status" -ne 0 ] && [ "$f" -eq 0 ] || [ $((p + f + s)) -eq 0 ]; then
		f=$((f + 1))
	fi
}

add()
{
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# What is running now, and then that nothing is.
tell_host()
{
	[ -z "${SUMS-}" ] || printf '%s\n' "$passed $failed $skipped" "$1" "${reasons#; }" >"$SUMS"
}

# run BUILD PROGRAM
run()
{
	local build=$1 program=$2 name logs log start=$SECONDS status
	name=$(basename "$program")
	logs=${LOGS:-$build/logs}
	log=$logs/$name.log
	mkdir -p "$logs"
	tell_host "$name"
	B=$build timeout -k 10 "${TEST_LIMIT:-1200}" "$program" >"$log" 2>&1 </dev/null
	status=$?
	count "$log" $status
	if [ "$f" -eq 0 ]; then
		printf '  %sok%s    %-32s %4d passed  %3d s  %s\n' "$green" "$plain" "$name$where" "$p" $((SECONDS - start)) "$build"
	else
		printf '  %sFAIL%s  %-32s %4d failed, %d passed (exit status %d; %s)\n' "$red" "$plain" "$name$where" "$f" "$p" $status "$log"
		grep -vE '^[^ ]*:[0-9]+:P:' "$log" | tail -60 | sed 's/^/        /'
	fi
	add "$p" "$f" "$s"
}

# start_guest KERNEL BUILD PROGRAM…: in the background, its output in a file.
start_guest()
{
	local kernel=${1%+*} build=$2 share option=()
	share=$build/logs/linux-$1
	case $1 in
	*+systemd) option=(--systemd) ;;
	*+early) option=(--systemd --before=tests/systemd/early_boot.sh) ;;
	esac
	shift 2
	rm -rf "$share"
	mkdir -p "$share"
	: >"$share/output"
	B=$build tests/vm/run-guest.sh --limit="${GUEST_LIMIT:-2400}" --share="$share" "${option[@]}" "$kernel" -- \
		env COLOR="$COLOR" LOGS=/run/guest SUMS=/run/guest/sums tests/run-tests.sh "$build" "$@" >"$share/output" 2>&1 &
	guests+=($!)
	shares+=("$share")
}

# Shows what a guest printed and prints, but for its own sum, and adds that.
finish_guest()
{
	local pid=$1 share=$2 status running reason
	tail -n +1 -s 0.2 -f --pid="$pid" "$share/output" |
		sed -u "/^[0-9]* passed, [0-9]* failed/d; /^skipped: /d; s|; /run/guest/|; $share/|" &
	wait $!
	wait "$pid"
	status=$?
	p=0 f=0 s=0
	{ read -r p f s; read -r running; read -r reason; } 2>/dev/null <"$share/sums"
	add "${p:-0}" "${f:-0}" "${s:-0}"
	[ -z "${reason-}" ] || reasons="$reasons; $reason"
	# It ended by itself, and failed if and only if a program did.
	[ "${running-unknown}" = '' ] && [ $status -eq $((f > 0)) ] && return
	printf '  %sFAIL%s  %-32s (exit status %d; %s)\n' "$red" "$plain" \
		"Linux ${share##*/linux-}${running:+, in $running}" $status "$share/console.log"
	[ -z "${running-}" ] || tail -20 "$share/$running.log" | sed 's/^/        /'
	add 0 1 0
}

is_separator()
{
	[[ $1 = -- || $1 = --guest ]]
}

is_separator "${1-}" || set -- -- "$@"
while [ $# -gt 0 ]; do
	separator=$1 kernel=
	shift
	[ "$separator" != --guest ] || { kernel=$1 && shift; }
	build=$1
	shift
	programs=()
	while [ $# -gt 0 ] && ! is_separator "$1"; do
		programs+=("$1")
		shift
	done
	if [ ${#programs[@]} -eq 0 ]; then
		: # A list of the Makefile's that has nothing yet.
	elif [ -n "$kernel" ]; then
		start_guest "$kernel" "$build" "${programs[@]}"
	else
		for program in "${programs[@]}"; do
			run "$build" "$program"
		done
	fi
done
tell_host ''
for i in "${!guests[@]}"; do
	finish_guest "${guests[i]}" "${shares[i]}"
done
guests=()

[ $skipped -gt 0 ] && echo "skipped: ${reasons#; }"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ]
