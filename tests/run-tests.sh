#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# run-tests.sh [-- BUILD PROGRAM…]… [--beside BUILD PROGRAM…]… [--guest KERNEL BUILD PROGRAM…]…: runs test programs against the daemon
# and tools of a build, one after the other, and sums up. What is to run beside all that follows, here or in a guest, starts where it
# is named. A program is check's, or a script that ends with "N passed, N failed[, N skipped: why]". A KERNEL is 6.12 or 6.1, or one with
# two processors: 6.12+two; or with systemd: 6.12+systemd, or 6.12+early, whose systemd finds what is installed, and programs that
# can't wait for it, when it starts.
# The first "--" may be left out.
#
# A program that takes longer than TEST_LIMIT seconds (1200) has failed, and so has a guest after GUEST_LIMIT (2400).
#
# What runs beside, and in a guest, is this script, too: the first one learns the numbers so far, and what is running now, from the
# file $SUMS.

set -u
passed=0 failed=0 skipped=0 reasons='' where=''
program=() processes=() folders=()
if [ -t 1 ] || [ -n "${COLOR-}" ]; then
	red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m' COLOR=1
else
	red='' green='' plain='' COLOR=
fi
[ -z "${IN_GUEST-}" ] || where=", $(uname -r)"

# What a test leaves behind when it fails is gone with this.
TMPDIR=$(mktemp -d /tmp/userevd-XXXXXX)
export TMPDIR COLOR
chmod 755 "$TMPDIR"
# Directories of status pages in /dev/shm: a daemon that a test has killed leaves its own there for a successor.
page_directories()
{
	find /dev/shm -maxdepth 1 -type d -name 'userevd-*' 2>/dev/null | sort
}
before=$(page_directories)
# The new ones, unless a process still has a lock on a page, whose name has its inode's number.
remove_page_directories()
{
	local directory page
	comm -13 <(echo "$before") <(page_directories) | while read -r directory; do
		for page in "$directory"/page-*; do
			! grep -q ":${page##*-} " /proc/locks || continue 2
		done
		rm -rf "$directory"
	done
}
end()
{
	[ -z "${program[*]}${processes[*]}" ] || { kill "${program[@]}" "${processes[@]}"; wait; } 2>/dev/null
	rm -rf "$TMPDIR"
	# Once, when all that runs beside has ended, too.
	[ -n "${SUMS-}" ] || remove_page_directories
}
trap end EXIT
trap 'exit 130' INT TERM

# For what is started with "&", which would otherwise ignore ^C, and all that it starts.
heed_interrupts=(env --default-signal=INT --default-signal=QUIT)

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
tell_first()
{
	[ -z "${SUMS-}" ] || printf '%s\n' "$passed $failed $skipped" "$1" "${reasons#; }" >"$SUMS"
}

# run BUILD PROGRAM
run()
{
	local build=$1 name logs log start=$SECONDS status
	name=$(basename "$2")
	logs=${LOGS:-$build/logs}
	log=$logs/$name.log
	mkdir -p "$logs"
	tell_first "$name"
	B=$build "${heed_interrupts[@]}" timeout -k 10 "${TEST_LIMIT:-1200}" "$2" >"$log" 2>&1 </dev/null &
	program=($!)
	wait "${program[0]}"
	status=$?
	program=()
	count "$log" $status
	if [ "$f" -eq 0 ]; then
		printf '  %sok%s    %-32s %4d passed  %3d s  %s\n' "$green" "$plain" "$name$where" "$p" $((SECONDS - start)) "$build"
	else
		printf '  %sFAIL%s  %-32s %4d failed, %d passed (exit status %d; %s)\n' "$red" "$plain" "$name$where" "$f" "$p" $status "$log"
		grep -vE '^[^ ]*:[0-9]+:P:' "$log" | tail -60 | sed 's/^/        /'
	fi
	add "$p" "$f" "$s"
}

# start FOLDER COMMAND…: in the background, what it prints in a file there.
start()
{
	local folder=$1
	shift
	rm -rf "$folder"
	mkdir -p "$folder"
	# There at once: what shows it may look before what writes it has begun.
	: >"$folder/output"
	"${heed_interrupts[@]}" "$@" >"$folder/output" 2>&1 &
	processes+=($!)
	folders+=("$folder")
}

# start_beside BUILD PROGRAM…
start_beside()
{
	local folder=$1/logs/beside
	start "$folder" env LOGS="$folder" SUMS="$folder/sums" tests/run-tests.sh "$@"
}

# start_guest KERNEL BUILD PROGRAM…
start_guest()
{
	local kernel=${1%+*} build=$2 folder=$2/logs/linux-$1 option=()
	case $1 in
	*+two) option=(--processors=2) ;;
	*+systemd) option=(--systemd) ;;
	*+early) option=(--systemd --before=tests/systemd/early_boot.sh) ;;
	esac
	shift
	start "$folder" env B="$build" tests/vm/run-guest.sh --limit="${GUEST_LIMIT:-2400}" --share="$folder" "${option[@]}" "$kernel" -- \
		env COLOR="$COLOR" ${COVERAGE:+GCOV_PREFIX=/run/guest/coverage} IN_GUEST=1 LOGS=/run/guest SUMS=/run/guest/sums \
		tests/run-tests.sh "$@"
}

# Shows what was printed there and still is, but for its own sum, and adds that.
finish()
{
	local pid=$1 folder=$2 status running reason
	tail -n +1 -s 0.2 -f --pid="$pid" "$folder/output" |
		sed -u "/^[0-9]* passed, [0-9]* failed/d; /^skipped: /d; s|; /run/guest/|; $folder/|" &
	wait $!
	wait "$pid"
	status=$?
	p=0 f=0 s=0
	{ read -r p f s; read -r running; read -r reason; } 2>/dev/null <"$folder/sums"
	add "${p:-0}" "${f:-0}" "${s:-0}"
	[ -z "${reason-}" ] || reasons="$reasons; $reason"
	# It ended by itself, and failed if and only if a program did.
	[ "${running-unknown}" = '' ] && [ $status -eq $((f > 0)) ] && return
	printf '  %sFAIL%s  %-32s (exit status %d; %s)\n' "$red" "$plain" \
		"${folder##*/}${running:+, in $running}" $status "$folder"
	[ -z "${running-}" ] || tail -20 "$folder/$running.log" | sed 's/^/        /'
	add 0 1 0
}

is_separator()
{
	[[ $1 = -- || $1 = --beside || $1 = --guest ]]
}

is_separator "${1-}" || set -- -- "$@"
while [ $# -gt 0 ]; do
	separator=$1 place=()
	shift
	[ "$separator" != --guest ] || { place=("$1") && shift; }
	place+=("$1")
	shift
	programs=()
	while [ $# -gt 0 ] && ! is_separator "$1"; do
		programs+=("$1")
		shift
	done
	[ ${#programs[@]} -gt 0 ] || continue # a list of the Makefile's that has nothing yet
	case $separator in
	--guest) start_guest "${place[@]}" "${programs[@]}" ;;
	--beside) start_beside "${place[@]}" "${programs[@]}" ;;
	*)
		for one in "${programs[@]}"; do
			run "${place[@]}" "$one"
		done
		;;
	esac
done
tell_first ''
for i in "${!processes[@]}"; do
	finish "${processes[i]}" "${folders[i]}"
done
processes=()

[ $skipped -gt 0 ] && echo "skipped: ${reasons#; }"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ]
