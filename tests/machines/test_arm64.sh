#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A program for arm64, emulated, with the daemon of this machine: its packets, its files and its page are the same.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh

check 'the library and the programs are those of arm64' says 'Machine: +AArch64' readelf -h "$B/arm64/libuserev.so.1" "$B/arm64/tests/driver"
check 'a program on arm64 behaves as all clients do' tests/integration/test_conformance.py 'C on arm64'
sum_up
