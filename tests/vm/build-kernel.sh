#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# build-kernel.sh 6.12|6.1 [measured|apparmor|arm64]: builds the guest's kernel from Debian's linux-source package and prints where its image
# is.
# Tests run on a kernel that is compiled for speed (kernel-fast.config), since an emulated processor spends most of its time in the
# kernel. Benchmarks run on the measured kernel, without that, so that their figures stay comparable. That of arm64 is cross-compiled.
#
# What was built once is kept below $USEREVD_CACHE (default ~/.cache/userevd) under a hash of the configuration and the source's
# version. An entry appears by a rename when all of it is there, so nothing that was interrupted is ever taken for one.

set -eu
version=${1-}
here=$(cd "$(dirname "$0")" && pwd)
config=$here/kernel-$version.defconfig
configs=("$config" "$here/kernel-fast.config")
architecture=() image=arch/x86/boot/bzImage
case ${2-} in
'') ;;
measured) configs=("$config") ;;
*) configs+=("$here/kernel-$2.config") ;;
esac
[ "${2-}" != arm64 ] || { architecture=(ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-) && image=arch/arm64/boot/Image; }
cache=${USEREVD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/userevd}
source=${KERNEL_SOURCES:-/usr/src}/linux-source-$version.tar.xz
work='' child=''
# CFLAGS, MAKEFLAGS and so on of our own make are nothing to the kernel's.
alone=(env -i PATH="$PATH" HOME="$HOME" TMPDIR="${TMPDIR:-/tmp}" LC_ALL=C)

if [ ! -r "$config" ]; then
	known=$(cd "$here" && printf '%s\n' kernel-*.defconfig | sed 's/^kernel-\(.*\)\.defconfig$/\1/' | sort -rV | paste -sd ' ')
	echo "There is no configuration for a kernel '$version'; there is one for each of these: $known" >&2
	exit 1
fi
[ -r "$source" ] || { echo "$source is missing. As root: apt-get install linux-source-$version" >&2; exit 1; }
source_version=$(dpkg-query -W -f='${Version}' "linux-source-$version" 2>/dev/null) || source_version=$(stat -c '%s %Y' "$source")
key=$({ cat "${configs[@]}"; printf %s "$source_version"; } | sha256sum | cut -c1-16)
entry=$cache/linux-$version-$key

end()
{
	[ -z "$child" ] || { kill "$child"; wait "$child"; } 2>/dev/null || true
	[ -z "$work" ] || rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM HUP

# In the background, since a shell that is waited for does not hear signals; without the lock, which ends with us.
run()
{
	"$@" >>"$work/log" 2>&1 9>&- &
	child=$!
	wait "$child" || { child='' && return 1; }
	child=''
}

if [ ! -e "$entry/${image##*/}" ]; then
	mkdir -p "$cache"
	exec 9>"$cache/lock-$version"
	flock -n 9 || { echo "Linux $version is being built by somebody else; waiting" >&2; flock 9; }
fi
if [ ! -e "$entry/${image##*/}" ]; then
	# Of builds that were killed: nobody else has the lock.
	rm -rf "$cache/building-$version-"*
	work=$(mktemp -d "$cache/building-$version-XXXXXX")
	start=$SECONDS
	echo "Building Linux $version for the guests (once; about ten minutes on two cores)" >&2
	mkdir "$work/source" "$work/entry"
	if ! { run tar -C "$work/source" --strip-components=1 -xf "$source" && cat "${configs[@]}" >"$work/source/.config" &&
		run "${alone[@]}" make -C "$work/source" -j"$(nproc)" "${architecture[@]}" olddefconfig "${image##*/}"; }; then
		tail -30 "$work/log" >&2
		echo "Linux $version could not be built" >&2
		exit 1
	fi
	cp "$work/source/$image" "$work/entry/"
	cp "$work/source/.config" "$work/entry/"
	mv "$work/entry" "$entry"
	echo "Built Linux $version in $((SECONDS - start)) s" >&2
fi
echo "$entry/${image##*/}"
