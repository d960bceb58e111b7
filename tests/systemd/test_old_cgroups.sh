#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A host with version 1 of cgroups (the guest 6.12+legacy), or with both versions (6.12+hybrid): a service is a tenant by its cgroup in
# systemd's hierarchy, or in version 2 where that is mounted, too.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
unified=/sys/fs/cgroup/unified

has_version_1()
{
	says '^cgroup$' stat --file-system --format=%T /sys/fs/cgroup/systemd || says '^cgroupfs$' stat --file-system --format=%T /sys/fs/cgroup/systemd
}

start_programs()
{
	local name
	for name in shop bank; do
		systemd-run --quiet --unit="$name" --uid=nobody "$B/examples/requests" "$name" 600 || return 1
	done
}

are_tenants()
{
	says '"tenant":"/system.slice/shop.service"' userevctl tenants --json && says '"tenant":"/system.slice/bank.service"' userevctl tenants --json
}

# emit_as UNIT EVENT: a program of that unit, which has ended before.
emit_as()
{
	local result
	systemd-run --quiet --collect --unit="$1" --uid=nobody --service-type=oneshot --property=StandardError=file:/run/emitted \
		userevctl emit --require "$2 u32 x" x=1
	result=$?
	cat /run/emitted
	return $result
}

has_policy()
{
	mkdir -p /etc/userevd/policy.d && printf '[/system.slice/poor.service]\nMaxEvents=0\n' >/etc/userevd/policy.d/50-old.conf &&
		userevctl reload
}

# With version 2 the keeper has a cgroup by which the guard knows it.
has_its_guard()
{
	if [ -d $unified ]; then
		says '"guard":"on"' userevctl status --brief --json
	else
		says '"guard":"(off|none)' userevctl status --brief --json
	fi
}

returns_after_kill()
{
	kill_of userevd KILL && kill_of userevd-keeper KILL && within 60 are_tenants
}

check 'this host has version 1 of cgroups' has_version_1
check 'userevd is installed' install_it
check 'its sockets listen' systemctl start "${sockets[@]}"
check 'programs start' start_programs
check 'each service is a tenant' within 60 are_tenants
check 'the guard is there if version 2 is' has_its_guard
check 'a policy is loaded' has_policy
check 'a service with a policy is refused' says 'MaxEvents=0' emit_as poor one
check 'another service is not' emit_as rich one
check 'all return after daemon and keeper were killed' returns_after_kill
check 'the services end' systemctl stop shop bank
check 'their events are refunded' within 60 says '"charges":0[,}]' userevctl status --json
rm -rf /etc/userevd/policy.d/50-old.conf
sum_up
