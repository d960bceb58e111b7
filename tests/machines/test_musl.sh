#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The library with musl, in static programs, which run where there is no C library. (A container without one: tests/containers.)

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# In a folder that has nothing else.
runs_alone()
{
	local as_root=()
	[ "$(id -u)" = 0 ] || as_root=(unshare --user --map-root-user)
	cp "$B/musl/tests/driver" "$scratch/driver" && "${as_root[@]}" chroot "$scratch" /driver <<<can
}

check 'the program needs no library' says_nothing eval 'readelf -d "$B/musl/tests/driver" | grep NEEDED'
check 'it runs where there is none' says '.' runs_alone
check 'it behaves as all clients do' tests/integration/test_conformance.py 'C with musl'
sum_up
