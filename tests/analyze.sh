#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# analyze.sh [SOURCE…]: GCC's -fanalyzer for these sources, by default for all of the product. Suppressions are below.

cd "$(dirname "$0")/.." || exit 1
B=${B:-build}
. tests/foreign_headers.sh

# The analyser reports memory in a hash table, or behind a pointer to a member, as leaked when the function returns: the only warning in
# these files. (ASan and valgrind look for leaks in all tests.)
false_leaks=(
	client/userevctl/tracing/catalogue.c client/userevctl/tracing/writer.c daemon/connection/client.c
	daemon/registry/event.c daemon/ledger/ledger.c daemon/quota/level.c daemon/registry/pages.c
	daemon/policy/keys.c daemon/requests/register.c daemon/admin/reload.c daemon/registry/rules.c
	daemon/admin/tail.c kernel/keeper/deposit.c kernel/embedded/event.c kernel/user_events/enabler.c
	kernel/embedded/embedded.c kernel/rpc/remote.c kernel/user_events/registration.c kernel/user_events/user_events.c daemon/policy/policy.c
	daemon/recovery/succession.c client/userevctl/tracing/look.c client/userevctl/record/reading.c
	client/userevctl/record/timeline.c daemon/registry/refusals.c daemon/registry/summary.c daemon/native/native.c daemon/native/tenants.c
)
declare -A suppressed=(
	# The analyser confuses the items of an array, and reports that one is freed twice.
	[daemon/admin/tail.c]=-Wno-analyzer-double-free
	# A place is loaded as a whole, and read by its parts: a union.
	[client/library/write.c]=-Wno-analyzer-use-of-uninitialized-value
	# The outcome of having no memory is static, and always has one reference more.
	[daemon/admin/reload.c]=-Wno-analyzer-free-of-non-heap
	# libbpf never fails with an errno of 0.
	[kernel/guard/program.c]=-Wno-analyzer-null-dereference
	[kernel/guard/admission.c]=-Wno-analyzer-null-dereference
)

# Without the guard's programs if they were not built.
sources()
{
	find protocol kernel daemon client -path client/examples -prune -o -name '*.c' -print | grep -v '\.bpf\.c$' |
		if [ -e "$B/skeleton/guard.skel.h" ]; then cat; else grep -vE 'kernel/guard/(program|admission)'; fi
}
# shellcheck disable=SC2046 # names without blanks
[ $# -gt 0 ] || set -- $(sources)

flags_for()
{
	[[ " ${false_leaks[*]} " != *" $1 "* ]] || echo -Wno-analyzer-malloc-leak
	echo "${suppressed[$1]-}"
}

# Not optimised, so that all code is analysed.
flags="-std=c17 -D_GNU_SOURCE '-DVERSION=\"0\"' -I. -isystem '$B/skeleton' $(pkg-config --cflags libtracefs) -fPIC -O0"
for source; do
	printf '%s\tgcc %s -Werror -fanalyzer %s -c %s -o /dev/null\n' "$source" "$flags$(foreign_headers "$source")" "$(flags_for "$source" | tr '\n' ' ')" "$source"
done | tests/unless-known.py "$(gcc --version)"
