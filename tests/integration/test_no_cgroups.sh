#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A host without any hierarchy of cgroups, as with version 1 without systemd: in the guest 6.12+bare. Nothing tells tenants apart, so
# programs are refused, and read what an admin has to do.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh

has_no_cgroups()
{
	! grep -q ' - cgroup' /proc/self/mountinfo && says_nothing grep -E '^0:|name=systemd' /proc/self/cgroup
}

emit()
{
	"$ctl" emit --require 'lonely u32 n' n=1
}

check 'this host has no cgroups' has_no_cgroups
start_daemon --backend=embedded
check 'a program is refused' exits 1 emit
check 'it reads what to do' says 'neither cgroup2 nor systemd.s own hierarchy is there; ask the admin to mount cgroup2' emit
check 'the admin sees no tenant' says 'No program is connected' "$ctl" tenants
end $daemon
mount -t cgroup2 none /sys/fs/cgroup
start_daemon --backend=embedded
check 'with cgroup2, after a restart, it is served' emit
sum_up
