#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The instructions of a test of a disabled event, counted by callgrind, beside the same loop without it, and with a test of a word in
# memory, as in the kernel's own interface.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
times=100000

case $(uname -m) in
x86_64) ;;
*) echo "0 passed, 0 failed, 1 skipped: the instructions are those of x86-64"; exit 0 ;;
esac

cat >"$scratch/loops.c" <<END
#include <userev.h>

USEREV_EVENT(loop, turned, (u32, turn), (u64, cost), (string, name));

static volatile uint32_t word;
uint64_t costs;

/* Not called while the event is off. */
static uint64_t __attribute__((noinline)) cost(void)
{
	return ++costs;
}

void __attribute__((noinline)) empty(void)
{
	for (uint32_t i = 0; i < $times; i++)
		__asm__ __volatile__("" ::: "memory");
}

void __attribute__((noinline)) with_word(void)
{
	for (uint32_t i = 0; i < $times; i++) {
		if (__builtin_expect(word, 0))
			cost();
		__asm__ __volatile__("" ::: "memory");
	}
}

void __attribute__((noinline)) with_event(void)
{
	for (uint32_t i = 0; i < $times; i++) {
		userev_emit(loop_turned, 1, cost(), "name");
		__asm__ __volatile__("" ::: "memory");
	}
}

int main(void)
{
	/* The library must not look for a daemon. */
	userev_seal(NULL);
	empty();
	with_word();
	with_event();
	return costs != 0;
}
END

# count COMPILER FUNCTION: the instructions of one turn, in thousandths.
count()
{
	local out=$scratch/callgrind.$2
	rm -f "$out"
	valgrind --tool=callgrind --callgrind-out-file="$out" --toggle-collect="$2" "$scratch/$1" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; return 1; }
	awk -v times=$times '/^(summary|totals):/ { print int($2 * 1000 / times); exit }' "$out"
}

for compiler in gcc clang; do
	command -v $compiler >/dev/null || continue
	# Not -march=native, since valgrind may not know the instructions.
	check "$compiler builds the loops" $compiler -std=c11 -O2 -g -fno-unroll-loops -Iclient "$scratch/loops.c" "$B/libuserev.a" -o "$scratch/$compiler"
	empty=$(count $compiler empty) word=$(count $compiler with_word) event=$(count $compiler with_event)
	echo "      $compiler: a turn of the loop is $empty thousandths of an instruction, with a word $word, with an event $event"
	check "$compiler: a disabled event costs at most four instructions" test $((event - empty)) -le 4010 -a $((event - empty)) -ge 2000
	# clang compares the word in memory, in one instruction less.
	check "$compiler: a disabled event costs two instructions more than a word" test $((event - word)) -le 2010
done
sum_up
