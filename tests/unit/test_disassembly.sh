#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What an event costs while nobody traces it: one load of event->status, one compare in memory, one branch, and we are out.
# Shown and checked for x86-64, with every compiler that is here.
set -eu

tree=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

case $(uname -m) in
x86_64) ;;
*) echo "0 passed, 0 failed, 1 skipped: the disassembly is that of x86-64"; exit 0 ;;
esac

cat > "$scratch/probe.c" <<'END'
#include "client/userev.h"
void hit(void);
void probe(const struct userev_event *event);
void probe(const struct userev_event *event)
{
	if (userev_enabled(event))
		hit();
}
END

# The way out of a disabled event: everything before the first ret. %rdi is the event, and status its first word.
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
		/\(%rdi\)/ && $1 ~ /^mov/ { status_loads++; next }
		/\(%/ && $1 ~ /^(cmpb|testb)/ { compares++; next }
		/\(%/ && $1 !~ /^lea/ { others++; print "unexpected access to memory: " $0 }
		$1 ~ /^j/ { branches++; if ($1 == "jmp") others++ }
		$1 ~ /^(call|push|lock)/ { others++; print "unexpected instruction: " $0 }
		END {
			printf "disabled: %d instructions, %d load of status, %d compare in memory, %d branch\n",
			       total, status_loads, compares, branches
			exit !(returned && status_loads == 1 && compares == 1 && branches == 1 && others == 0)
		}
	' "$1"
}

failed=0
seen=0
for compiler in gcc clang "g++ -x c++" "clang++ -x c++"; do
	command -v "${compiler%% *}" > /dev/null || continue
	seen=$((seen + 1))
	# In C++ the name is mangled, unless it is asked not to be.
	sed 's/^void probe(const struct userev_event \*event);/#ifdef __cplusplus\nextern "C"\n#endif\n&/' \
		"$scratch/probe.c" > "$scratch/one.c"
	# shellcheck disable=SC2086 # a compiler and its options
	$compiler -O2 -I"$tree" -c "$scratch/one.c" -o "$scratch/one.o"
	objdump -d --no-show-raw-insn "$scratch/one.o" > "$scratch/listing"
	echo "== $compiler -O2"
	sed -n '/<probe>:/,$p' "$scratch/listing"
	check "$scratch/listing" || { echo "FAILED: a disabled event costs more than it should"; failed=$((failed + 1)); }
done

[ "$seen" -gt 0 ] || failed=1
echo "$((seen - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
