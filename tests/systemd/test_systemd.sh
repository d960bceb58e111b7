#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The daemon as a service, in a guest where systemd is the first process: installed as a package would be, used by other services.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh

no_load_error()
{
	says_nothing systemctl show --property=LoadError --value userevd.service userevd-keeper.service "${sockets[@]}"
}

# is_file MODE OWNER:GROUP PATH
is_file()
{
	says "^$1 $2\$" stat --format='%a %U:%G' "$3"
}

status_of()
{
	cat "/proc/$(property "$1" MainPID)/status"
}

# has_capabilities UNIT UID-PATTERN MASK: those capabilities, no way to get others, and a call that the unit forbids is the end.
has_capabilities()
{
	local status
	status=$(status_of "$1" | grep -E '^(Uid|Cap[A-Za-z]+|NoNewPrivs|Seccomp):') || return 1
	printf '%s\n' "$status"
	grep -qE "^Uid:\\s$2\\s" <<<"$status" && [ "$(grep -cE "^Cap(Prm|Eff|Bnd):\\s$3$" <<<"$status")" = 3 ] &&
		[ "$(grep -cE '^Cap(Amb|Inh):\s0+$' <<<"$status")" = 2 ] &&
		grep -qE '^NoNewPrivs:\s1$' <<<"$status" && grep -qE '^Seccomp:\s2$' <<<"$status" &&
		says '^(kill|2147483646)?$' property "$1" SystemCallErrorNumber
}

# sees_no_tracefs UNIT: whatever it may, it finds none by a path.
sees_no_tracefs()
{
	! nsenter --target="$(property "$1" MainPID)" --mount test -e /sys/kernel/tracing/user_events_data
}

# Ten seconds instead of thirty.
hurry_watchdog()
{
	mkdir -p /run/systemd/system/userevd.service.d
	printf '[Service]\nWatchdogSec=10s\nTimeoutAbortSec=2s\n' >/run/systemd/system/userevd.service.d/hurry.conf
	systemctl daemon-reload && systemctl restart userevd && within 120 userevctl status
}

# The keeper that is there knows nothing of it.
shorten_hold()
{
	mkdir -p /run/systemd/system/userevd-keeper.service.d
	printf '[Service]\nExecStart=\nExecStart=/usr/lib/userevd/userevd-keeper --hold=1\n' \
		>/run/systemd/system/userevd-keeper.service.d/hold.conf
	systemctl daemon-reload && systemctl restart userevd-keeper
}

was_watchdog()
{
	says 'Watchdog timeout' journal
}

failed_units()
{
	systemctl --failed --no-legend --no-pager --plain | grep -v '^bad.service '
}

start_client()
{
	systemd-run --quiet --unit="$1" --property=DynamicUser=yes --property=CapabilityBoundingSet= \
		"$(command -v shop-requests)" "$1" 600
}

is_a_tenant()
{
	says "^$1.service\s/system.slice/$1.service\s" userevctl tenants
}

journal()
{
	journalctl --quiet --no-pager --boot --output=cat --unit=userevd "$@"
}

# The fields of a refusal, of which there is one, as a script would read them.
refusal_has_its_fields()
{
	journal --output=json MESSAGE_ID=4f0d1f1c1e7c4c2f9b6a3d5e8a7720b1 | tee /dev/stderr | python3 -c '
import json, sys
entry, = [json.loads(line) for line in sys.stdin]
assert entry["USEREVD_TENANT"] == "/system.slice/bad.service", entry
assert entry["USEREVD_REASON"] and entry["MESSAGE"] and entry["_SYSTEMD_UNIT"] == "userevd.service", entry'
}

# Where systemd tells the daemon by a signal it can't learn what came of it.
reload_with_error()
{
	local failed=no
	reload_with '[/system.slice/shop.service]' 'MaxEvents=many' || failed=yes
	rm -r /etc/userevd
	{ [ $failed = yes ] || [ "$(property userevd Type)" = notify-reload ]; } && says '^shop.*\s77\s' userevctl tenants
}

traces_again()
{
	userevctl enable shop_request && says 'shop_request.*status=200' timeout 120 userevctl tail --count=2 shop_request
}

# As the daemon sees it.
is_mounted_read_only()
{
	says ' /run/userevd/control.sock.pages.read-only ro,' cat "/proc/$(property "$1" MainPID)/mountinfo"
}

# kill_all UNIT…: all processes of their cgroups, and there are others.
kill_all()
{
	local unit before=()
	for unit; do before+=("$(property "$unit" MainPID)"); done
	systemctl kill --signal=KILL "$@" || return 1
	for unit; do
		within 120 is_another "$unit" "${before[0]}" || return 1
		before=("${before[@]:1}")
	done
}

killed_by_seccomp()
{
	journalctl --quiet --no-pager --boot --grep='SIGSYS|status=31|signal=SYS' --unit=userevd --unit=userevd-keeper
}

# Without waiting for it: that takes a D-Bus, which a small machine does not have.
start_impostor()
{
	reload_with '[/system.slice/bad.service]' 'AllowMultiFormat=no'
	systemd-run --quiet --unit=bad "$(command -v userevctl)" emit 'shop_request u8 other' other=1
}

reload_with()
{
	mkdir -p /etc/userevd/policy.d
	printf '%s\n' "$@" >/etc/userevd/policy.d/50-test.conf
	systemctl reload userevd
}

starts_with_error()
{
	mkdir -p /etc/userevd/policy.d
	echo MaxEvents=7 >/etc/userevd/policy.d/50-test.conf
	systemctl start userevd
}

failed_for_its_policy()
{
	says '^exit-code$' property userevd Result && says '^78$' property userevd ExecMainStatus
}

count_tries()
{
	journal | grep -c 'the daemon does not start with an error in the policy'
}

# While somebody asks all the time; the first that is counted may be one that has begun before.
tries_are_rare()
{
	local begun=$SECONDS before tries=0
	before=$(count_tries)
	while [ $((SECONDS - begun)) -lt 12 ] || { [ "$tries" = 0 ] && [ $((SECONDS - begun)) -lt 120 ]; }; do
		timeout 2 userevctl status
		tries=$(($(count_tries) - before))
	done
	echo "$tries times in $((SECONDS - begun)) s"
	[ "$tries" -gt 0 ] && [ "$tries" -le $(((SECONDS - begun) / 5 + 1)) ]
}

sockets_are_there()
{
	says_nothing grep -v '^active$' <(systemctl is-active "${sockets[@]}")
}

stopped_cleanly()
{
	systemctl stop userevd
	[ "$(property userevd ActiveState)" = inactive ] && [ "$(property userevd Result)" = success ] &&
		[ "$(property userevd ExecMainStatus)" = 0 ]
}

check 'it is installed' install_it
install "$B/examples/requests" /usr/bin/shop-requests
check 'its user exists' getent passwd userevd
check '… who can not log in' says ':/usr/sbin/nologin$' getent passwd userevd
check 'the units have nothing to complain of' no_load_error
check 'the daemon is exposed to 0.5 at most' systemd-analyze security --no-pager --threshold=5 userevd.service
check 'the keeper to 0.8' systemd-analyze security --no-pager --threshold=8 userevd-keeper.service

systemctl mask --quiet --runtime userevd-keeper.socket
check 'its sockets are there' systemctl start userevd.socket userevd-control.socket
check '… for all programs' is_file 666 root:root /run/userevd.sock
check '… and where a container mounts them' is_file 666 root:root /run/userevd/client/userevd.sock
check '… for admins' is_file 660 root:userevd /run/userevd/control.sock
check 'and no daemon' says '^inactive$' systemctl is-active userevd
check 'who asks starts it' userevctl status
check '… without a keeper with the embedded backend' has_backend embedded none
check '… and without any privilege' has_capabilities userevd "$(id -u userevd)" 0+
check '… a program' start_client early
check '… is a tenant' within 120 is_a_tenant early
check '… whose page nobody can write, though there is no privilege' is_mounted_read_only userevd
check '… the daemon is killed' kill_all userevd
check '… and the program, whose event is off, comes back by itself' within 120 is_a_tenant early
check '… and ends' systemctl stop early
check 'it stops, with success' stopped_cleanly
systemctl unmask --quiet --runtime userevd-keeper.socket

check 'the keeper has a socket, too' systemctl start userevd-keeper.socket
check '… for the daemon' is_file 600 userevd:userevd /run/userevd-keeper/keeper.sock
check 'neither of them runs' says '^inactive$' systemctl is-active userevd userevd-keeper
check 'a service of another user starts, and needs no daemon for that' start_client shop
check 'its question starts the daemon' within 120 systemctl is-active userevd
check '… and that the keeper' systemctl is-active userevd-keeper
check 'the kernel has its events, and the guard holds' within 120 has_backend enable-address on
check 'the daemon has no privilege' has_capabilities userevd "$(id -u userevd)" 0+
check '… and sees no tracefs' sees_no_tracefs userevd
check 'the keeper is root, with CAP_SYS_RESOURCE alone' has_capabilities userevd-keeper 0 0000000001000000
check '… and sees none either' sees_no_tracefs userevd-keeper
check 'the guard knows it by its cgroup' says 'cgroup' /usr/lib/userevd/userevd-guard --status
# A program asks for two seconds, and a guest is slow: what starts all of this may have given up meanwhile.
systemctl restart shop
check 'the program becomes a tenant by its cgroup' within 120 is_a_tenant shop
check 'its event is there' within 120 says '^shop_request\s' userevctl events
check 'it can be switched on' userevctl enable shop_request
check 'its records come' says 'shop_request.*status=200.*path="/' timeout 120 userevctl tail --count=4 shop_request
check 'another service is another tenant' start_client bank
check '… of which there are two now' within 120 is_a_tenant bank
check 'systemctl status says how many' within 120 says '^2 tenants, [1-9][0-9]* of [0-9]+ events$' systemctl show --property=StatusText --value userevd
check 'a third wants the same event with other fields, and may have no format of its own' start_impostor
check 'its refusal is in the journal, with its fields' within 120 refusal_has_its_fields
check 'its status is clean' says 'Active: active \(running\)' systemctl status --no-pager userevd
check 'the doctor finds nothing' userevctl doctor

check 'it reloads' reload_with '[/system.slice/shop.service]' 'MaxEvents=77'
check '… and serves again' says '^active$' systemctl is-active userevd
check '… by the new policy' within 120 says '^shop.*\s77\s' userevctl tenants
check 'with an error the old one stays' reload_with_error
check '… and it goes on' says '^active$' systemctl is-active userevd

check 'the daemon restarts' survives_that userevd systemctl restart userevd
check 'the clients did not notice' systemctl is-active shop bank
check 'one that is started again' systemctl restart shop
check '… is the tenant that it was' within 120 is_a_tenant shop
check '… with its event' within 120 says '^shop_request\s' userevctl events
check '… guarded' within 120 has_backend enable-address on
check 'a daemon that is killed is replaced' survives_that userevd kill_of userevd KILL
check 'the keeper restarts' survives_that userevd-keeper systemctl restart userevd-keeper
check 'a keeper that is killed is replaced' survives_that userevd-keeper kill_of userevd-keeper KILL
check '… with its guard' within 120 has_backend enable-address on
check 'nobody traces' userevctl disable shop_request
check 'both are killed at once' kill_all userevd userevd-keeper
check '… and programs whose events are off come back by themselves' within 120 is_a_tenant shop
check '… all of them' within 120 is_a_tenant bank
check '… and their records come' traces_again
check 'both are killed under a program whose event is on' kill_all userevd userevd-keeper
check '… and it comes back' within 120 is_a_tenant shop
check '… with its records' traces_again
check 'its watchdog is impatient now' hurry_watchdog
check 'a daemon that hangs is replaced' survives_that userevd kill_of userevd STOP
check '… by its watchdog' was_watchdog
check 'a program that is started again' systemctl restart shop
check '… is there again' within 120 is_a_tenant shop
check '… and its records come' traces_again

check 'the journal has what it said' says 'listening on /run/userevd.sock' journal
check 'nobody called what it may not' says_nothing killed_by_seccomp
check 'the programs end: they would start the daemon again' systemctl stop shop bank
check 'the keeper is to wait no more for the next daemon' shorten_hold
check '… which the daemon did not notice' within 120 has_backend enable-address on
check 'it stops, with success' stopped_cleanly
check '… and the keeper with it' within 120 says '^inactive$' systemctl is-active userevd-keeper
check '… and who asks starts it again' userevctl status
check '… and it stops again' stopped_cleanly
check 'with an error in the policy it goes on with the last good one' starts_with_error
check '… which its status says' says 'an older policy is in force$' property userevd StatusText
check '… and the doctor, with the line' says '50-test.conf:1: MaxEvents: stands in no section' userevctl doctor
check '… and it stops again' stopped_cleanly
rm /var/lib/userevd/policy
check 'without that one it does not start' fails starts_with_error
check '… and says so' failed_for_its_policy
check '… as does the doctor' says '^\[fail\] daemon: systemd accepts the connection, but there is no daemon' userevctl doctor
check '… with the line' says '50-test.conf:1: MaxEvents: stands in no section' userevctl doctor
check '… nor when somebody asks, again and again' tries_are_rare
check '… who still finds the sockets' sockets_are_there
rm -r /etc/userevd
check 'without the error who asks starts it' within 120 userevctl status
check 'programs start' start_client shop
check '… another one, too' start_client bank
check '… and are tenants' within 120 is_a_tenant bank
check 'all is stopped' systemctl stop "${sockets[@]}" userevd userevd-keeper
check 'the doctor says which command starts it' says "sockets are stopped: 'systemctl start userevd.socket" userevctl doctor
check 'no socket is left behind' says_nothing find /run/userevd.sock /run/userevd /run/userevd-keeper -type s
check 'the clients live on' systemctl is-active shop bank
check 'they end: they would find the next daemon' systemctl stop shop bank
check 'it is uninstalled' uninstall_it
check '… wholly' says_nothing find /usr/lib/{systemd,sysusers.d,tmpfiles.d,userevd} /usr/bin /usr/sbin /etc/systemd \
	! -type d -name '*userev*'
check 'no unit has failed but the one that had to' says_nothing failed_units
sum_up
