#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# build.sh BUILD MACHINE TARGET…: builds for a machine of another architecture (arm64 or s390x), with Debian's cross-compiler and that
# machine's own packages, or with another C library (musl). A target is named without the build's folder. $CCACHE may be ccache.

set -eu
build=$1 machine=$2
shift 2

case $machine in
arm64) compiler=aarch64-linux-gnu ;;
s390x) compiler=s390x-linux-gnu ;;
musl) compiler=musl ;;
*) echo "There is no compiler for $machine here; there is one for arm64, s390x and musl" >&2 && exit 1 ;;
esac
options=(CC="${CCACHE:+$CCACHE }$compiler-gcc" LDFLAGS=-static)
if [ "$machine" != musl ]; then
	root=$("$(dirname "$0")/sysroot.sh" "$machine")
	export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/$compiler/pkgconfig:$root/usr/share/pkgconfig
	options=(CC="${CCACHE:+$CCACHE }$compiler-gcc --sysroot=$root")
fi
exec make --no-print-directory DEPENDENCIES=skip B="$build" "${options[@]}" "${@/#/$build/}"
