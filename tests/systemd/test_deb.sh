#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The Debian packages of `make deb`: they are complete, lintian finds no error, and a program builds against them. test_packages.sh
# installs them in a guest.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/hardening.sh
command -v lintian dpkg-buildpackage >/dev/null || { echo '0 passed, 0 failed, 1 skipped: packages need Debian, and lintian' && exit 0; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
names=(userevd libuserev1 libuserev-dev python3-userev)
version=$(sed -n 's/^VERSION := //p' Makefile)
architecture=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)

package()
{
	local file=$B/deb/$1_${version}_$architecture.deb
	[ -e "$file" ] || file=$B/deb/$1_${version}_all.deb
	echo "$file"
}

# The files of packages; man pages without .gz.
packed()
{
	local name
	for name in "$@"; do
		dpkg-deb --fsys-tarfile "$(package "$name")" | tar -t | grep -v '/$' | sed 's|^\./|/|; s|\(/man/.*\)\.gz$|\1|'
	done | sort
}

installed()
{
	make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR="$scratch/tree" PREFIX=/usr LIBDIR="/usr/lib/$multiarch" \
		UNITDIR=/lib/systemd/system install >"$scratch/log" 2>&1 || cat "$scratch/log"
	(cd "$scratch/tree" && find . -type f -o -type l) | sed 's|^\.||' | sort
}

nothing_is_missing()
{
	local missing
	missing=$(comm -23 <(installed) <(packed "${names[@]}"))
	printf 'missing:\n%s\n' "$missing"
	[ -z "$missing" ] && [ "$(wc -l < <(installed))" -gt 20 ]
}

# has PACKAGE FILE…
has()
{
	local name=$1 file
	shift
	for file in "$@"; do
		packed "$name" | grep -qx -- "$file" || { echo "$name has no $file" && return 1; }
	done
}

scripts_of_userevd()
{
	[ -d "$scratch/control" ] || dpkg-deb --control "$(package userevd)" "$scratch/control"
	cat "$scratch/control/$1"
}

# A unit that prerm does not stop would run on after a removal.
all_units_are_stopped()
{
	local unit units
	units=$(packed userevd | sed -nE 's#^/lib/systemd/system/([^/@]*\.(service|socket))$#\1#p')
	[ -n "$units" ] || return 1
	for unit in $units; do
		scripts_of_userevd prerm | grep 'deb-systemd-invoke stop' | head -1 | grep -qw -- "$unit" || { echo "$unit" && return 1; }
	done
}

creates_users_and_directories()
{
	local kind
	for kind in sysusers tmpfiles; do
		! packed userevd | grep "/$kind.d/" || scripts_of_userevd postinst | grep "^[[:space:]]*systemd-$kind .*userevd.conf" || return 1
	done
}

builds_a_program()
{
	local flags
	dpkg-deb -x "$(package libuserev1)" "$scratch/root" && dpkg-deb -x "$(package libuserev-dev)" "$scratch/root" || return 1
	flags=$(PKG_CONFIG_LIBDIR=$scratch/root/usr/lib/$multiarch/pkgconfig PKG_CONFIG_SYSROOT_DIR=$scratch/root \
		PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs libuserev)
	# shellcheck disable=SC2086 # flags are words
	"${CC:-gcc}" "$@" client/examples/requests.c $flags -o "$scratch/program" &&
		LD_LIBRARY_PATH=$scratch/root/usr/lib/$multiarch USEREV_SOCKET=$scratch/nobody timeout 20 "$scratch/program" shop 0.1
}

are_hardened()
{
	local program
	dpkg-deb -x "$(package userevd)" "$scratch/programs" && dpkg-deb -x "$(package libuserev1)" "$scratch/programs" || return 1
	for program in "$scratch"/programs/usr/{sbin/userevd,bin/userevctl,lib/userevd/userevd-*}; do
		has_all "$program" is_position_independent "${common[@]}" || return 1
		is_static "$program" || has_all "$program" "${calls[@]}" || return 1
	done
	has_all "$scratch/programs/usr/lib/$multiarch/libuserev.so.1" "${common[@]}" "${calls[@]}"
}

all_exist()
{
	local name
	for name in "${names[@]}"; do
		ls "$(package "$name")" || return 1
	done
}

runs_in_python()
{
	dpkg-deb -x "$(package python3-userev)" "$scratch/python" &&
		PYTHONPATH=$scratch/python/usr/lib/python3/dist-packages USEREV_SOCKET=$scratch/nobody \
			/usr/bin/python3 -c 'import userev; assert not userev.event("hello u32 n").enabled'
}

check 'a package names its maintainer' grep -qE '^[^@<>]+ <[^@<> ]+@[^@<> ]+>$' \
	<(dpkg-deb --field "$(package userevd)" Maintainer)
check 'all packages exist' all_exist
check 'each installed file is in a package' nothing_is_missing
check 'each file is in one package only' says_nothing uniq -d <(packed "${names[@]}")
check 'libuserev1 has the shared library' has libuserev1 "/usr/lib/$multiarch/libuserev.so.1"
check 'libuserev-dev has the files for building programs' has libuserev-dev /usr/include/userev.h /usr/include/userev_event.h /usr/include/userev_event_header.h "/usr/lib/$multiarch/libuserev.a" \
	"/usr/lib/$multiarch/libuserev.so" "/usr/lib/$multiarch/pkgconfig/libuserev.pc" /usr/share/man/man7/userevd-protocol.7
check 'userevd has no library and no headers' says_nothing grep 'libuserev\|/include/' <(packed userevd)
check 'userevd has keeper, guard, tool and a unit' has userevd /usr/sbin/userevd /usr/lib/userevd/userevd-keeper \
	/usr/lib/userevd/userevd-guard /usr/bin/userevctl /lib/systemd/system/userevd.service
check 'userevd has completion and the files for containers' has userevd /usr/share/bash-completion/completions/userevctl \
	/usr/share/doc/userevd/containers/seccomp-user-events.json /usr/share/man/man7/userevd-containers.7
check 'each unit is stopped by a removal' all_units_are_stopped
check 'postinst creates users and directories' creates_users_and_directories
check 'lintian finds no error' lintian --allow-root --fail-on error --no-cfg "$B/deb/userevd_${version}_$architecture.changes"
check 'programs and library are hardened' are_hardened
check 'python3-userev has the module and its page' has python3-userev /usr/lib/python3/dist-packages/userev/__init__.py \
	/usr/share/man/man3/python-userev.3
check 'the Python module can be imported' runs_in_python
check 'a program builds against the packages and runs' builds_a_program
check 'a program builds with the static library and runs' builds_a_program -static
sum_up
