#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What is installed, works from where it is, and goes away again; and the program at the top of the README is built against it.

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

# Everything, with what would tell one installation from another.
tree()
{
	(cd "$root" && find . ! -type d -printf '%p %m %l\n' | sort)
}

same_again()
{
	local before
	before=$(tree)
	make_target install && [ "$before" = "$(tree)" ] && [ -n "$before" ]
}

# What was there before stays, and so do the directories of others.
leaves_nothing()
{
	[ "$(tree)" = './usr/bin/foreign 644 ' ] && [ -z "$(find "$root" -name '*userev*')" ]
}

with_a_narrow_umask()
{
	(umask 077 && "$@")
}

# For all, whatever the umask of who installed it.
readable_by_all()
{
	local wrong
	wrong=$(find "$root" -type f ! -perm -444 -o -type d ! -perm -555)
	echo "$wrong"
	[ -z "$wrong" ]
}

# Each man page of the tree, and each unit.
all_are_there()
{
	local file
	for file in $(find client daemon kernel protocol systemd -name '*.[1-8]' -printf '%f\n') userevd.service; do
		[ -n "$(find "$root" -name "$file")" ] || { echo "not: $file" && return 1; }
	done
}

# Where PREFIX puts them, and nowhere else.
goes_below_prefix()
{
	rm -rf "$root"
	make_target install PREFIX=/opt/userevd && [ -z "$(find "$root" ! -type d ! -path "$root/opt/userevd/*")" ] &&
		grep -q '^ExecStart=/opt/userevd/sbin/userevd ' "$root/opt/userevd/lib/systemd/system/userevd.service" &&
		make_target uninstall PREFIX=/opt/userevd && [ -z "$(find "$root" ! -type d)" ]
}

# As who may write beside it, so that what Python keeps there is to be taken away, too.
finds_module()
{
	PYTHONPATH=$root/usr/lib/python3/dist-packages python3 -c 'import userev; assert not userev.event("hello u32 n").enabled'
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
	"$compiler" -Wall -Wextra -Werror "$scratch/readme.$language" -o "$scratch/readme" "$@" || return
	# It runs until it is ended.
	timeout 1 "$scratch/readme"
	[ $? -eq 124 ]
}

installed_flags()
{
	PKG_CONFIG_LIBDIR=$linked/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$linked PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 \
		PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config --cflags --libs libuserev
}

# All units, with the programs where they are now.
verifies()
{
	local units=$root/usr/lib/systemd/system
	mkdir "$scratch/units" && ln -s "$root" "$scratch/without-blanks"
	cp "$units"/userevd*.socket "$scratch/units"
	for unit in userevd userevd-keeper; do
		sed -E "s#^(Exec[A-Za-z]*=\\+?)/usr/#\\1$scratch/without-blanks/usr/#" "$units/$unit.service" >"$scratch/units/$unit.service"
	done
	SYSTEMD_UNIT_PATH=$scratch/units: systemd-analyze verify --man=no "$scratch"/units/*
}

# is_exposed_to UNIT TENTHS: or less.
is_exposed_to()
{
	systemd-analyze security --no-pager --offline=yes --root="$root" --threshold="$2" "$1"
}

# What systemd's own programs make of it, in a root of their own.
makes_the_user()
{
	mkdir "$root/etc" && systemd-sysusers --root="$root" userevd.conf && grep -q '^userevd:.*:/usr/sbin/nologin$' "$root/etc/passwd" &&
		grep -q '^userevd:' "$root/etc/group" && rm -r "$root/etc"
}

# Each way to be told to reload has what it takes, and not the other's.
reloads_as_systemd_can()
{
	local unit=$B/systemd/userevd.service
	make --no-print-directory B="$B" DEPENDENCIES=skip RELOADS_BY_NOTIFY=yes "$unit" && grep -q '^Type=notify-reload$' "$unit" &&
		! grep -qE '^ExecReload|@[A-Z]' "$unit" &&
		make --no-print-directory B="$B" DEPENDENCIES=skip RELOADS_BY_NOTIFY=no "$unit" && grep -q '^Type=notify$' "$unit" &&
		grep -q '^ExecReload=.*userevctl reload$' "$unit" && ! grep -q '@[A-Z]' "$unit"
}

export LD_LIBRARY_PATH=$root/usr/lib USEREV_SOCKET=$scratch/nobody
# A directory with a blank in its name; flags of a compiler have none.
mkdir -p "$root/usr/bin"
ln -s "$root" "$linked"
install -m 644 /dev/null "$root/usr/bin/foreign"
check 'it is installed' with_a_narrow_umask make_target install
check 'twice is as good' same_again
check 'everybody may read it' readable_by_all
check 'man pages and units are there' all_are_there
check 'completion is, too' test -s "$root/usr/share/bash-completion/completions/userevctl"
check 'Python finds its module' finds_module
check 'the tool runs from there' "$root/usr/bin/userevctl" version
check 'the daemon does, too' "$root/usr/sbin/userevd" --version
check 'a private daemon is found beside it' "$root/usr/bin/userevctl" run --quiet -- true
check 'the units are what systemd wants' verifies
check 'the daemon is exposed to 0.5 at most' is_exposed_to userevd.service 5
check 'the keeper to 0.8' is_exposed_to userevd-keeper.service 8
check 'its user can be made' makes_the_user
check 'it reloads as systemd 253 has it, and as 252 does' reloads_as_systemd_can
# shellcheck disable=SC2046 # flags are words
check "the README's program is C that builds against what is installed" compiles gcc c $(installed_flags)
# shellcheck disable=SC2046
check '… and C++' compiles g++ cc $(installed_flags)
# shellcheck disable=SC2046
check '… and builds against a build that is not installed' compiles gcc c $(PKG_CONFIG_PATH=$B pkg-config --cflags --libs libuserev)
check 'it is uninstalled' make_target uninstall
check 'nothing is left but what others have' leaves_nothing
check 'twice is as good' make_target uninstall
check 'it goes below another prefix' goes_below_prefix
sum_up
