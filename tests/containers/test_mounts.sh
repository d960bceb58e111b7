#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Containers whose mount is missing, writable, or another daemon's, and containers that are made again under the same path: what a program, doctor
# and an admin see. In a guest where systemd is the first process.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
directory=/run/userevd/client
other=/run/other
cgroup=/test.slice/same

# in_container OPTION… -- COMMAND…
in_container()
{
	local options=()
	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	podman run --rm --network=none "${options[@]}" program "${@:2}"
}

start_neighbour()
{
	podman run --detach --name=bank --network=none -v $directory:$directory:ro --user=$user program shop-requests bank 600 && within 60 is_traced
}

is_traced()
{
	userevctl enable bank_request && timeout 60 userevctl tail --count=1 bank_request && userevctl disable bank_request
}

# Events of a program in the container, and then doctor.
works_in()
{
	in_container "$@" -- userevctl emit --require 'mounted u32 x' x=1 && in_container "$@" -- userevctl doctor
}

starts_without_events()
{
	in_container -- userevctl emit 'missing u32 x' x=1 && says "'userevctl doctor' shows why" exits 3 in_container -- userevctl emit --require 'missing u32 x' x=1
}

# --- the mount ---

missing_is_explained()
{
	says 'In a container, start it on its host, and mount its directory, not the socket itself' exits 1 in_container -- userevctl doctor
}

# With a user namespace root in the container is no root here.
is_kept_from_mapped_root()
{
	says 'Permission denied' in_container -v $directory:$directory --uidmap=0:200000:65536 --gidmap=0:200000:65536 -- \
		rm -f $directory/userevd.sock && test -S $directory/userevd.sock
}

is_removed_by_root()
{
	in_container -v $directory:$directory -- rm $directory/userevd.sock && ! test -e $directory/userevd.sock && is_traced
}

removal_is_explained()
{
	says "somebody has removed $directory/userevd.sock" exits 1 userevctl doctor
}

# Programs that run stay connected.
returns_by_restart()
{
	systemctl restart userevd.socket && works_in -v $directory:$directory:ro && within 60 is_traced
}

# --- another daemon's ---

start_other()
{
	mkdir -p $other && systemd-run --quiet --unit=other --collect userevd --foreground --backend=embedded --socket=$other/userevd.sock \
		--control-socket=$other/control.sock --state-directory= && within 60 userevctl --control-socket=$other/control.sock status
}

works_with_other()
{
	works_in -v $other:$directory:ro
}

# Its events are that daemon's: no others know them.
is_of_other()
{
	podman run --detach --name=stray --network=none -v $other:$directory:ro --user=$user program shop-requests stray 600 &&
		within 60 says stray_request userevctl --control-socket=$other/control.sock events && says_not stray userevctl events
}

# Of a program that speaks something else.
is_no_userevd()
{
	says 'belongs to another program' exits 1 in_container -v /run/systemd/journal:/run/journal:ro -- userevctl --socket=/run/journal/stdout doctor
}

# --- the same path again ---

# hold EVENT: a program in the cgroup, made for it, holds one event.
hold()
{
	mkdir -p $cgroups$cgroup
	(echo 0 >$cgroups$cgroup/cgroup.procs && exec setpriv --reuid=$user --clear-groups shop-requests "$1" 600) >/dev/null 2>&1 &
	holder=$!
}

# The cgroup goes, too.
end_holder()
{
	kill -KILL $holder && within 20 rmdir $cgroups$cgroup
}

is_tenant_named()
{
	within 20 says "\"name\":\"$1\".*\"tenant\":\"$cgroup\".*\"events\":1," userevctl tenants --json
}

is_another_tenant()
{
	hold first && userevctl name --engine=test $cgroup shop && is_tenant_named shop && end_holder &&
		hold second && is_tenant_named same && userevctl name --engine=test $cgroup bank && is_tenant_named bank &&
		end_holder
}

check 'daemon and files are there' prepare_files
has_guard || check 'without the guard the policy allows files' allow_without_guard
check 'podman has the image' prepare_podman
check 'a neighbour is traced' start_neighbour
check 'without the mount programs run without events' starts_without_events
check 'doctor names the missing mount' missing_is_explained
check 'with a writable mount all works' works_in -v $directory:$directory
check 'mapped root cannot remove the socket of a writable mount' is_kept_from_mapped_root
check 'root of the host can, and the neighbour continues' is_removed_by_root
check 'doctor on the host says how it returns' removal_is_explained
check 'a restart of the socket brings it back' returns_by_restart
check 'there is another daemon' start_other
check 'programs with its directory work' works_with_other
check 'its events are in no list of ours' is_of_other
check "another program's socket is named" is_no_userevd
check 'a cgroup that is made again has no name and no charge of before' is_another_tenant
systemctl stop other
podman rm --force --time=0 bank stray >/dev/null
sum_up
