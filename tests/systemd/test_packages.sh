#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The life of the Debian packages, in a guest where systemd is the first process: installed, used, upgraded while a program is
# connected, removed, installed again, purged. At the end nothing is there that was not there before.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
[ -d /run/guest ] && [ -d /run/systemd/system ] || { echo 'this installs packages: it is for a guest with systemd'; exit 1; }
command -v dpkg >/dev/null || { echo '0 passed, 0 failed, 1 skipped: packages need Debian' && exit 0; }
unset LD_LIBRARY_PATH USEREV_SOCKET USEREV_CONTROL_SOCKET
export DEBIAN_FRONTEND=noninteractive
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^VERSION := //p' Makefile)
architecture=$(dpkg --print-architecture)
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
names=(userevd libuserev1 libuserev-dev)
# What a host says of services that packages want to start, such as a container's image, is not about this guest.
rm -f /usr/sbin/policy-rc.d

# within SECONDS COMMAND…: becomes true in that time; if not, what it said last is shown.
within()
{
	local deadline=$((SECONDS + $1)) output
	shift
	until output=$("$@" 2>&1); do
		[ $SECONDS -lt $deadline ] || { printf '%s\n' "$output" && return 1; }
		sleep 0.2
	done
}

# says PATTERN COMMAND…
says()
{
	local pattern=$1 output
	shift
	output=$("$@" 2>&1)
	printf '%s\n' "$output"
	grep -qE -- "$pattern" <<<"$output"
}

property()
{
	systemctl show --property="$2" --value "$1"
}

# packages VERSION: their files.
packages()
{
	local name
	for name in "${names[@]}"; do
		echo "$([ "$1" = "$version" ] && echo "$B/deb" || echo "$scratch")/${name}_$1_$architecture.deb"
	done
}

# The same packages as those of a later version, for what they do to one another.
make_later()
{
	local name
	for name in "${names[@]}"; do
		dpkg-deb -R "$B/deb/${name}_${version}_$architecture.deb" "$scratch/$name" &&
			sed -i "s/^Version: .*/Version: $version+1/; s/(= $version)/(= $version+1)/" "$scratch/$name/DEBIAN/control" &&
			dpkg-deb -Znone --root-owner-group -b "$scratch/$name" "$scratch/${name}_$version+1_$architecture.deb" || return 1
	done
}

# Without triggers: to index all manual pages and libraries takes a guest minutes. The loader finds this one by itself.
manage()
{
	dpkg --no-triggers "$@"
}

install_packages()
{
	local files
	mapfile -t files < <(packages "$1")
	manage -i "${files[@]}"
}

is_installed()
{
	says "^userevd $1 installed$" dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' "${names[@]}"
}

# Where packages may leave something. Of folders with many thousands of files, what has our name.
files()
{
	find /etc /etc/systemd/system /lib/systemd/system /usr/lib/sysusers.d /usr/lib/tmpfiles.d /var/lib/systemd /run/systemd/units \
		/sys/fs/bpf -xdev
	find /usr/bin /usr/sbin /usr/lib "/usr/lib/$multiarch" "/usr/lib/$multiarch/pkgconfig" /usr/include /usr/share/doc /var/lib /run \
		-maxdepth 1
	find /usr/share/man /usr/share/bash-completion -name '*userev*'
}

# Without what systemd keeps of whatever happens.
snapshot()
{
	files 2>/dev/null | grep -vE '^/var/lib/systemd/(timers|random|linger|catalog|coredump)|^/run/systemd/units/(invocation|log)' | sort -u
}

nothing_is_left()
{
	snapshot >"$scratch/after"
	diff "$scratch/before" "$scratch/after"
}

enabled_units()
{
	systemctl list-unit-files --no-legend --no-pager --plain 'userevd*' | awk '$2 == "enabled" { print $1 }'
}

# The daemon is started by whoever asks.
sockets_are_enabled()
{
	diff <(enabled_units | sort) <(cd /lib/systemd/system && printf '%s\n' userevd*.socket | sort)
}

# Sockets are those who wait where there are any, the service where not.
is_up()
{
	local unit
	for unit in $(cd /lib/systemd/system && ls userevd*.socket 2>/dev/null || echo userevd.service); do
		systemctl is-active "$unit" || return 1
	done
}

# run_client NAME: an unprivileged service that was built against the packages.
run_client()
{
	systemd-run --quiet --unit="$1" --property=DynamicUser=yes --property=CapabilityBoundingSet= /usr/bin/shop-requests "$1" 600
}

# With what the packages bring, and nothing of the build folder.
build_client()
{
	# shellcheck disable=SC2046 # flags are words
	"${CC:-gcc}" client/examples/requests.c $(pkg-config --cflags --libs libuserev) -o /usr/bin/shop-requests &&
		says "=> .*/libuserev\\.so\\.1 " ldd /usr/bin/shop-requests
}

has_event()
{
	says "^$1_request\s" userevctl events
}

main_pid()
{
	property "$1" MainPID
}

# What is promised of an upgrade: daemon and keeper are the new ones, the program runs on.
upgrades()
{
	local daemon keeper client
	daemon=$(main_pid userevd) keeper=$(main_pid userevd-keeper) client=$(main_pid shop)
	[ "$daemon" != 0 ] && [ "$keeper" != 0 ] && [ "$client" != 0 ] || return 1
	install_packages "$version+1" && is_installed "$version\\+1" || return 1
	within 120 is_active userevd.service
	echo "the daemon: $daemon, $(main_pid userevd); the keeper: $keeper, $(main_pid userevd-keeper)"
	echo "the program: $client, $(main_pid shop)"
	[ "$(main_pid userevd)" != "$daemon" ] && [ "$(main_pid userevd-keeper)" != "$keeper" ] &&
		[ "$(main_pid shop)" = "$client" ]
}

# It has not connected again: one daemon has told the next of it.
was_taken_over()
{
	says 'restored 1 connections' journalctl --unit=userevd --output=cat
}

is_active()
{
	systemctl is-active "$@"
}

none_runs()
{
	! systemctl list-units --no-legend --no-pager --plain 'userevd*' | grep -w active && ! pgrep -a userevd
}

failed_units()
{
	systemctl --failed --no-legend --no-pager --plain
}

says_nothing()
{
	local output
	output=$("$@" 2>/dev/null)
	printf '%s\n' "$output"
	[ -z "$output" ]
}

completion_is_loaded()
{
	bash --norc -c '. /usr/share/bash-completion/completions/userevctl && complete -p userevctl'
}

snapshot >"$scratch/before"
check 'the packages are there' ls $(packages "$version")
check '… and those of a later version' make_later
check 'they are installed' install_packages "$version"
check '… whole' is_installed "$version"
check 'the sockets are enabled, and nothing else' sockets_are_enabled
check 'what is to run runs' is_up
check 'there is a directory for policies' test -d /etc/userevd/policy.d
check 'completion is there' completion_is_loaded
check 'who asks starts the daemon' within 120 userevctl status
check 'a program builds against them' build_client
check 'it runs as a service of another user' run_client shop
check '… and has its event' within 120 has_event shop
check 'its records come' says 'shop_request.*status=' timeout 120 userevctl tail --count=2 shop_request
check 'the doctor is content' userevctl doctor
printf '[/system.slice/shop.service]\nMaxEvents=7\n' >/etc/userevd/policy.d/10-mine.conf
check 'an upgrade: a new daemon, and the program runs on' upgrades
check '… whose connection was taken over' within 120 was_taken_over
check '… with its event' within 120 has_event shop
check '… whose records come' says 'shop_request.*status=' timeout 120 userevctl tail --count=2 shop_request
check '… the policy is still there' grep -q MaxEvents=7 /etc/userevd/policy.d/10-mine.conf
check '… the sockets are enabled, and nothing else' sockets_are_enabled
check '… what is to run runs' is_up
check '… a program that is started then is served' run_client bank
check '… with its event' within 120 has_event bank
check 'they are removed' manage -r "${names[@]}"
check '… and nothing runs' none_runs
check '… but the policy is kept' test -e /etc/userevd/policy.d/10-mine.conf
check '… and the program, which holds the library open' is_active shop
check 'they are installed again' install_packages "$version"
check '… and what is to run runs' is_up
check '… and who asks starts the daemon' within 120 userevctl status
systemctl stop shop bank
check '… and a program is served' run_client again
check '… with its event' within 120 has_event again
systemctl stop again
rm -f /usr/bin/shop-requests
check 'they are purged' manage -P "${names[@]}"
check '… and nothing runs' none_runs
check '… and nothing is left' nothing_is_left
check 'no unit has failed' says_nothing failed_units
sum_up
