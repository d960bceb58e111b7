#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# image.sh PACKAGE DIRECTORY NAME REVISION [SOURCE]: makes an OCI image of the Debian package userevd, as DIRECTORY/userevd-VERSION.tar. In it are the
# package's programs, the libraries that these load, nsenter(1), two accounts, and the licences; no shell. The libraries and nsenter are
# this machine's. Needs no privilege where buildah(1) works without one.

set -eu
package=$1 directory=$2 name=$3 revision=$4 source=${5-}
version=$(dpkg-deb --field "$package" Version)
architecture=$(dpkg --print-architecture)
root=$directory/root
archive=$directory/userevd-$version.tar
programs=(/usr/sbin/userevd /usr/bin/userevctl /usr/lib/userevd/userevd-keeper /usr/lib/userevd/userevd-guard)
# Not a machine's storage: nothing of ours is left there, and overlays may be impossible.
buildah=(buildah --root="$directory/storage" --runroot="$directory/run" --storage-driver=vfs)

# The user of the daemon. The kernel counts the fds in flight of all processes of a user, containers included, so it is a number that
# neither people nor images use. Never to be changed: the state directory belongs to it.
user=58117

# with_copyright FILE: also the licence of its package, which may have the file below /usr or below /; and its entry, where scanners look.
with_copyright()
{
	local of
	of=$(dpkg-query --search "*$1" | sed "s/[:,].*//")
	dpkg-query --status "$of:$architecture" >"$root/var/lib/dpkg/status.d/$of"
	install -D -m 644 "/usr/share/doc/$of/copyright" "$root/usr/share/doc/$of/copyright"
}

# with_libraries PROGRAM…
with_libraries()
{
	local library
	for library in $(ldd "$@" 2>/dev/null | sed -nE 's#^.*[[:space:]](/[^ ]+) \(0x.*#\1#p' | sort -u); do
		install -D -m 755 "$library" "$root$library"
		with_copyright "$library"
	done
}

rm -rf "$directory"
mkdir -p "$root"/{etc,proc,sys,dev,run,tmp,usr/lib,usr/lib64,var/lib/dpkg/status.d}
cp -L /etc/os-release "$root/etc/"
dpkg-deb --field "$package" >"$root/var/lib/dpkg/status.d/userevd"
for link in lib lib64; do ln -s "usr/$link" "$root/$link"; done
dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" "${programs[@]/#/.}" ./usr/share/doc/userevd/copyright
install -m 755 /usr/bin/nsenter "$root/usr/bin/"
with_copyright /usr/bin/nsenter
with_libraries "${programs[@]/#/$root}" "$root/usr/bin/nsenter"
printf '%s\n' root:x:0:0::/: "userevd:x:$user:$user::/:" >"$root/etc/passwd"
printf '%s\n' root:x:0: "userevd:x:$user:" >"$root/etc/group"

container=$("${buildah[@]}" from scratch)
"${buildah[@]}" add --quiet --chown=0:0 "$container" "$root" / >/dev/null
# Engines give a container a namespace of cgroups, in which the daemon could not tell its clients apart: it enters the host's first.
"${buildah[@]}" config --entrypoint='["nsenter", "--cgroup=/proc/1/ns/cgroup", "userevd", "--foreground"]' \
	--env=PATH=/usr/bin:/usr/sbin --workingdir=/ \
	--label=org.opencontainers.image.title=userevd \
	--label="org.opencontainers.image.description=$(dpkg-deb --field "$package" Description | head -1)" \
	--label=org.opencontainers.image.version="$version" \
	--label='org.opencontainers.image.licenses=GPL-2.0-or-later AND LGPL-2.1-or-later' \
	--label=org.opencontainers.image.revision="$revision" \
	${source:+--label=org.opencontainers.image.source="$source"} "$container"
"${buildah[@]}" commit --quiet "$container" "oci-archive:$archive:$name:$version" >/dev/null
rm -rf "$directory"/{root,storage,run}
echo "$archive"
