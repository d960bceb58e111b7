#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# make-initrd.sh [COMPILER]: prints where the guests' initramfs is, which is init.c alone, compiled first if it is not in the cache.

set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${USEREVD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/userevd}
compiler=${1:-${CC:-gcc}}
initrd=$cache/initrd-${1:+$1-}$(sha256sum <"$here/init.c" | cut -c1-16)

if [ ! -e "$initrd" ]; then
	mkdir -p "$cache"
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	$compiler -std=c17 -D_GNU_SOURCE -O2 -static "$here/init.c" -o "$work/init"
	(cd "$work" && echo init | cpio --quiet -o -H newc) >"$initrd.$$"
	mv "$initrd.$$" "$initrd"
fi
echo "$initrd"
