#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# emulate.sh ARCHITECTURE PROGRAM [ARGUMENT…]: runs a program for another machine, with that machine's libraries.

set -eu
architecture=$1
shift
case $architecture in
arm64) emulator=qemu-aarch64 ;;
*) emulator=qemu-$architecture ;;
esac
exec $emulator -L "$("$(dirname "$0")/sysroot.sh" "$architecture")" "$@"
