#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# build-kernel.sh 6.12|6.1: builds the guest's kernel from Debian's linux-source package and prints where its image is. What
# was built once is kept below $USEREVD_CACHE (default ~/.cache/userevd) under a hash of the configuration and the source's
# version. An entry appears by a rename when all of it is there, so nothing that was interrupted is ever taken for one.

set -eu
version=$1
here=$(cd "$(dirname "$0")" && pwd)
config=$here/kernel-$version.defconfig
cache=${USEREVD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/userevd}
source=/usr/src/linux-source-$version.tar.xz

[ -r "$config" ] || { echo "There is no configuration for a kernel $version" >&2; exit 1; }
[ -r "$source" ] || { echo "$source is missing. As root: apt-get install linux-source-$version" >&2; exit 1; }
key=$({ cat "$config"; dpkg-query -W -f='${Version}' "linux-source-$version"; } | sha256sum | cut -c1-16)
entry=$cache/linux-$version-$key

mkdir -p "$cache"
exec 9>"$cache/lock-$version"
flock 9
if [ ! -e "$entry/bzImage" ]; then
	work=$(mktemp -d "$cache/building-$version-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' INT TERM HUP
	start=$SECONDS
	echo "Building Linux $version for the guests (once; about ten minutes on two cores)" >&2
	mkdir "$work/source" "$work/entry"
	tar -C "$work/source" --strip-components=1 -xf "$source"
	cp "$config" "$work/source/.config"
	if ! { make -C "$work/source" olddefconfig && make -C "$work/source" -j"$(nproc)" bzImage; } \
		>"$work/log" 2>&1 9>&-; then
		tail -30 "$work/log" >&2
		echo "Linux $version could not be built" >&2
		exit 1
	fi
	cp "$work/source/arch/x86/boot/bzImage" "$work/source/.config" "$work/entry/"
	mv "$work/entry" "$entry"
	echo "Built Linux $version in $((SECONDS - start)) s" >&2
fi
echo "$entry/bzImage"
