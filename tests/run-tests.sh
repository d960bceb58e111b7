#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# run-tests.sh [--left-out WHAT] [-- BUILD PROGRAM…]… [--beside BUILD PROGRAM…]… [--machine NAME BUILD PROGRAM…]… [--guest KERNEL BUILD
# PROGRAM…]…: runs test programs against the daemon and tools of a build, one after the other, and sums up. WHAT counts as skipped.
# --beside, --machine and --guest start in the background, beside the rest of the arguments. A program is check's, or a script that ends
# with "N passed, N failed[, N skipped: why]". Those for another machine are emulated (tests/machines/emulate.sh). A KERNEL is 6.12 or 6.1;
# with two processors 6.12+two; with systemd 6.12+systemd, 6.12+containers, 6.12+mounts, 6.12+image, 6.12+privileges, 6.12+packages, or
# 6.12+early, where userevd and its clients are installed before systemd starts; with systemd and cgroups of version 1 6.12+legacy, and of
# both versions 6.12+hybrid; without any cgroups 6.12+bare; with AppArmor and systemd 6.12+apparmor; of another machine 6.12+arm64. Any other word behind the "+" only names a second
# guest.
# The first "--" may be left out.
#
# A program that takes longer than TEST_LIMIT seconds (1200) has failed, and so has a guest after GUEST_LIMIT (2400).
#
# Background runs use this script, too. They write their numbers, and the program that is running, into the file $SUMS.

set -u
passed=0 failed=0 skipped=0 reasons='' where=''
program=() processes=() folders=()
if [ -t 1 ] || [ -n "${COLOR-}" ]; then
	red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m' COLOR=1
else
	red='' green='' plain='' COLOR=
fi
[ -z "${IN_GUEST-}" ] || where=", $(uname -r)"
[ -z "${MACHINE-}" ] || where=", $MACHINE"
# Programs of other users write their counts beside ours.
[ -z "${GCOV_PREFIX-}" ] || umask 0

# Removed at the end, with the files of failed tests.
TMPDIR=$(mktemp -d /tmp/userevd-XXXXXX)
export TMPDIR COLOR
chmod 755 "$TMPDIR"
# Directories of status pages in /dev/shm: a daemon that a test has killed leaves its own there for a successor.
page_directories()
{
	find /dev/shm -maxdepth 1 -type d -name 'userevd-*' 2>/dev/null | sort
}
before=$(page_directories)
# The new ones, unless a process has a lock on a page. A page's name contains its inode's number.
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
	# Once, after the background runs.
	[ -n "${SUMS-}" ] || remove_page_directories
}
trap end EXIT
trap 'exit 130' INT TERM

# Packages of the distribution have the tests' modules, and their Python starts twice as fast in a guest as one with other packages.
PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH

# A program started with "&" would otherwise ignore ^C.
heed_interrupts=(env --default-signal=INT --default-signal=QUIT)

export CK_FORK=yes CK_VERBOSITY=normal
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1

# The numbers in the last lines of a log.
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
	# A bad exit status is a failure, and so is a program without a test.
	if [ "$status" -ne 0 ] && [ "$f" -eq 0 ] || [ $((p + f + s)) -eq 0 ]; then
		f=$((f + 1))
	fi
}

add()
{
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# Writes the numbers and the running program; '' if none is running.
write_sums()
{
	[ -z "${SUMS-}" ] || printf '%s\n' "$passed $failed $skipped" "$1" "${reasons#; }" >"$SUMS"
}

# nothing_runs PID LOG: the process group of a test that has ended is empty. Otherwise its processes are killed.
nothing_runs()
{
	local left
	for _ in {1..20}; do
		left=$(pgrep -a -g "$1") || return 0
		sleep 0.1
	done
	printf 'still running after the test:\n%s\n' "$left" >>"$2"
	kill -KILL -- "-$1"
	return 1
}

# run BUILD PROGRAM
run()
{
	local build=$1 name logs log start=$SECONDS status
	name=$(basename "$2")
	logs=${LOGS:-$build/logs}
	log=$logs/$name.log
	mkdir -p "$logs"
	write_sums "$name"
	B=$build "${heed_interrupts[@]}" timeout -k 10 "${TEST_LIMIT:-1200}" ${MACHINE:+tests/machines/emulate.sh "$MACHINE"} "$2" >"$log" 2>&1 </dev/null &
	program=($!)
	wait "${program[0]}"
	status=$?
	count "$log" $status
	nothing_runs "${program[0]}" "$log" || f=$((f + 1))
	program=()
	if [ "$f" -eq 0 ]; then
		printf '  %sok%s    %-32s %4d passed  %3d s  %s\n' "$green" "$plain" "$name$where" "$p" $((SECONDS - start)) "$build"
	else
		printf '  %sFAIL%s  %-32s %4d failed, %d passed (exit status %d; %s)\n' "$red" "$plain" "$name$where" "$f" "$p" $status "$log"
		grep -vE '^[^ ]*:[0-9]+:P:' "$log" | tail -60 | sed 's/^/        /'
	fi
	add "$p" "$f" "$s"
}

# start FOLDER COMMAND…: in the background, with its output in a file there. Waits if $AT_ONCE of them are running.
start()
{
	local folder=$1
	shift
	[ ${#processes[@]} -lt "${AT_ONCE:-100}" ] || finish_first
	rm -rf "$folder"
	mkdir -p "$folder"
	# finish() may read the file before the program has begun.
	: >"$folder/output"
	"${heed_interrupts[@]}" "$@" >"$folder/output" 2>&1 &
	processes+=($!)
	folders+=("$folder")
}

# start_beside BUILD PROGRAM…
start_beside()
{
	local folder=$1/logs/beside
	while [[ " ${folders[*]} " == *" $folder "* ]]; do folder+=+; done
	start "$folder" env LOGS="$folder" SUMS="$folder/sums" tests/run-tests.sh "$@"
}

# start_machine NAME BUILD PROGRAM…
start_machine()
{
	MACHINE=$1 start_beside "${@:2}"
}

# start_guest KERNEL BUILD PROGRAM…
start_guest()
{
	local kernel=${1%+*} build=$2 folder=$2/logs/linux-$1 option=()
	case $1 in
	*+two) option=(--processors=2) ;;
	*+systemd | *+containers | *+mounts | *+image | *+privileges | *+packages) option=(--systemd --memory=3072) ;;
	# crun refuses hosts where version 2 has controllers, and Linux 6.12 without MEMCG_V1 and CPUSETS_V1 has these two only there.
	*+hybrid) option=(--systemd --memory=3072 --append='systemd.unified_cgroup_hierarchy=0 cgroup_disable=memory,cpuset') ;;
	*+legacy) option=(--systemd --memory=3072 --append='systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1') ;;
	*+early) option=(--systemd --before=tests/systemd/early_boot.sh) ;;
	*+apparmor) option=(--kernel=apparmor --systemd --memory=3072) ;;
	*+arm64) option=(--machine=arm64) ;;
	*+bare) option=(--append=NO_CGROUPS=1) ;;
	esac
	shift
	start "$folder" env B="$build" tests/vm/run-guest.sh --limit="${GUEST_LIMIT:-2400}" --share="$folder" "${option[@]}" "$kernel" -- \
		env COLOR="$COLOR" ${COVERAGE:+GCOV_PREFIX=/run/guest/coverage GCOV_ERROR_FILE=/dev/null} IN_GUEST=1 LOGS=/run/guest SUMS=/run/guest/sums \
		tests/run-tests.sh "$@"
}

# Prints the output of a background run until its end, and adds its numbers to the sum.
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
	# A run that ended by itself has no running program, and fails only if a program did.
	[ "${running-unknown}" = '' ] && [ $status -eq $((f > 0)) ] && return
	printf '  %sFAIL%s  %-32s (exit status %d; %s)\n' "$red" "$plain" \
		"${folder##*/}${running:+, in $running}" $status "$folder"
	[ -z "${running-}" ] || tail -20 "$folder/$running.log" | sed 's/^/        /'
	add 0 1 0
}

finish_first()
{
	finish "${processes[0]}" "${folders[0]}"
	processes=("${processes[@]:1}") folders=("${folders[@]:1}")
}

is_separator()
{
	[[ $1 = -- || $1 = --beside || $1 = --machine || $1 = --guest ]]
}

[ "${1-}" != --left-out ] || { skipped=1 reasons=$2 && shift 2; }
is_separator "${1-}" || set -- -- "$@"
while [ $# -gt 0 ]; do
	separator=$1 place=()
	shift
	[[ $separator != --guest && $separator != --machine ]] || { place=("$1") && shift; }
	place+=("$1")
	shift
	programs=()
	while [ $# -gt 0 ] && ! is_separator "$1"; do
		programs+=("$1")
		shift
	done
	[ ${#programs[@]} -gt 0 ] || continue # an empty list of the Makefile
	case $separator in
	--guest) start_guest "${place[@]}" "${programs[@]}" ;;
	--machine) start_machine "${place[@]}" "${programs[@]}" ;;
	--beside) start_beside "${place[@]}" "${programs[@]}" ;;
	*)
		for one in "${programs[@]}"; do
			run "${place[@]}" "$one"
		done
		;;
	esac
done
write_sums ''
while [ ${#processes[@]} -gt 0 ]; do
	finish_first
done

[ $skipped -gt 0 ] && echo "skipped: ${reasons#; }"
if [ $skipped -gt 0 ]; then
	echo "$passed passed, $failed failed, $skipped skipped"
else
	echo "$passed passed, $failed failed"
fi
[ $failed -eq 0 ]
