#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The package is upgraded, removed and installed again while a container of each engine runs, in a guest where systemd is the first process.
# All at once, as each call of dpkg takes a guest half a minute. $ENGINES are the engines, or "all".

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
. tests/containers/pods.sh
names=(userevd libuserev1)
. tests/systemd/packages.sh
# Their containers have the same name, and each is a tenant of its own. The other rows of test_containers.sh are other options of these.
# containerd, which Docker uses, too, has its configuration from cri.
engines=(podman podman_tenants cri containerd docker nspawn lxc service)
[ "${ENGINES:-all}" = all ] || mapfile -t engines < <(printf '%s\n' "${engines[@]}" | grep -xF "${ENGINES// /$'\n'}")
[ ${#engines[@]} -gt 0 ] || { echo "0 passed, 0 failed, 1 skipped: test_upgrade.sh has no container of $ENGINES" && exit 0; }
containers=(shop)
declare -A leader tenant connection

sockets_of()
{
	readlink "/proc/$1/fd/"* | grep ^socket:
}

has_started()
{
	local pid
	pid=$("leader_$1" shop) && [ "$pid" -gt 0 ]
}

is_charged()
{
	within 60 says "\"tenant\":\"${tenant[$1]}\".*\"events\":1," userevctl tenants --json
}

# Its events are off again behind it.
is_traced()
{
	userevctl enable shop_request && timeout 60 userevctl tail --count=2 --tenant="${tenant[$1]}" shop_request && userevctl disable shop_request
}

is_running()
{
	[ "$("leader_$1" shop)" = "${leader[$1]}" ] && kill -0 "${leader[$1]}"
}

is_connected()
{
	is_running "$1" && diff <(echo "${connection[$1]}") <(sockets_of "${leader[$1]}")
}

emits()
{
	"inside_$1" shop $user userevctl emit --require 'second u32 x' x=1
}

runs_without_events()
{
	is_running "$1" && "inside_$1" shop $user userevctl emit 'second u32 x' x=1 &&
		says "'userevctl doctor' shows why" exits 3 "inside_$1" shop $user userevctl emit --require 'second u32 x' x=1
}

finds_daemon()
{
	is_running "$1" && is_charged "$1" && is_traced "$1" && ! is_connected "$1"
}

# What uses the package, as the manual says.
take_away()
{
	! systemctl is-active userevd-docker-names || systemctl disable --now userevd-docker-names
}

is_refunded()
{
	says '"charges":0[,}]' userevctl status --json
}

upgrades()
{
	local daemon keeper
	daemon=$(property userevd MainPID) keeper=$(property userevd-keeper MainPID)
	install_packages "$version+1" && is_installed "$version\\+1" && within 120 systemctl is-active userevd.service &&
		[ "$(property userevd MainPID)" != "$daemon" ] && [ "$(property userevd-keeper MainPID)" != "$keeper" ]
}

check 'packages of a later version are made' make_later
check 'the packages are installed' install_packages "$version"
check 'the files of the containers are there' prepare_containers
for one in "${engines[@]}"; do
	check "$one: the engine starts" "prepare_$one"
	check "$one: the container starts" "start_$one" shop
	check "$one: it is running" within 60 has_started "$one"
	leader[$one]=$("leader_$one" shop) tenant[$one]=$("tenant_$one" shop)
	check "$one: it has its event" is_charged "$one"
	connection[$one]=$(sockets_of "${leader[$one]}")
	check "$one: its records arrive" within 60 is_traced "$one"
done
check 'an upgrade replaces daemon and keeper' upgrades
check 'all connections were taken over' within 120 was_taken_over ${#engines[@]}
for one in "${engines[@]}"; do
	check "$one: it runs on, on the same connection" is_connected "$one"
	check "$one: it has its event, with one charge" is_charged "$one"
	check "$one: its records arrive" is_traced "$one"
	check "$one: another program in it emits" emits "$one"
done
check 'what uses it is taken away' take_away
check 'the package is removed' manage -r userevd
check 'no process of userevd is left' none_runs
for one in "${engines[@]}"; do
	check "$one: it runs on, and another program in it has no events" runs_without_events "$one"
done
check 'the package is installed again' install_packages "$version"
for one in "${engines[@]}"; do
	check "$one: it finds the daemon" within 60 finds_daemon "$one"
	check "$one: another program in it emits" emits "$one"
	check "$one: the container is killed" "kill_$one" shop
done
check 'all events are refunded' within 60 is_refunded
sum_up
