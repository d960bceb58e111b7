#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The life of the Debian packages, in a guest where systemd is the first process: installed, used, upgraded, removed and purged while
# programs are connected, and installed again behind each. The files at the end are those of the beginning.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
names=(userevd libuserev1 libuserev-dev)
. tests/systemd/packages.sh
multiarch=$(dpkg-architecture -qDEB_HOST_MULTIARCH)

# The folders of packages; in the largest ones only files with our name.
files()
{
	find /etc /etc/systemd/system /lib/systemd/system /usr/lib/sysusers.d /usr/lib/tmpfiles.d /var/lib/systemd /run/systemd/units \
		/sys/fs/bpf -xdev
	find /usr/bin /usr/sbin /usr/lib "/usr/lib/$multiarch" "/usr/lib/$multiarch/pkgconfig" /usr/include /usr/share/doc /var/lib /run \
		-maxdepth 1
	find /usr/share/man /usr/share/bash-completion -name '*userev*'
}

# Without systemd's own records.
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

# All sockets but that of the metrics, which is for those who want it.
early_units_are_enabled()
{
	diff <(enabled_units | sort) <(cd /lib/systemd/system && printf '%s\n' userevd*.socket userevd-sessions.service | grep -v metrics | sort)
}

# With the files of the packages alone.
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

# An upgrade replaces daemon and keeper; the program runs on.
upgrades()
{
	local daemon keeper client
	daemon=$(property userevd MainPID) keeper=$(property userevd-keeper MainPID) client=$(property shop MainPID)
	[ "$daemon" != 0 ] && [ "$keeper" != 0 ] && [ "$client" != 0 ] || return 1
	install_packages "$version+1" && is_installed "$version\\+1" || return 1
	within 120 systemctl is-active userevd.service
	echo "the daemon: $daemon, $(property userevd MainPID); the keeper: $keeper, $(property userevd-keeper MainPID)"
	echo "the program: $client, $(property shop MainPID)"
	[ "$(property userevd MainPID)" != "$daemon" ] && [ "$(property userevd-keeper MainPID)" != "$keeper" ] &&
		[ "$(property shop MainPID)" = "$client" ]
}

failed_units()
{
	systemctl --failed --no-legend --no-pager --plain
}

completion_is_loaded()
{
	bash --norc -c '. /usr/share/bash-completion/completions/userevctl && complete -p userevctl'
}

# start_client NAME: starts an unprivileged service that was built against the packages, and waits for its event.
start_client()
{
	systemd-run --quiet --unit="$1" --property=DynamicUser=yes --property=CapabilityBoundingSet= /usr/bin/shop-requests "$1" 600 &&
		within 120 has_event "$1"
}

# start_container NAME: with the one word of the package, and waits for its event.
start_container()
{
	storage_of $storage && tests/containers/rootfs.sh $storage/files userevctl shop-requests && prepare_podman && start_podman "$1" &&
		within 120 has_event "$1" && says "^$1 \\(podman\\)" userevctl tenants
}

container_runs()
{
	[ "$container" -gt 1 ] && [ "$(leader_podman web)" = "$container" ] && kill -0 "$container"
}

has_no_device()
{
	! podman run --rm --network=none --device userevd.dev/events=all program id
}

end_container()
{
	kill_podman web && umount $storage && rmdir $storage
}

# What Podman needs, and directories of its own that stay.
{ systemctl start dbus.socket && storage_of /var/lib/containers && podman info; } >/dev/null 2>&1
snapshot >"$scratch/before"
check 'the packages exist' ls $(packages "$version")
check 'packages of a later version are made' make_later
check 'the packages are installed' install_packages "$version"
check 'dpkg shows them as installed' is_installed "$version"
check 'exactly the sockets and sessions are enabled' early_units_are_enabled
check 'the sockets are active' are_active "${sockets[@]}"
check 'the directory of policies exists' test -d /etc/userevd/policy.d
check 'completion can be loaded' completion_is_loaded
check 'a request starts the daemon' within 120 userevctl status
check 'a program builds against the packages' build_client
check 'a service has its event' start_client shop
check 'the records arrive' says 'shop_request.*status=' timeout 120 userevctl tail --count=2 shop_request
check 'the doctor finds no fault' userevctl doctor
check 'a container has its event, and its name' start_container web
container=$(leader_podman web)
printf '[/system.slice/shop.service]\nMaxEvents=7\n' >/etc/userevd/policy.d/10-mine.conf
check 'an upgrade replaces daemon and keeper, and not the program' upgrades
check 'the connections were taken over' within 120 was_taken_over 2
check 'the event exists after the upgrade' within 120 has_event shop
check 'the records arrive after the upgrade' says 'shop_request.*status=' timeout 120 userevctl tail --count=2 shop_request
check 'the container runs on' container_runs
check '… and its records arrive' says 'web_request.*status=' timeout 120 userevctl tail --count=2 --tenant=web web_request
check 'the policy is kept' grep -q MaxEvents=7 /etc/userevd/policy.d/10-mine.conf
check 'exactly the sockets and sessions are enabled after the upgrade' early_units_are_enabled
check 'the sockets are active after the upgrade' are_active "${sockets[@]}"
check 'a new service has its event' start_client bank
check 'the packages are removed' manage -r "${names[@]}"
check 'no process of userevd is left' none_runs
check 'a removal keeps the policy' test -e /etc/userevd/policy.d/10-mine.conf
check 'a removal does not end the program' systemctl is-active shop
check '… nor the container' container_runs
check 'there is no device for a new one' has_no_device
check 'the packages are installed again' install_packages "$version"
check 'the sockets are active again' are_active "${sockets[@]}"
check 'a request starts the daemon again' within 120 userevctl status
check 'the container finds the new daemon' within 120 has_event web
check 'the container is removed' end_container
systemctl stop shop bank
check 'a service has its event again' start_client again
check 'the packages are purged' manage -P "${names[@]}"
check 'a purge leaves no process' none_runs
check 'a purge does not end the program' systemctl is-active again
check 'the packages are installed once more' install_packages "$version"
check 'a request starts the daemon once more' within 120 userevctl status
check 'the program finds the daemon' within 120 has_event again
systemctl stop again
rm -f /usr/bin/shop-requests
check 'the packages are purged again' manage -P "${names[@]}"
check 'a purge leaves no file' nothing_is_left
check 'no unit has failed' says_nothing failed_units
sum_up
