#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is installed was built so that a mistake in it is hard to use. Each check is shown to see the lack of what it looks for, too,
# in a program that was built without. (Those of the processor's are x86-64's; without optimiser or beside sanitizers libc checks nothing.)

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/hardening.sh
CC=${CC:-gcc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

case $(uname -m) in
x86_64) ;;
*) echo '0 passed, 0 failed, 1 skipped: what is looked for is what x86-64 has'; exit 0 ;;
esac
if nm "$B/userevd" | grep -qE '__(asan|gcov)_'; then
	echo '0 passed, 0 failed, 1 skipped: this build is for finding mistakes'
	exit 0
fi

programs=(userevd userevd-keeper userevctl)
[ ! -e "$B/userevd-guard" ] || programs+=(userevd-guard)

# Indirect jumps, and where functions return to. A whole program has the mark if all that was linked has it, which cannot be said of
# the files of Debian's libc that every program starts with: so it is looked for in what we compile.
marks_where_jumps_may_go()
{
	readelf -nW "$1" | grep 'x86 feature:.*IBT.*SHSTK'
}

# All that a build compiles, but for BPF programs, and for the guard where it is left out.
compiled()
{
	find protocol kernel daemon client -path client/examples -prune -o -name '*.c' -print | grep -v '\.bpf\.c$' |
		if [ -e "$B/userevd-guard" ]; then cat; else grep -v '^kernel/guard'; fi
}

all_marks()
{
	local source object
	for source in $(compiled); do
		object=$B/${source%.c}.o
		marks_where_jumps_may_go "$object" >/dev/null || { echo "$object" && return 1; }
	done
}

# sample NAME FLAG…: a program with all there is, but for what the flags change.
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

# sees_the_lack CHECK FLAG…
sees_the_lack()
{
	sample lacks "${@:2}" && ! "$1" "$scratch/lacks"
}

has_everything()
{
	sample whole && has_all "$scratch/whole" can_lie_anywhere touches_each_page_of_its_stack "${whatever[@]}" &&
		sample part -c && marks_where_jumps_may_go "$scratch/part"
}

# A daemon that a plain user has started could be read by that user's other programs, clients' fds included. What is in /proc of a
# process that cannot be traced belongs to root.
is_out_of_reach()
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
	check "$name is hardened" has_all "$B/$name" can_lie_anywhere "${whatever[@]}"
done
# One that never has more than a page of stack has nothing to touch.
for name in userevd userevd-keeper userevctl; do
	check "$name touches each page of its stack" touches_each_page_of_its_stack "$B/$name"
done
check 'so is libuserev.so' has_all "$B/libuserev.so" "${whatever[@]}"
[ "$(id -u)" -ne 0 ] || check 'a daemon that a plain user has started is out of reach of that user' is_out_of_reach
check 'all that we compile says where jumps may go' all_marks
check 'and nothing in libuserev.a takes it from those who link it' marks_where_jumps_may_go "$B/libuserev.a"

check 'a program with all of it passes' has_everything
check 'one that lies where it was linked does not' sees_the_lack can_lie_anywhere -no-pie
check '… nor one whose relocations can be written' sees_the_lack has_its_relocations_read_only -Wl,-z,norelro
check '… or are made when they are needed' sees_the_lack has_its_relocations_read_only -Wl,-z,lazy
check '… nor one whose stack can be run' sees_the_lack has_no_memory_to_write_and_run -Wl,-z,execstack
check '… nor one that looks for libraries by itself' sees_the_lack has_no_path_to_libraries -Wl,-rpath,/tmp
check '… nor one without a guard on its stack' sees_the_lack guards_its_stack -fno-stack-protector
check '… nor one that jumps over pages of it' sees_the_lack touches_each_page_of_its_stack -fno-stack-clash-protection
check '… nor one of which libc checks nothing' sees_the_lack checks_what_libc_writes -U_FORTIFY_SOURCE
check '… nor one without marks' sees_the_lack marks_where_jumps_may_go -c -fcf-protection=none
check '… or of one kind only' sees_the_lack marks_where_jumps_may_go -c -fcf-protection=branch
sum_up
