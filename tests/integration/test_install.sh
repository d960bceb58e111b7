#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is installed, works from where it is, and goes away again; and the program at the top of the README is built against it.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root=$scratch/root

make_target()
{
	make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR="$root" PREFIX=/usr "$1"
}

# The first C block of the README.
readme_program()
{
	sed -n '/^```c$/,/^```$/p' README.md | sed '/^```/d'
}

# compiles COMPILER LANGUAGE FLAG…
compiles()
{
	local compiler=$1 language=$2
	shift 2
	readme_program >"$scratch/readme.$language"
	"$compiler" -Wall -Wextra -Werror "$scratch/readme.$language" -o "$scratch/readme" "$@" && "$scratch/readme"
}

installed_flags()
{
	PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
		PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs libuserev
}

verifies()
{
	sed "s|^ExecStart=[^ ]*|ExecStart=$B/userevd|" "$root/usr/lib/systemd/system/userevd.service" >"$scratch/userevd.service"
	systemd-analyze verify --man=no "$scratch/userevd.service"
}

export LD_LIBRARY_PATH=$root/usr/lib USEREV_SOCKET=$scratch/nobody
check 'it is installed' make_target install
check 'the tool runs from there' "$root/usr/bin/userevctl" version
check 'the daemon does, too' "$root/usr/sbin/userevd" --version
check 'a private daemon is found beside it' "$root/usr/bin/userevctl" run --quiet -- true
check 'the unit is what systemd wants' verifies
# shellcheck disable=SC2046 # flags are words
check "the README's program is C that builds against what is installed" compiles gcc c $(installed_flags)
# shellcheck disable=SC2046
check '… and C++' compiles g++ cc $(installed_flags)
# shellcheck disable=SC2046
check '… and builds against a build that is not installed' compiles gcc c $(PKG_CONFIG_PATH=$B pkg-config --cflags --libs libuserev)
check 'it is uninstalled' make_target uninstall
check 'and nothing is left' test -z "$(find "$root" -type f -o -type l)"
sum_up
