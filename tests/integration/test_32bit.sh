#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A 32-bit program and a 64-bit daemon: the same protocol, the same records.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill $daemon; wait; rm -rf "$scratch"' EXIT
export USEREV_SOCKET=$scratch/socket USEREV_CONTROL_SOCKET=$scratch/control

# The kernel's headers for 32 bits are those of this machine. (gcc-multilib has a link to them, and conflicts with cross-compilers.)
build_library()
{
	make --no-print-directory B="$B/32" CFLAGS="-O2 -g -m32 -idirafter /usr/include/$(gcc -print-multiarch)" LDFLAGS=-m32 LD_RELOCATABLE='ld -m elf_i386 -r' \
		DEPENDENCIES=skip "$B/32/libuserev.a" "$B/32/libuserev.so" "$B/32/examples/requests"
}

is_32bit()
{
	file=$(od -An -t x1 -j 4 -N 1 "$1")
	[ "$((file))" = 1 ]
}

records()
{
	"$B/userevctl" tail --past --no-follow 'narrow_*'
}

sees()
{
	records | tee /dev/stderr | grep -q "$1"
}

check 'the library builds for 32 bits, without a warning' build_library
check 'the program is a 32-bit program' is_32bit "$B/32/examples/requests"
"$B/userevd" --foreground --socket="$USEREV_SOCKET" --control-socket="$USEREV_CONTROL_SOCKET" >"$scratch/log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
	[ -S "$USEREV_CONTROL_SOCKET" ] && break
	sleep 0.05
done
"$B/userevctl" tail --timeout=20 --count=4 'narrow_*' >/dev/null 2>&1 &
tail=$!
sleep 0.3
check 'a 32-bit program runs' "$B/32/examples/requests" narrow 0.5
wait $tail
check 'its 64-bit numbers arrive' sees 'status=404 ns=4000 path="/favicon.ico"'
check 'the daemon is running' "$B/userevctl" status
sum_up
