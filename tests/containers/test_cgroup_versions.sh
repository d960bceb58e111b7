#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Containers on a host with version 1 of cgroups (the guest 6.12+legacy), or with both versions (6.12+hybrid), as userevd-containers(7) says:
# a container is a tenant by its cgroup in systemd's hierarchy, or in version 2 where that is mounted, too; the guard needs version 2, and
# without it a container in the host's user namespace gets no data file, unless a policy allows it.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh

has_version_1()
{
	says '^cgroup(fs)?$' stat --file-system --format=%T /sys/fs/cgroup/systemd && says_not '^cgroup2' stat --file-system --format=%T /sys/fs/cgroup
}

in_engine()
{
	"$1_$engine" "${@:2}"
}

has_started()
{
	local leader
	leader=$(in_engine leader "$1") && [ "$leader" -gt 0 ] && tenant[$1]=$(in_engine tenant "$1")
}

# By its path in the hierarchy that the manual names.
is_a_tenant()
{
	test -d "$cgroups${tenant[$1]}" && grep -x "[0-9]*:$controller:${tenant[$1]}.*" "/proc/$(in_engine leader "$1")/cgroup" &&
		says "\"tenant\":\"${tenant[$1]}\"" userevctl tenants --json
}

is_named()
{
	says "^$(in_engine name "$1" | sed 's/[()]/\\&/g')"$'\t'"${tenant[$1]}"$'\t' userevctl tenants
}

# As a child of the container's first process: `podman exec` leaves a program in the caller's cgroup of systemd's hierarchy.
emit_in()
{
	enter "$(in_engine leader "$1")" $user userevctl emit --require "$2 u32 x" x=1
}

is_traced()
{
	userevctl enable "$1_request" && timeout 60 userevctl tail --count=1 --tenant="${tenant[$1]}" "$1_request" && userevctl disable "$1_request"
}

is_refused()
{
	says "this tenant holds [0-9]+ of 1 events \(MaxEvents=1 of " emit_in "$@"
}

# Only a policy gives files to containers in the host's user namespace.
needs_the_policy()
{
	says 'AllowHostUserns=' emit_in shop first && allow_without_guard && within 20 emit_in shop first
}

exec_is_of_the_caller()
{
	says "^[0-9]+:$controller:$(sed -n "s/^[0-9]*:$controller://p" /proc/self/cgroup)\$" podman exec --user=$user "$1" cat /proc/self/cgroup
}

nothing_is_charged()
{
	says '"charges":0[,}]' userevctl status --json
}

row()
{
	local engine=$1 name
	local -A tenant=()
	check "$1: the engine starts" in_engine prepare
	for name in shop bank; do
		check "$1: the container $name starts" in_engine start $name
		check "$1: $name is running" within 60 has_started $name
		has_started $name || { in_engine kill $name; return; }
	done
	if ! has_guard && [ "$1" = podman ]; then
		check "$1: without version 2 there is no guard, and a file is for user namespaces, or by the policy" needs_the_policy
	fi
	for name in shop bank; do
		check "$1: $name is a tenant of its own, by that hierarchy" within 60 is_a_tenant $name
		check "$1: $name has its name" within 10 is_named $name
		check "$1: $name is traced" within 60 is_traced $name
	done
	check "$1: the policy gives it one event" reload_with "[${tenant[shop]}]" MaxEvents=1
	check "$1: the second event is refused" is_refused shop second
	check "$1: its neighbour gets the event" emit_in bank second
	if [ -n "$controller" ] && [ "$1" != nspawn ]; then
		check "$1: podman exec leaves a program in the caller's cgroup, as the manual says" exec_is_of_the_caller shop
	fi
	rm /etc/userevd/policy.d/50-test.conf
	check "$1: the policy is taken back" systemctl reload userevd
	check "$1: daemon and keeper are killed" kill_all userevd userevd-keeper
	for name in shop bank; do
		check "$1: $name returns" within 60 is_traced $name
	done
	for name in shop bank; do
		check "$1: $name is killed" in_engine kill $name
	done
	check "$1: all events are refunded" within 60 nothing_is_charged
	rm -f $unguarded
	systemctl reload userevd
}

check 'this host has version 1 of cgroups' has_version_1
check 'daemon and files are there' prepare_files
if [ -z "$controller" ]; then
	check 'with version 2, too, there is the guard' within 60 has_guard
else
	check 'with version 1 alone there is no guard' says_not '"guard":"on"' userevctl status --json
fi
for one in podman podman_userns nspawn; do
	row $one
done
sum_up
