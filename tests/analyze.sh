#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# analyze.sh [SOURCE…]: GCC's -fanalyzer over all that is installed, or those, clean but for what is suppressed below.

cd "$(dirname "$0")/.." || exit 1
B=${B:-build}

# What is in a hash table, or behind a pointer to a member, the analyser takes for lost as soon as its function returns. In these
# that is all that it says. (ASan and valgrind look for leaks in all tests.)
loses_sight=(
	client/userevctl/tracing/embedded.c client/userevctl/tracing/catalogue.c client/userevctl/tracing/writer.c daemon/connection/client.c
	daemon/registry/event.c daemon/ledger/ledger.c daemon/quota/level.c daemon/registry/pages.c
	daemon/policy/keys.c daemon/requests/register.c daemon/admin/reload.c daemon/registry/rules.c
	daemon/admin/tail.c kernel/keeper/deposit.c kernel/embedded/event.c kernel/user_events/enabler.c
	kernel/embedded/embedded.c kernel/rpc/remote.c kernel/user_events/registration.c kernel/user_events/user_events.c daemon/policy/policy.c
)
declare -A suppressed=(
	# It takes all items of an array for the same one, which would be freed again.
	[daemon/admin/tail.c]=-Wno-analyzer-double-free
	# It believes that libbpf can fail with an errno of 0, which would be success.
	[kernel/guard/program.c]=-Wno-analyzer-null-dereference
)

# The guard is left out where it is not built.
sources()
{
	find protocol kernel daemon client -path client/examples -prune -o -name '*.c' -print | grep -v '\.bpf\.c$' |
		if [ -e "$B/skeleton/guard.skel.h" ]; then cat; else grep -v kernel/guard/program; fi
}
# shellcheck disable=SC2046 # names without blanks
[ $# -gt 0 ] || set -- $(sources)

flags_for()
{
	[[ " ${loses_sight[*]} " != *" $1 "* ]] || echo -Wno-analyzer-malloc-leak
	echo "${suppressed[$1]-}"
}

# Not optimised: what an optimiser has taken away is not looked at.
commands()
{
	local source flags
	for source; do
		flags="-std=c17 -D_GNU_SOURCE '-DVERSION=\"0\"' -I. -isystem '$B/skeleton' $(pkg-config --cflags libtracefs) -fPIC -O0"
		echo "{ gcc --version; gcc $flags -E $source; } |" \
			"tests/unless-known.sh gcc $flags -Werror -fanalyzer $(flags_for "$source" | tr '\n' ' ') -c $source -o /dev/null"
	done
}

# xargs would take quotes for its own.
commands "$@" | tr '\n' '\0' | xargs -0 -P "$(nproc)" -n 1 sh -c
