#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# USEREV_EVENT with the compilers, standards and options of programs: no warning, all events are in the program, and it runs without a
# daemon. And the compilers' messages for mistakes.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
alone=''
trap 'rm -rf "$scratch"' EXIT
export USEREV_SOCKET=$scratch/nobody

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -Iclient)

cat >"$scratch/good.c" <<'END'
#include <stdio.h>
#include <userev_event_header.h>
struct point { int32_t x, y; };
USEREV_EVENT(shop, request, (u32, status), (u64, ns), (string, path));
USEREV_EVENT(shop, started);
USEREV_EVENT(shop, all, (u8, a), (s8, b), (chars, comm, 16), (u16, c), (struct, point, p, 8), (f64, load), (f32, part),
	     (string, s), (bytes, data), (s64, z));
USEREV_EVENT_FLAGS(USEREV_MULTI_FORMAT, shop, flagged, (u32, x));
USEREV_EVENT(shop, sixteen, (chars, f1, 1), (u8, f2), (chars, f3, 1), (u8, f4), (chars, f5, 1), (u8, f6), (chars, f7, 1),
	     (u8, f8), (chars, f9, 1), (u8, f10), (chars, f11, 1), (u8, f12), (chars, f13, 1), (u8, f14), (chars, f15, 1),
	     (bytes, f16));
USEREV_EVENT_HEADER(self, all, 4, 1, (u8, a), (s8, b), (chars, comm, 16), (u16, c), (struct, point, p, 8), (f64, load),
		    (f32, part), (string, s), (bytes, data), (s64, z));
USEREV_EVENT_HEADER(self, started, 1, ff00);
int status;

/* Another file of the same program has the same event, and an unused one. */
int other(void);

int main(void)
{
	const struct point where = { 3, 4 };
	int evaluated = 0;

	userev_emit(shop_request, 404, 4000, "/favicon.ico");
	userev_emit(shop_started);
	userev_emit(shop_all, 1, -1, "comm", 2, &where, 1.5, 0.5f, "text", "abc", 3, -9);
	userev_emit(shop_flagged, (uint32_t)++evaluated);
	if (userev_on(shop_request) || evaluated != 0)
		return 1;
	userev_emit(shop_sixteen, "", 2, "", 4, "", 6, "", 8, "", 10, "", 12, "", 14, "", "x", 1);
	userev_emit(self_started);
	userev_emit(self_all, 1, -1, "comm", 2, &where, 1.5, 0.5f, "text", "abc", 3, -9);
	userev_emit_activity(self_started, USEREV_ACTIVITY_START, "0123456789abcdef", NULL);
	printf("%d\n", (int)(__stop_userev_events - __start_userev_events));
	puts(userev_why(USEREV_EVENT_OF(shop_request)));
	return other();
}
END

cat >"$scratch/other.c" <<'END'
#include <userev.h>
USEREV_EVENT(shop, request, (u32, status), (u64, ns), (string, path));
USEREV_EVENT(shop, unused, (u32, x));
int other(void);
int other(void)
{
	return userev_on(shop_request) ? 1 : 0;
}
END

# COMPILER [OPTION…]
builds_and_runs()
{
	local language=c
	[[ $1 != *++ ]] || language=c++
	"$@" "${warnings[@]}" -x $language "$scratch/good.c" "$scratch/other.c" -x none "$B/libuserev.a" -o "$scratch/program" &&
		"$scratch/program" >"$scratch/out" && diff "$scratch/out" - <<<$'9\nthere is no daemon: its socket does not exist'
}

# The declaration is read-only even in a position-independent program, and the event itself is small.
costs_24_bytes()
{
	builds_and_runs "$@" || return 1
	objdump -t "$scratch/program" >"$scratch/symbols"
	[ "$(grep -cE '\.(rodata|data\.rel\.ro)\b.*userev_declaration_' "$scratch/symbols")" -eq 9 ] &&
		[ "$(grep -cE 'userev_events\b.*\b0*18\b.*userev_event_' "$scratch/symbols")" -eq 9 ] &&
		[ "$(grep -cE 'userev_(declaration|event)_shop' "$scratch/symbols")" -eq 14 ]
}

cat >"$scratch/bad.c" <<'END'
#include <userev.h>
USEREV_EVENT(shop, request, (u32, status), (u64, ns), (string, path));
struct point { int32_t x, y; };
#ifdef DECLARATION
DECLARATION;
#endif
int main(void)
{
	uint32_t number = 1;
#ifdef STATEMENT
	STATEMENT;
#endif
	return (int)number;
}
END

# SENTENCE MACRO CODE [MACRO CODE]: all compilers refuse the code with such a message.
refused()
{
	local compiler language sentence=$1
	shift
	for compiler in gcc clang g++ clang++; do
		language=c
		[[ $compiler != *++ ]] || language=c++
		! $compiler -x $language -Iclient "-D$1=$2" ${3+"-D$3=$4"} -c "$scratch/bad.c" -o "$scratch/bad.o" 2>"$scratch/said" || return 1
		grep 'error:' "$scratch/said" | grep -qE "$sentence" || { echo "== $compiler"; cat "$scratch/said"; return 1; }
		[ -z "$alone" ] || [ "$(grep -cE '(error|warning):' "$scratch/said")" -eq 1 ] || { echo "== $compiler"; cat "$scratch/said"; return 1; }
	done
}

# With one message.
refused_in_a_sentence()
{
	local alone=yes
	refused "$@"
}

accepted()
{
	! refused . "$@" && ! [ -s "$scratch/said" ]
}

# OPTION LEVEL: without any warning option each compiler warns in exactly the lines marked so, also with an installed header.
numbers()
{
	local compiler language
	mkdir -p "$scratch/installed" && cp client/userev.h client/userev_event.h "$scratch/installed"
	for compiler in gcc clang g++ clang++; do
		language=c
		[[ $compiler != *++ ]] || language=c++
		$compiler -x $language "$1" -O"$2" -c "$scratch/numbers.c" -o "$scratch/numbers.o" 2>"$scratch/said" || return 1
		grep -oE 'numbers.c:[0-9]+:.*warning' "$scratch/said" | cut -d: -f2 | sort -nu >"$scratch/lines"
		grep -n 'warns' "$scratch/numbers.c" | cut -d: -f1 | diff - "$scratch/lines" || { echo "== $compiler"; cat "$scratch/said"; return 1; }
	done
}

cat >"$scratch/numbers.c" <<'END'
#include <userev.h>
USEREV_EVENT(number, all, (u8, a), (u32, b), (u64, c), (s32, d), (f32, e), (f64, f), (string, s), (bytes, y));
void number(unsigned u, int i, double d, float f, const char *s);
void number(unsigned u, int i, double d, float f, const char *s)
{
	userev_emit(number_all, 255, 4294967295, 18446744073709551615ull, -1, 0.5f, -0.1, "s", "y", 1);
	userev_emit(number_all, 0, u, u, i, f, d, s, s, u);
	userev_emit(number_all, 'c', i ? 404 : 200, (uint64_t)-1, i, f, f, s, s, 1);
	userev_emit(number_all, 1, 5.7, 1, 1, 1, 1, s, s, 1); /* warns */
	userev_emit(number_all, 1, -1, 1, 1, 1, 1, s, s, 1); /* warns */
	userev_emit(number_all, 1, 1, -1, 1, 1, 1, s, s, 1); /* warns */
	userev_emit(number_all, -1, 1, 1, 1, 1, 1, s, s, 1); /* warns */
	userev_emit(number_all, 1, 1, 1, 5.5, 1, 1, s, s, 1); /* warns */
}
END

for compiler in gcc clang; do
	for standard in c11 c17 c2x gnu11; do
		check "$compiler -std=$standard" builds_and_runs $compiler -std=$standard -O2
	done
	for options in -O0 -O1 -O3 '-O2 -flto' '-O2 -fPIC -fvisibility=hidden' '-O2 -static' '-O2 -fPIE -static-pie' \
		'-O2 -ffunction-sections -fdata-sections -Wl,--gc-sections' '-O1 -fsanitize=address,undefined'; do
		# shellcheck disable=SC2086 # several options
		check "$compiler $options" builds_and_runs $compiler -std=c17 $options
	done
done
if [ "$(getconf LONG_BIT)" = 64 ]; then
	check 'an event costs 24 bytes of writable memory' costs_24_bytes gcc -std=c17 -O2 -fPIE -pie
	check 'an event costs 24 bytes with clang' costs_24_bytes clang -std=c17 -O2 -fPIE -pie
fi
for compiler in g++ clang++; do
	for standard in c++17 c++20; do
		check "$compiler -std=$standard" builds_and_runs $compiler -std=$standard -O2
	done
	check "$compiler -O0" builds_and_runs $compiler -std=c++17 -O0
done

for level in 0 2; do
	check "a fraction or negative number for an unsigned field is a warning, -O$level" numbers -Iclient $level
	check "the warning comes with an installed header, too, -O$level" numbers "-isystem$scratch/installed" $level
done
check 'a string instead of a number is refused' refused 'userev_emit_shop_request|invalid conversion|incompatible pointer to integer' STATEMENT 'userev_emit(shop_request, "404", 4000, "/")'
check 'a number instead of a string is refused' refused 'userev_emit_shop_request|invalid conversion|incompatible integer to pointer' STATEMENT 'userev_emit(shop_request, 404, 4000, 7)'
check 'a pointer to a number instead of a string is refused' refused 'userev_emit_shop_request|cannot convert|incompatible pointer types' STATEMENT 'userev_emit(shop_request, 404, 4000, &number)'
check 'a missing argument is refused' refused 'too few arguments|no matching function for call to .userev_emit_shop_request' STATEMENT 'userev_emit(shop_request, 404, 4000)'
check 'an additional argument is refused' refused 'too many arguments|no matching function for call to .userev_emit_shop_request' STATEMENT 'userev_emit(shop_request, 404, 4000, "/", 1)'
check 'an unknown event is refused' refused 'userev_event_shop_requst' STATEMENT 'userev_emit(shop_requst, 404, 4000, "/")'
check 'an unknown type of field is refused' refused_in_a_sentence 'is no field: use u8 to u64' DECLARATION 'USEREV_EVENT(shop, bad, (u8, a), (int, status), (string, s))' \
	STATEMENT 'userev_emit(shop_bad, 1, 404, "/")'
check 'the message names the unknown type' refused '\(int, ...\) is no field' DECLARATION 'USEREV_EVENT(shop, bad, (int, status))'
check 'the message names each unknown type' refused '\(long, ...\) is no field' DECLARATION 'USEREV_EVENT(shop, bad, (int, status), (long, ns))'
name=$(printf 'n%.0s' {1..195})
check 'a name of 200 bytes is accepted' accepted DECLARATION "USEREV_EVENT(shop, $name, (u32, n))"
check 'a longer name is refused' refused_in_a_sentence "PROVIDER_NAME, has at most 200 bytes" DECLARATION "USEREV_EVENT(shop, n$name, (u32, n))"
check 'a longer name without fields is refused' refused_in_a_sentence "PROVIDER_NAME, has at most 200 bytes" DECLARATION "USEREV_EVENT(shop, n$name)"
check 'a wrong size of a struct is refused' refused 'sizeof\(struct point\) is not 12' DECLARATION 'USEREV_EVENT(shop, bad, (struct, point, p, 12))'
check 'a size that is not a plain number is refused' refused 'suffix|literal operator' DECLARATION 'USEREV_EVENT(shop, bad, (chars, name, sizeof(int)))'
check 'a too long array is refused' refused 'a char array has at most 1024 bytes' DECLARATION 'USEREV_EVENT(shop, bad, (chars, name, 1025))'
check 'a missing name is refused' refused 'usage: USEREV_EVENT\(PROVIDER, NAME, FIELD' DECLARATION 'USEREV_EVENT(shop)'
check 'seventeen fields are refused' refused 'an event has at most 16 fields' DECLARATION \
	"USEREV_EVENT(shop, bad$(printf ', (u8, f%d)' $(seq 17)))"
check 'a too long description is refused' refused 'at most 511 bytes' DECLARATION \
	"USEREV_EVENT(shop, bad$(printf ', (u8, f%02d_3456789_123456789_123456789)' $(seq 16)))"
sum_up
