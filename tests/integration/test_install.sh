#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Installed files work in their places, and are removed again; README's program builds against them.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
root="$scratch/a root"
linked=$scratch/root

# make_target TARGET [VARIABLE=VALUE…]
make_target()
{
	make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR="$root" PREFIX=/usr "$@"
}

# All files, with modes and targets of links.
tree()
{
	(cd "$root" && find . ! -type d -printf '%p %m %l\n' | sort)
}

second_install_changes_nothing()
{
	local before
	before=$(tree)
	make_target install && [ "$before" = "$(tree)" ] && [ -n "$before" ]
}

# Only a file that existed before is left.
leaves_nothing()
{
	[ "$(tree)" = './usr/bin/foreign 644 ' ] && [ -z "$(find "$root" -name '*userev*')" ]
}

install_with_narrow_umask()
{
	(umask 077 && make_target install)
}

readable_by_all()
{
	local wrong
	wrong=$(find "$root" -type f ! -perm -444 -o -type d ! -perm -555)
	echo "$wrong"
	[ -z "$wrong" ]
}

has_manuals_and_units()
{
	local file
	for file in $(find client daemon kernel protocol systemd -name '*.[1-8]' -printf '%f\n') userevd.service; do
		[ -n "$(find "$root" -name "$file")" ] || { echo "no $file" && return 1; }
	done
}

goes_below_prefix()
{
	rm -rf "$root"
	make_target install PREFIX=/opt/userevd && [ -z "$(find "$root" ! -type d ! -path "$root/opt/userevd/*")" ] &&
		grep -q '^ExecStart=/opt/userevd/sbin/userevd ' "$root/opt/userevd/lib/systemd/system/userevd.service" &&
		make_target uninstall PREFIX=/opt/userevd && [ -z "$(find "$root" ! -type d)" ]
}

# Python may write __pycache__ there, which uninstall has to remove.
finds_module()
{
	PYTHONPATH=$root/usr/lib/python3/dist-packages python3 -c 'import userev; assert not userev.event("hello u32 n").enabled'
}

# compiles COMPILER LANGUAGE FLAG…: the first C block of the README, which runs until it is ended.
compiles()
{
	local compiler=$1 language=$2
	shift 2
	sed -n '/^```c$/,/^```$/p' README.md | sed '/^```/d' >"$scratch/readme.$language"
	"$compiler" -Wall -Wextra -Werror "$scratch/readme.$language" -o "$scratch/readme" "$@" || return
	timeout 1 "$scratch/readme"
	[ $? -eq 124 ]
}

installed_flags()
{
	PKG_CONFIG_LIBDIR=$linked/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$linked PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
		PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs libuserev
}

# All units, with the paths of the installed programs.
verifies()
{
	local units=$root/usr/lib/systemd/system
	mkdir "$scratch/units" && ln -s "$root" "$scratch/without-blanks"
	cp "$units"/userevd*.socket "$scratch/units"
	for unit in "$units"/userevd*.service; do
		sed -E "s#^(Exec[A-Za-z]*=\\+?)/usr/#\\1$scratch/without-blanks/usr/#" "$unit" >"$scratch/units/${unit##*/}"
	done
	SYSTEMD_UNIT_PATH=$scratch/units: systemd-analyze verify --man=no "$scratch"/units/*
}

# is_exposed_to UNIT TENTHS: or less.
is_exposed_to()
{
	systemd-analyze security --no-pager --offline=yes --root="$root" --threshold="$2" "$1"
}

sysusers_creates_the_user()
{
	mkdir "$root/etc" && systemd-sysusers --root="$root" userevd.conf && grep -q '^userevd:.*:/usr/sbin/nologin$' "$root/etc/passwd" &&
		grep -q '^userevd:' "$root/etc/group" && rm -r "$root/etc"
}

# By notification from systemd 253 on, otherwise by a command.
unit_reloads_as_systemd_can()
{
	local unit=$B/systemd/userevd.service
	make --no-print-directory B="$B" DEPENDENCIES=skip RELOADS_BY_NOTIFY=yes "$unit" && grep -q '^Type=notify-reload$' "$unit" &&
		! grep -qE '^ExecReload|@[A-Z]' "$unit" &&
		make --no-print-directory B="$B" DEPENDENCIES=skip RELOADS_BY_NOTIFY=no "$unit" && grep -q '^Type=notify$' "$unit" &&
		grep -q '^ExecReload=.*userevctl reload$' "$unit" && ! grep -q '@[A-Z]' "$unit"
}

export LD_LIBRARY_PATH=$root/usr/lib USEREV_SOCKET=$scratch/nobody
# The root has a blank in its name; flags of a compiler can't.
mkdir -p "$root/usr/bin"
ln -s "$root" "$linked"
install -m 644 /dev/null "$root/usr/bin/foreign"
check 'make install succeeds' install_with_narrow_umask
check 'a second install changes nothing' second_install_changes_nothing
check 'the files are readable by all' readable_by_all
check 'man pages and units are installed' has_manuals_and_units
check 'completion is installed' test -s "$root/usr/share/bash-completion/completions/userevctl"
check 'Python finds the module' finds_module
check 'the installed tool runs' "$root/usr/bin/userevctl" version
check 'the installed daemon runs' "$root/usr/sbin/userevd" --version
check 'userevctl run finds the installed daemon' "$root/usr/bin/userevctl" run --quiet -- true
check 'systemd accepts the units' verifies
check 'the exposure of the daemon is at most 0.5' is_exposed_to userevd.service 5
check 'the exposure of the keeper is at most 0.8' is_exposed_to userevd-keeper.service 8
check 'the exposure of the unit for sessions is at most 0.9' is_exposed_to userevd-sessions.service 9
check 'the exposure of that for snapshots is at most 1.1' is_exposed_to userevd-snapshot@.service 11
check 'systemd-sysusers creates the user' sysusers_creates_the_user
check 'the unit reloads with systemd 252 and 253' unit_reloads_as_systemd_can
# shellcheck disable=SC2046 # flags are words
check "README's program builds as C" compiles gcc c $(installed_flags)
# shellcheck disable=SC2046
check "README's program builds as C++" compiles g++ cc $(installed_flags)
# shellcheck disable=SC2046
check "README's program builds against a build that is not installed" compiles gcc c $(PKG_CONFIG_PATH=$B pkg-config --cflags --libs libuserev)
check 'make uninstall succeeds' make_target uninstall
check 'no file is left' leaves_nothing
check 'a second uninstall succeeds' make_target uninstall
check 'PREFIX moves all files' goes_below_prefix
sum_up
