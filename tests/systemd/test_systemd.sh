#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The daemon as a service, in a guest where systemd is the first process: installed as by a package, used by other services.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh

# is_file MODE OWNER:GROUP PATH
is_file()
{
	says "^$1 $2\$" stat --format='%a %U:%G' "$3"
}

# has_capabilities UNIT UID-PATTERN MASK: has exactly those capabilities, can't get others, and is killed by forbidden system calls.
has_capabilities()
{
	local status
	status=$(grep -E '^(Uid|Cap[A-Za-z]+|NoNewPrivs|Seccomp):' "/proc/$(property "$1" MainPID)/status") || return 1
	printf '%s\n' "$status"
	grep -qE "^Uid:\\s$2\\s" <<<"$status" && [ "$(grep -cE "^Cap(Prm|Eff|Bnd):\\s$3$" <<<"$status")" = 3 ] &&
		[ "$(grep -cE '^Cap(Amb|Inh):\s0+$' <<<"$status")" = 2 ] &&
		grep -qE '^NoNewPrivs:\s1$' <<<"$status" && grep -qE '^Seccomp:\s2$' <<<"$status" &&
		says '^(kill|2147483646)?$' property "$1" SystemCallErrorNumber
}

# sees_no_tracefs UNIT: no path leads to tracefs.
sees_no_tracefs()
{
	! nsenter --target="$(property "$1" MainPID)" --mount test -e /sys/kernel/tracing/user_events_data
}

# After ten seconds instead of thirty.
watchdog_replaces_hanging_daemon()
{
	mkdir -p /run/systemd/system/userevd.service.d
	printf '[Service]\nWatchdogSec=10s\nTimeoutAbortSec=2s\n' >/run/systemd/system/userevd.service.d/hurry.conf
	systemctl daemon-reload && systemctl restart userevd && within 120 userevctl status &&
		is_replaced userevd kill_of userevd STOP && says 'Watchdog timeout' journal
}

# The running keeper keeps its own time.
shorten_hold()
{
	mkdir -p /run/systemd/system/userevd-keeper.service.d
	printf '[Service]\nExecStart=\nExecStart=/usr/lib/userevd/userevd-keeper --hold=1\n' \
		>/run/systemd/system/userevd-keeper.service.d/hold.conf
	systemctl daemon-reload && systemctl restart userevd-keeper
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

# The file stands where tracefs is on the host; the service sees nothing else of that.
start_native()
{
	systemd-run --quiet --unit="$1" --property=DynamicUser=yes --property=CapabilityBoundingSet= --property=NoNewPrivileges=yes \
		--property=BindPaths=/run/userevd/native:/sys/kernel/tracing /usr/bin/native_speaker native_event
}

# refuses_native UNIT LINE
refuses_native()
{
	start_native "$1" && within 120 says "^$2\$" journalctl --quiet --boot --output=cat --unit="$1" && systemctl reset-failed "$1"
}

cannot_open_tracefs()
{
	! setpriv --reuid=65534 --regid=65534 --clear-groups sh -c ': >/sys/kernel/tracing/user_events_data' &&
		! setpriv --reuid=65534 --regid=65534 --clear-groups unshare --user --map-root-user sh -c ': >/sys/kernel/tracing/user_events_data'
}

journal()
{
	journalctl --quiet --no-pager --boot --output=cat --unit=userevd "$@"
}

# The only refusal, with the fields that scripts read.
refusal_has_its_fields()
{
	journal --output=json MESSAGE_ID=4f0d1f1c1e7c4c2f9b6a3d5e8a7720b1 | tee /dev/stderr | python3 -c '
import json, sys
entry, = [json.loads(line) for line in sys.stdin]
assert entry["USEREVD_TENANT"] == "/system.slice/bad.service", entry
assert entry["USEREVD_REASON"] and entry["MESSAGE"] and entry["_SYSTEMD_UNIT"] == "userevd.service", entry'
}

# Before systemd 253 `systemctl reload` can't learn the result.
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

# Does not wait for it, since that requires D-Bus.
start_impostor()
{
	reload_with '[/system.slice/bad.service]' 'AllowMultiFormat=no'
	systemd-run --quiet --unit=bad "$(command -v userevctl)" emit 'shop_request u8 other' other=1
}

starts_with_error()
{
	mkdir -p /etc/userevd/policy.d
	echo MaxEvents=7 >/etc/userevd/policy.d/50-test.conf
	systemctl start userevd
}

failed_for_its_policy()
{
	! starts_with_error &&
		says '^exit-code$' property userevd Result && says '^78$' property userevd ExecMainStatus
}

count_starts()
{
	journal | grep -c 'the daemon does not start with an error in the policy'
}

# Under constant requests. The first counted start may have begun earlier.
starts_are_rare()
{
	local begun=$SECONDS before starts=0
	before=$(count_starts)
	while [ $((SECONDS - begun)) -lt 12 ] || { [ "$starts" = 0 ] && [ $((SECONDS - begun)) -lt 120 ]; }; do
		timeout 2 userevctl status
		starts=$(($(count_starts) - before))
	done
	echo "$starts times in $((SECONDS - begun)) s"
	[ "$starts" -gt 0 ] && [ "$starts" -le $(((SECONDS - begun) / 5 + 1)) ]
}

stopped_cleanly()
{
	systemctl stop userevd
	[ "$(property userevd ActiveState)" = inactive ] && [ "$(property userevd Result)" = success ] &&
		[ "$(property userevd ExecMainStatus)" = 0 ]
}

client_returns()
{
	kill_all "$@" && within 120 is_a_tenant early
}

clients_return()
{
	kill_all userevd userevd-keeper && within 120 is_a_tenant shop && traces_again
}

returns_after_restart()
{
	systemctl restart shop && within 120 is_a_tenant shop && within 120 says '^shop_request\s' userevctl events
}

check 'userevd is installed' install_it
install "$B/examples/requests" /usr/bin/shop-requests
check 'the user userevd exists and cannot log in' says ':/usr/sbin/nologin$' getent passwd userevd
check 'the units load without errors' \
	says_nothing systemctl show --property=LoadError --value userevd.service userevd-keeper.service "${sockets[@]}"
check 'the exposure of the daemon is at most 0.5' systemd-analyze security --no-pager --threshold=5 userevd.service
check 'the exposure of the keeper is at most 0.8' systemd-analyze security --no-pager --threshold=8 userevd-keeper.service

# --- without a keeper ---
systemctl mask --quiet --runtime userevd-keeper.socket
check 'the sockets start' systemctl start userevd.socket userevd-control.socket
check 'the client socket is open to all' is_file 666 root:root /run/userevd.sock
check 'the client socket of containers is open to all' is_file 666 root:root /run/userevd/client/userevd.sock
check 'the control socket is open to a group' is_file 660 root:userevd /run/userevd/control.sock
check 'the daemon is not running' says '^inactive$' systemctl is-active userevd
check 'a request starts the daemon' userevctl status
check 'the daemon uses the embedded backend' has_backend embedded none
check 'the daemon has no privilege' has_capabilities userevd "$(id -u userevd)" 0+
check 'a program starts' start_client early
check 'the program becomes a tenant' within 120 is_a_tenant early
check 'the pages are mounted read-only' says ' /run/userevd/control.sock.pages.read-only ro,' cat "/proc/$(property userevd MainPID)/mountinfo"
check 'the program reconnects after the daemon was killed' client_returns userevd
systemctl stop early
# The first line of the answer, and its text.
metrics_by_http()
{
	exec 5<>/dev/tcp/127.0.0.1/9568 && printf 'GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n' >&5 && cat <&5 && exec 5>&-
}
check 'nothing serves metrics by HTTP until an admin enables it' says '^disabled$' systemctl is-enabled userevd-metrics.socket
check '… nor listens' eval '! metrics_by_http'
check 'the admin enables it' systemctl enable --now userevd-metrics.socket
check '… and has the metrics' within 60 says '^HTTP/1.1 200 OK' metrics_by_http
check '… of all sections' says '^userevd_section_tenants[{]section="' metrics_by_http
check '… from a process without privilege' says '^yes$' systemctl show --value --property=DynamicUser userevd-metrics@any.service
check '… and disables it' systemctl disable --now userevd-metrics.socket
check 'the daemon stops' stopped_cleanly
systemctl unmask --quiet --runtime userevd-keeper.socket

# --- with a keeper ---
check 'the socket of the keeper starts' systemctl start userevd-keeper.socket
check 'the socket of the keeper is open to the daemon' is_file 600 userevd:userevd /run/userevd-keeper/keeper.sock
check 'neither daemon nor keeper is running' says_nothing grep -v '^inactive$' <(systemctl is-active userevd userevd-keeper)
check 'a program starts without a daemon' start_client shop
check 'the request of the program starts the daemon' within 120 systemctl is-active userevd
check 'the request of the daemon starts the keeper' systemctl is-active userevd-keeper
check 'the kernel has user_events, and the guard is in force' within 120 has_backend enable-address on
check 'the daemon has no privilege' has_capabilities userevd "$(id -u userevd)" 0+
check 'the daemon sees no tracefs' sees_no_tracefs userevd
check 'the keeper is root with CAP_SYS_RESOURCE alone' has_capabilities userevd-keeper 0 0000000001000000
check 'the keeper sees no tracefs' sees_no_tracefs userevd-keeper
check 'the guard identifies the keeper by its cgroup' says 'cgroup' /usr/lib/userevd/userevd-guard --status
# A program waits for two seconds, which a slow guest may exceed.
systemctl restart shop
check 'the program becomes the tenant of its cgroup' within 120 is_a_tenant shop
check 'the event exists' within 120 says '^shop_request\s' userevctl events
check 'the event can be enabled' userevctl enable shop_request
check 'the records arrive' says 'shop_request.*status=200.*path="/' timeout 120 userevctl tail --count=4 shop_request
check 'a second service starts' start_client bank
check 'the second service becomes another tenant' within 120 is_a_tenant bank
check 'systemctl status shows the number of tenants' \
	within 120 says '^2 tenants, [1-9][0-9]* of [0-9]+ events$' systemctl show --property=StatusText --value userevd
check 'a third service requests the event with other fields' start_impostor
check 'the refusal is in the journal with its fields' within 120 refusal_has_its_fields
check 'systemctl status shows the daemon as running' says 'Active: active \(running\)' systemctl status --no-pager userevd
check 'the doctor finds no fault' userevctl doctor

# --- reload ---
check 'the daemon reloads its policy' reload_with '[/system.slice/shop.service]' 'MaxEvents=77'
check 'the new policy is in force' within 120 says '^shop.*\s77\s' userevctl tenants
check 'a policy with an error is not used' reload_with_error
check 'the daemon is still active' says '^active$' systemctl is-active userevd

# --- restarts and crashes ---
check 'a restarted daemon answers' is_replaced userevd systemctl restart userevd
check 'the programs run on' are_active shop bank
check 'a restarted program is the same tenant' returns_after_restart
check 'the guard is in force' within 120 has_backend enable-address on
check 'a killed daemon is replaced' is_replaced userevd kill_of userevd KILL
check 'a restarted keeper is replaced' is_replaced userevd-keeper systemctl restart userevd-keeper
check 'a killed keeper is replaced' is_replaced userevd-keeper kill_of userevd-keeper KILL
check 'the new keeper has its guard' within 120 has_backend enable-address on
check 'the event is disabled' userevctl disable shop_request
check 'a program reconnects after daemon and keeper were killed' clients_return
check 'another program reconnects, too' within 120 is_a_tenant bank
check 'a program with an enabled event reconnects' clients_return
check 'the watchdog replaces a hanging daemon' watchdog_replaces_hanging_daemon
check 'a restarted program is a tenant again' returns_after_restart
check 'the records of the restarted program arrive' traces_again
check 'the journal has the message of the start' says 'listening on /run/userevd.sock' journal
check 'no system call was refused' \
	says_nothing journalctl --quiet --no-pager --boot --grep='SIGSYS|status=31|signal=SYS' --unit=userevd --unit=userevd-keeper

# --- a program that knows user_events, and nothing of us ---
install "$B/tests/native_speaker" /usr/bin/
check 'the policy allows native events' reload_with '[/system.slice/native*.service]' Native=yes
check 'the daemon says that the keeper has to be restarted' within 120 says 'the keeper was started without them' journal
check 'the keeper restarts' is_replaced userevd-keeper systemctl restart userevd-keeper
check 'the daemon offers native events' within 120 says 'can register by themselves' journal
check 'a program without privilege starts' start_native native
check 'its event is registered' within 120 says '^native_event: registered' journalctl --quiet --boot --output=cat --unit=native
check 'its event has a tenant and a program' within 120 says '^native_event\s.*native_speaker.*/system.slice/native.service' userevctl events
check 'its event can be enabled' userevctl enable native_event
check 'its records arrive, with the tenant' says 'native.service.*native_event.*number=[0-9]' timeout 120 userevctl tail --count=3 native_event
check 'another service may not register' refuses_native other 'native_event: error 1'
check 'other users cannot open the file of tracefs itself' cannot_open_tracefs
check 'it survives that daemon and keeper are killed' kill_all userevd userevd-keeper
check 'its event is listed again' within 120 says '^native_event\s.*native_speaker.*/system.slice/native.service' userevctl events
check 'its records still arrive' says 'native_event.*number=[0-9]' timeout 120 userevctl tail --count=3 native_event
check 'the doctor finds no fault' userevctl doctor
userevctl disable native_event
systemctl stop native
check 'nothing of it is charged' within 120 says '"native_events":0' userevctl status --json
rm -r /etc/userevd
check 'no system call of these was refused' \
	says_nothing journalctl --quiet --no-pager --boot --grep='SIGSYS|status=31|signal=SYS' --unit=userevd --unit=userevd-keeper

# --- start with an error in the policy ---
systemctl stop shop bank # their requests would start the daemon
check 'the keeper restarts with a shorter --hold' shorten_hold
check 'the daemon continues with the new keeper' within 120 has_backend enable-address on
check 'the daemon stops' stopped_cleanly
check 'the keeper stops soon after it' within 120 says '^inactive$' systemctl is-active userevd-keeper
check 'a request starts both again' userevctl status
check 'the daemon stops again' stopped_cleanly
check 'the keeper stops again' within 120 says '^inactive$' systemctl is-active userevd-keeper
check 'with an error in the policy the daemon uses the last valid one' starts_with_error
check '… and the keeper starts, too' has_backend enable-address on
check 'systemctl status reports the older policy' says 'an older policy is in force$' property userevd StatusText
check 'the doctor reports the line with the error' says '50-test.conf:1: MaxEvents: stands in no section' userevctl doctor
check 'the daemon stops with the older policy' stopped_cleanly
rm /var/lib/userevd/policy
check 'without a valid policy the daemon does not start' failed_for_its_policy
check 'the doctor reports that no daemon answers' says '^\[fail\] daemon: the connection is accepted, but no daemon answers' userevctl doctor
check 'the doctor reports the line with the error again' says '50-test.conf:1: MaxEvents: stands in no section' userevctl doctor
check 'repeated requests start the daemon rarely' starts_are_rare
check 'the sockets stay active' are_active "${sockets[@]}"
rm -r /etc/userevd
check 'without the error a request starts the daemon' within 120 userevctl status

# --- the end ---
check 'programs start' eval 'start_client shop && start_client bank'
check 'the programs are tenants' within 120 is_a_tenant bank
check 'sockets, daemon and keeper stop' systemctl stop "${sockets[@]}" userevd userevd-keeper
check 'the doctor names the command that starts the sockets' says "sockets are stopped: 'systemctl start userevd.socket" userevctl doctor
check 'no socket is left' says_nothing find /run/userevd.sock /run/userevd /run/userevd-keeper -type s
check 'the programs still run' are_active shop bank
systemctl stop shop bank
check 'make uninstall succeeds' uninstall_it
check 'no file is left' says_nothing find /usr/lib/{systemd,sysusers.d,tmpfiles.d,userevd} /usr/bin /usr/sbin /etc/systemd \
	! -type d -name '*userev*'
check 'a purge of the package succeeds where containers could register' eval 'mountpoint /run/userevd/native/user_events_data && sh systemd/debian/userevd.postrm purge'
check 'nothing of it is left, and the kernel has its file back' eval '[ ! -e /run/userevd ] && [ "$(stat -c %a /sys/kernel/tracing/user_events_data)" = 640 ]'
check 'only the unit bad.service has failed' says_nothing failed_units
sum_up
