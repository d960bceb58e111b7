#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The test bed itself, on the host: what guests, suites in guests and kernel builds come to when they go wrong.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
# Seen by guests, as the scratch directory below /tmp is not.
suites=$B/bed
pids=()
end()
{
	[ ${#pids[@]} -eq 0 ] || { kill "${pids[@]}"; wait; } 2>/dev/null
	rm -rf "$scratch" "$suites"
}
trap end EXIT
trap 'exit 130' INT TERM
export B

# exits STATUS COMMAND…
exits()
{
	local wanted=$1 status=0
	shift
	"$@" || status=$?
	[ $status -eq "$wanted" ] || { echo "exit status $status instead of $wanted"; return 1; }
}

# says PATTERN COMMAND…: on either output, and succeeds.
says()
{
	local pattern=$1 output status=0
	shift
	output=$("$@" 2>&1) || status=$?
	printf '%s\n' "$output"
	grep -qE -- "$pattern" <<<"$output" && [ $status -eq 0 ]
}

# A list that no target installs is missed only on a fresh machine.
every_list_is_installed()
{
	local installed list
	unset MAKEFLAGS MFLAGS MAKELEVEL
	installed=$(make -n DEPENDENCIES=auto test check-containers check-machines bench | sed -n 's/.*tests\/packages\.sh//p')
	for list in $(sed -nE 's/^([A-Z]+_PACKAGES) :=.*/\1/p' Makefile ./*/*.mk); do
		make --eval="list: ; @echo \$($list)" list | tr ' ' '\n' | grep -vxF -f <(tr ' ' '\n' <<<"$installed") &&
			echo "these of $list are not installed" && return 1
	done
	[ -n "$list" ]
}

# Also where packages are missing when make starts: the guard's tools, on a fresh machine.
every_test_is_run()
{
	local runs source
	unset MAKEFLAGS MFLAGS MAKELEVEL
	runs=$(make -n BPFTOOL= test check-containers check-languages check-packages | sed ':a; /\\$/ { N; s/\\\n//; ba }' | grep tests/run-tests.sh)
	for source in tests/*/test_*.sh tests/*/test_*.py $(find tests -name 'test_*.c'); do
		source=${source##*/}
		grep -qw -- "${source%.c}" <<<"$runs" || { echo "$source is not run"; return 1; }
	done
}

# suite NAME SCRIPT: a program for guests.
suite()
{
	mkdir -p "$suites"
	printf '#!/bin/sh\n%s\n' "$2" >"$suites/$1"
	chmod +x "$suites/$1"
}

# comes COMMAND…: becomes true, or we give up.
comes()
{
	local deadline=$((SECONDS + 120))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || { echo "it never came: $*"; return 1; }
		sleep 0.1
	done
}

check 'each list of packages is installed by a target' every_list_is_installed
check 'each test is run by a target of CI, or by check-containers, check-languages or check-packages' every_test_is_run

# --- guests ---

guest()
{
	timeout -k 10 250 tests/vm/run-guest.sh --memory=384 "$@"
}

# What a guest prints, and its bad end, are not told from the output: this one claims all sorts of things.
liar()
{
	guest "$@" -- sh -c 'echo 0; echo "1 passed, 0 failed"; echo reboot: Power down; kill -SEGV $$'
}

bytes_arrive()
{
	[ "$(guest 6.1 -- printf '\e[1mone\ttwo\r\n\n' | od -c)" = "$(printf '\e[1mone\ttwo\r\n\n' | od -c)" ]
}

# Where the machine is so busy that it is killed before it came so far, it gets more time.
hangs()
{
	local limit
	for limit in 15 60 180; do
		# shellcheck disable=SC2016 # the guest's
		exits 125 guest --limit=$limit 6.12 -- sh -c 'echo "<2>the last words of $(uname -r)" >/dev/kmsg; sleep 1000' \
			>"$scratch/hung" 2>&1 || break
		grep -q 'the last words of 6' "$scratch/hung" && break
	done
	cat "$scratch/hung"
}

# No process may kill the first one, so its code is overwritten with what is none.
suite ends_the_world 'echo 0; exec python3 -c "
text = next(line.split()[0] for line in open(\"/proc/1/maps\") if \"r-xp\" in line)
first, end = (int(address, 16) for address in text.split(\"-\"))
memory = open(\"/proc/1/mem\", \"r+b\", 0)
memory.seek(first)
memory.write(b\"\\x06\" * (end - first))"'
panics()
{
	guest --limit=0 6.1 -- "$suites/ends_the_world"
}

is_up()
{
	grep -q up "$scratch/up"
}

is_gone()
{
	! pgrep -f "path=$scratch/share,mount_tag=share"
}

# ended_by SIGNAL: sent to all of the guest's processes that a terminal would send it to, or, if told to, to the script alone.
ended_by()
{
	local signal=$1 whom=${2-} pid
	: >"$scratch/up"
	env --default-signal=INT setsid tests/vm/run-guest.sh --share="$scratch/share" 6.1 -- sh -c 'echo up; sleep 1000' \
		>"$scratch/up" 2>&1 &
	pid=$!
	pids=("$pid")
	comes is_up || return
	! is_gone || { echo 'the guest is not seen by this test'; return 1; }
	if [ "$whom" = alone ]; then
		kill -"$signal" "$pid"
	else
		kill -"$signal" -- "-$pid"
	fi
	wait "$pid"
	pids=()
	comes is_gone
}

check "a command's status is the guest's" exits 7 guest 6.12 -- sh -c 'exit 7'
check 'a signal that ended it, too, whatever it said' exits 139 liar 6.1
check 'what it prints arrives, byte by byte' bytes_arrive
check 'a guest that hangs is killed, and its console shown' says 'the last words of 6\.12' hangs
check 'one that panics is not waited for' says 'Kernel panic' exits 125 panics
check 'Ctrl-C leaves nothing running' ended_by INT
check 'SIGTERM for the script alone does not' ended_by TERM alone
check 'not even SIGKILL' ended_by KILL alone
check 'a kernel that there is not is an error that says which there are' \
	says "no configuration for a kernel '5.10'.*6\.12 6\.1" exits 125 guest 5.10 -- true

# --- suites in guests ---

# Not this one's, whose logs and numbers they would replace.
run_suites=(env -u SUMS -u LOGS -u IN_GUEST tests/run-tests.sh)

run_in_guest()
{
	mkdir -p "$suites"
	timeout -k 10 200 "${run_suites[@]}" --guest 6.1 "$suites" "$@"
}

suite passes 'echo "3 passed, 0 failed"'
suite fails 'echo "the reason"; echo "1 passed, 2 failed"; exit 1'
suite sees_host "[ -e '$PWD/Makefile' ] && [ \"\$(pwd)\" = '$PWD' ] && ! touch /run/guest/../../proc/x && echo '1 passed, 0 failed'"
suite dies "python3 -c 'import ctypes; ctypes.CDLL(None).reboot(0x4321fedc)'"
check 'what suites count in a guest is counted, and why one failed is shown' \
	says '^ +the reason' says '^5 passed, 2 failed$' exits 1 run_in_guest "$suites/passes" "$suites/fails" "$suites/sees_host"
check 'a guest that dies is a failure, beside what was counted before' \
	says '^3 passed, 1 failed$' says 'FAIL.*linux-6\.1, in dies' exits 1 run_in_guest "$suites/passes" "$suites/dies" "$suites/passes"

suite says_nothing 'exit 124'
check 'a suite that came to no end is a failure, here, too' \
	says '^0 passed, 1 failed$' exits 1 "${run_suites[@]}" "$suites" "$suites/says_nothing"
check 'what runs beside is counted and shown' says '^ +the reason' says '^4 passed, 2 failed$' \
	exits 1 "${run_suites[@]}" --beside "$suites" "$suites/fails" -- "$suites" "$suites/passes"

sleeps()
{
	pgrep -f "sleep 100[34]\.$$"
}

both_sleep()
{
	[ "$(sleeps | wc -l)" -eq 2 ]
}

# ends_with SIGNAL: what it runs, and what runs beside.
ends_with()
{
	env --default-signal=INT "${run_suites[@]}" --beside "$suites" "$suites/sleeps" -- "$suites" "$suites/sleeps_too" >"$scratch/log" 2>&1 &
	pids=($!)
	comes both_sleep || return
	kill -"$1" "${pids[0]}"
	wait "${pids[0]}"
	pids=()
	! sleeps
}

suite sleeps "sleep 1003.$$"
suite sleeps_too "sleep 1004.$$"
check 'Ctrl-C ends at once what runs here and beside' ends_with INT
check 'SIGTERM, too' ends_with TERM

# --- kernels, with a source that is built in no time ---

# source_is COMMAND: what its build does before it is done.
source_is()
{
	mkdir -p "$scratch/linux"
	printf 'olddefconfig:\n\t@true\nbzImage:\n\t@mkdir -p arch/x86/boot; echo half > arch/x86/boot/bzImage\n\t@%s\n' "$1" \
		>"$scratch/linux/Makefile"
	tar -C "$scratch" -cJf "$scratch/linux-source-6.1.tar.xz" linux
}

# Beside a configuration that may be changed.
bed=$scratch/bed
mkdir "$bed"
cp tests/vm/build-kernel.sh tests/vm/kernel-6.1.defconfig tests/vm/kernel-fast.config "$bed"
build=(env USEREVD_CACHE="$scratch/cache" KERNEL_SOURCES="$scratch" "$bed/build-kernel.sh" 6.1)

has_nothing()
{
	ls "$scratch/cache"
	[ -z "$(find "$scratch/cache" -mindepth 1 ! -name 'lock-*')" ]
}

fails_to_build()
{
	source_is 'echo no such luck; exit 1'
	says 'no such luck' exits 1 "${build[@]}" && has_nothing
}

# interrupted_by SIGNAL
interrupted_by()
{
	rm -f "$scratch/started"
	source_is "touch $scratch/started; exec sleep 1001.$$"
	"${build[@]}" >"$scratch/log" 2>&1 &
	pids=($!)
	comes test -e "$scratch/started" || { cat "$scratch/log"; return 1; }
	kill -"$1" "${pids[0]}"
	wait "${pids[0]}" && return 1
	pids=()
}

is_built()
{
	local image
	source_is "echo >>$scratch/builds; echo whole >arch/x86/boot/bzImage"
	image=$("${build[@]}") && [ "$(cat "$image")" = whole ]
}

# builds N: so many there were.
builds()
{
	[ "$(wc -l <"$scratch/builds")" = "$1" ]
}

entries()
{
	ls "$scratch/cache"
	[ "$(find "$scratch/cache" -mindepth 1 -maxdepth 1 -type d | wc -l)" = "$1" ]
}

check 'a build that fails says why, and leaves nothing' fails_to_build
check 'a build can be interrupted' interrupted_by TERM
check '… and leaves nothing' has_nothing
check '… nor does it go on' comes exits 1 pgrep -f "^sleep 1001.$$"
check 'or killed' interrupted_by KILL
# Its make is nobody's child now.
pgrep -f "^sleep 1001.$$" | xargs -r kill
check '… and then leaves no entry' test -z "$(find "$scratch/cache" -name 'linux-*')"
check 'the next build is a whole one' is_built
check '… and takes away what was left' entries 1
check 'a second costs nothing' is_built
check '… indeed' builds 1
echo '# CONFIG_NOTHING is not set' >>"$bed/kernel-6.1.defconfig"
check 'with another configuration it is another kernel' is_built
check '… built anew' builds 2
check '… beside the first' entries 2

# --- KVM that can't ---

# A qemu that hangs when it is asked for KVM.
can_not()
{
	mkdir -p "$scratch/bin"
	cat >"$scratch/bin/qemu-system-x86_64" <<-END
		#!/bin/sh
		[ "\$1" = --version ] && echo 'QEMU of this test' && exit
		echo >>$scratch/tries
		exec sleep 1002
	END
	chmod +x "$scratch/bin/qemu-system-x86_64"
	PATH=$scratch/bin:$PATH USEREVD_CACHE=$scratch/cache timeout 60 tests/vm/accelerator.sh /dev/null /dev/null
}

tried_once_at_most()
{
	touch "$scratch/tries"
	[ "$(wc -l <"$scratch/tries")" -le 1 ]
}

check 'where KVM hangs there is TCG' says '^tcg$' can_not
check '… the next time, too' says '^tcg$' can_not
check '… which does not try again' tried_once_at_most
sum_up
