#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The installed programs are hardened. Each check is also run on a program that was built without its property, and has to fail there.
# (Marks for jumps are x86-64's; libc's checks need an optimiser and no sanitizer.)

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/hardening.sh
CC=${CC:-gcc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

case $(uname -m) in
x86_64) ;;
*) echo '0 passed, 0 failed, 1 skipped: the checks are for x86-64'; exit 0 ;;
esac
if nm "$B/userevd" | grep -qE '__(asan|gcov)_'; then
	echo '0 passed, 0 failed, 1 skipped: this build is not hardened'
	exit 0
fi

programs=(userevd userevd-keeper userevctl)
[ ! -e "$B/userevd-guard" ] || programs+=(userevd-guard)

# IBT and SHSTK, for indirect jumps and returns. A program has the marks only if all of its parts have them, but start files of Debian's
# libc do not. So each object is checked.
has_jump_marks()
{
	readelf -nW "$1" | grep 'x86 feature:.*IBT.*SHSTK'
}

# All compiled sources, without BPF programs, and without the guard if it was not built.
compiled()
{
	find protocol kernel daemon client -path client/examples -prune -o -name '*.c' -print | grep -v '\.bpf\.c$' |
		if [ -e "$B/userevd-guard" ]; then cat; else grep -v '^kernel/guard'; fi
}

all_have_jump_marks()
{
	local source object
	for source in $(compiled); do
		object=$B/${source%.c}.o
		has_jump_marks "$object" >/dev/null || { echo "$object" && return 1; }
	done
}

# sample NAME FLAG…: a program with all properties, except those that the flags change.
sample()
{
	cat >"$scratch/$1.c" <<-'EOT'
		#include <stdio.h>
		#include <string.h>
		int main(int argc, char **argv)
		{
			char large[16384], small[8];
			strcpy(small, argv[argc - 1]);
			memset(large, argc, sizeof(large));
			snprintf(large, (size_t)argc * 4096, "%s", small);
			return puts(large);
		}
	EOT
	"$CC" -O2 -fPIE -fstack-protector-strong -fstack-clash-protection -fcf-protection=full -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 \
		-pie -Wl,-z,relro,-z,now,-z,noexecstack "$scratch/$1.c" -o "$scratch/$1" "${@:2}" 2>&1
}

# finds_missing CHECK FLAG…
finds_missing()
{
	sample lacks "${@:2}" && ! "$1" "$scratch/lacks"
}

has_everything()
{
	sample whole && has_all "$scratch/whole" is_position_independent has_stack_clash_protection "${common[@]}" "${calls[@]}" &&
		sample part -c && has_jump_marks "$scratch/part"
}

# Other programs of the daemon's user must not read the daemon or its clients' fds. /proc of a process that is not dumpable belongs to root.
is_unreadable_for_its_user()
{
	local pid owner

	install -D -m 755 "$B/userevd" "$scratch/open/userevd"
	mkdir -p "$scratch/open/policy"
	chmod 755 "$scratch" "$scratch/open"
	install -d -o nobody "$scratch/open/run"
	setpriv --reuid=nobody --clear-groups "$scratch/open/userevd" -f --backend=embedded --policy="$scratch/open/policy" \
		--socket="$scratch/open/run/socket" --control-socket="$scratch/open/run/control" 2>"$scratch/log" &
	pid=$!
	for _ in {1..100}; do
		[ -S "$scratch/open/run/control" ] && break
		sleep 0.1
	done
	owner=$(stat -c %U "/proc/$pid/fd")
	kill "$pid" 2>/dev/null
	wait "$pid"
	[ "$owner" = root ]
}

for name in "${programs[@]}"; do
	check "$name is hardened" has_all "$B/$name" is_position_independent "${common[@]}"
	# The same objects are in a dynamic program for tests.
	called=$B/$name
	! is_static "$called" || called=$B/tests/dynamic/$name
	check "$name's code is hardened" has_all "$called" "${calls[@]}"
done
# The guard never needs more than a page of stack.
for name in userevd userevd-keeper userevctl; do
	check "$name has stack clash protection" has_stack_clash_protection "$B/$name"
done
check 'libuserev.so is hardened' has_all "$B/libuserev.so" "${common[@]}" "${calls[@]}"
[ "$(id -u)" -ne 0 ] || check 'a daemon of a plain user is unreadable for that user' is_unreadable_for_its_user
check 'all objects have jump marks' all_have_jump_marks
check 'libuserev.a has jump marks' has_jump_marks "$B/libuserev.a"

check 'a program with all properties passes' has_everything
check 'a program with a fixed address is found' finds_missing is_position_independent -no-pie
check 'writable relocations are found' finds_missing has_read_only_relocations -Wl,-z,norelro
check 'lazy relocations are found' finds_missing has_read_only_relocations -Wl,-z,lazy
check 'an executable stack is found' finds_missing has_no_writable_code -Wl,-z,execstack
check 'a path to libraries is found' finds_missing has_no_path_to_libraries -Wl,-rpath,/tmp
check 'a missing stack protector is found' finds_missing has_stack_protector -fno-stack-protector
check 'missing stack clash protection is found' finds_missing has_stack_clash_protection -fno-stack-clash-protection
check 'missing checks of libc are found' finds_missing has_fortified_libc_calls -U_FORTIFY_SOURCE
check 'missing jump marks are found' finds_missing has_jump_marks -c -fcf-protection=none
check 'a missing kind of jump marks is found' finds_missing has_jump_marks -c -fcf-protection=branch
sum_up
