#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The library, shared and static, exports userev_* and nothing else, and needs libc alone.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh

declared()
{
	# Without inline functions and macros.
	sed -E '/^#define/,/[^\\]$/d; /^ \*/d; /^(USEREV_INLINE_|static inline)/d' client/userev.h client/userev_event.h client/userev_event_header.h |
		grep -oE '^[a-z].*\buserev_[a-z_]+\(' | grep -oE '\buserev_[a-z_]+\($' | tr -d '(' | sort -u
}

exported()
{
	nm --defined-only --extern-only "$@" | awk 'NF >= 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}

same_as_declared()
{
	diff <(declared) <(exported "$@")
}

needs_only_libc()
{
	local needed
	needed=$(readelf -d "$B/libuserev.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	echo "$needed"
	# Thread-local data needs the loader, which is libc's, too.
	! grep -vE '^(libc|ld-linux.*)\.so\.' <<<"$needed"
}

never_allocates()
{
	! nm --undefined-only "$B/libuserev.a" | grep -wE 'malloc|calloc|realloc|free|strdup|strndup|asprintf|opendir'
}

has_soname()
{
	readelf -d "$B/libuserev.so" | grep -q 'SONAME.*\[libuserev\.so\.1\]'
}

check 'libuserev.so exports what userev.h declares' same_as_declared -D "$B/libuserev.so"
check 'libuserev.a exports the same' same_as_declared "$B/libuserev.a"
check 'libuserev.so needs libc alone' needs_only_libc
check 'libuserev.a never allocates' never_allocates
check 'libuserev.so has its soname' has_soname
check 'libuserev.so is never unloaded' grep -q NODELETE <(readelf -d "$B/libuserev.so")
check 'the version script names the interface' grep -q LIBUSEREV_1 <(readelf -V "$B/libuserev.so")
sum_up
