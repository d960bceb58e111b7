#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# sysroot.sh ARCHITECTURE [PACKAGE…]: prints a folder with Debian's packages for another machine, and what they depend on, unpacked;
# by default those that we build with. They are fetched once, with an apt configuration of their own, so that this machine's dpkg does not
# know that architecture. They are kept below $USEREVD_CACHE (default ~/.cache/userevd), under a hash of their names and Debian's version.

set -eu
architecture=$1
shift
[ $# -gt 0 ] || set -- libc6-dev libsystemd-dev libtracefs-dev libtraceevent-dev libzstd-dev libev-dev uthash-dev check libbpf-dev
cache=${USEREVD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/userevd}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
key=$({ echo "$@"; cat /etc/debian_version; } | sha256sum | cut -c1-16)
entry=$cache/sysroot-$architecture-$key

exec 9>"$cache/lock-sysroot-$architecture"
flock 9
[ ! -d "$entry" ] || { echo "$entry" && exit; }

echo "Fetching Debian's packages for $architecture (once)" >&2
work=$(mktemp -d "$cache/fetching-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/root"
: >"$work/status"
cat >"$work/apt.conf" <<-END
	APT::Architecture "$architecture";
	APT::Architectures { "$architecture"; };
	APT::Sandbox::User "$(id -un)";
	Acquire::Languages "none";
	Debug::NoLocking "true";
	Dir::Cache "$work";
	Dir::State::Lists "$work/lists";
	Dir::State::Status "$work/status";
END
export APT_CONFIG=$work/apt.conf DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --download-only --no-install-recommends "$@"; } >"$work/log" 2>&1; then
	tail -20 "$work/log" >&2
	echo "apt-get could not fetch, for $architecture: $*" >&2
	exit 1
fi
for package in "$work"/archives/*.deb; do
	dpkg-deb --extract "$package" "$work/root"
done
mv "$work/root" "$entry"
echo "$entry"
