#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A disabled event costs a load of event->status, a load of the byte there, a test and a branch, which processors fuse with the test.
# userev_emit() costs the same: arguments and record are evaluated behind that branch. Checked for x86-64, with each installed compiler.
set -eu

tree=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

case $(uname -m) in
x86_64) ;;
*) echo "0 passed, 0 failed, 1 skipped: the disassembly is that of x86-64"; exit 0 ;;
esac

cat > "$scratch/tested.c" <<'END'
#include "client/userev.h"
#ifdef __cplusplus
extern "C"
#endif
void probe(const struct userev_event *event);
void hit(void);
void probe(const struct userev_event *event)
{
	if (userev_enabled(event))
		hit();
}
END

cat > "$scratch/emitted.c" <<'END'
#include "client/userev.h"
USEREV_EVENT(shop, request, (u32, status), (u64, ns), (string, path));
#ifdef __cplusplus
extern "C"
#endif
void probe(void);
uint32_t expensive(void);
void probe(void)
{
	userev_emit(shop_request, expensive(), 4000, "/favicon.ico");
}
END

# The path of a disabled event ends at the first ret. The event is at %rdi or relative to %rip, with status as its first word. (clang
# aligns the stack on both paths: a push of %rax and a pop.)
check()
{
	awk '
		/<probe>:/ { inside = 1; next }
		!inside { next }
		NF == 0 { exit }
		{ sub(/^[^\t]*\t/, ""); sub(/^endbr64.*/, "") }
		$1 ~ /^ret/ { returned = 1; exit }
		$0 == "" || $1 ~ /^nop/ { next }
		{ total++ }
		/^(push|pop) +%rax$/ { pushes++; next }
		/\(%(rdi|rip)\)/ && $1 ~ /^mov/ { status_loads++; next }
		/\(%/ && ($1 == "movzbl" || /^mov .*,%[a-d]l$/) { byte_loads++; next }
		/\(%/ && $1 !~ /^lea/ { others++; print "unexpected access to memory: " $0 }
		$1 ~ /^j/ { branches++; if ($1 == "jmp") others++ }
		$1 ~ /^(call|push|lock)/ { others++; print "unexpected instruction: " $0 }
		END {
			printf "disabled: %d instructions, %d load of status, %d of the byte, %d branch\n",
			       total, status_loads, byte_loads, branches
			exit !(returned && status_loads == 1 && byte_loads == 1 && total - pushes <= 5 && branches == 1 && others == 0 && pushes <= 2)
		}
	' "$1"
}

failed=0
seen=0
examine()
{
	seen=$((seen + 1))
	# shellcheck disable=SC2086 # a compiler and its options
	$1 -O2 -I"$tree" -c "$scratch/$2.c" -o "$scratch/one.o"
	objdump -d --no-show-raw-insn "$scratch/one.o" > "$scratch/listing"
	echo "== $2, $1 -O2"
	sed -n '/<probe>:/,/^$/p' "$scratch/listing"
	check "$scratch/listing" || { echo "FAILED: a disabled event costs more than it should"; failed=$((failed + 1)); }
}

for compiler in gcc clang "g++ -x c++" "clang++ -x c++"; do
	command -v "${compiler%% *}" > /dev/null || continue
	examine "$compiler" tested
	examine "$compiler" emitted
done

[ "$seen" -gt 0 ] || failed=1
echo "$((seen - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
