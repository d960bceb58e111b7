#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# rootfs.sh DIRECTORY PROGRAM…: makes the files of a container there, from this machine's own: the programs and their libraries, a shell and a
# few tools, and an account without privilege.

set -eu
root=$1
shift

mkdir -p "$root"/{usr/bin,usr/lib,usr/lib64,etc,proc,sys,dev,run/userevd/client,tmp,root,var/tmp,home/user}
chmod 1777 "$root/tmp" "$root/var/tmp"
for link in bin lib lib64; do ln -sfn "usr/$link" "$root/$link"; done
ln -sfn usr/bin "$root/sbin"

# Where the loader finds it: libraries keep their paths, and programs come into /usr/bin.
for program in bash cat chmod chown env getent id ln mount mv perl rm setpriv sleep touch "$@"; do
	file=$(command -v "$program")
	cp -L "$file" "$root/usr/bin/"
	ldd "$file" | sed -nE 's#^.*[[:space:]](/[^ ]+) \(0x.*#\1#p' | while read -r library; do
		mkdir -p "$root$(dirname "$library")"
		[ -e "$root$library" ] || cp -L "$library" "$root$library"
	done
done
ln -sf bash "$root/usr/bin/sh"
printf 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' >"$root/etc/group"
printf 'ID=userevd-test\nNAME="container of a test"\nVERSION_ID=1\n' >"$root/etc/os-release"
cp "$root/etc/os-release" "$root/usr/lib/os-release"
# Files that engines put there, which root of a user namespace could not make.
for file in etc/hosts etc/hostname etc/machine-id etc/resolv.conf run/.containerenv; do : >"$root/$file"; done
