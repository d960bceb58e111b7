#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The daemon as a service, in a guest where systemd is the first process: installed as a package would be, used by other services.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
[ -d /run/guest ] && [ -d /run/systemd/system ] || { echo 'this installs into /usr: it is for a guest with systemd'; exit 1; }
unset LD_LIBRARY_PATH USEREV_SOCKET USEREV_CONTROL_SOCKET

install_it()
{
	make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR=/ PREFIX=/usr install && systemctl daemon-reload
}

property()
{
	systemctl show --property="$2" --value "$1"
}

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

says_nothing()
{
	local output
	output=$("$@" 2>/dev/null)
	printf '%s\n' "$output"
	[ -z "$output" ]
}

has_no_privilege()
{
	local status
	status=$(cat "/proc/$(property userevd MainPID)/status") || return 1
	grep -E '^(Uid|Cap|NoNewPrivs)' <<<"$status"
	! grep -qE '^Uid:.*\s0(\s|$)' <<<"$status" && [ "$(grep -cE '^Cap(Prm|Eff|Bnd|Amb):\s0+$' <<<"$status")" = 4 ] &&
		grep -qE '^NoNewPrivs:\s1$' <<<"$status"
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
	says "^/system.slice/$1.service\s" userevctl tenants
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

# Without waiting for it: that takes a D-Bus, which a small machine does not have.
start_impostor()
{
	systemd-run --quiet --unit=bad "$(command -v userevctl)" emit 'shop_request u8 other' other=1
}

restarted()
{
	local before
	before=$(property userevd MainPID)
	systemctl restart userevd && [ "$(property userevd MainPID)" != "$before" ]
}

stopped_cleanly()
{
	systemctl stop userevd
	[ "$(property userevd ActiveState)" = inactive ] && [ "$(property userevd Result)" = success ] &&
		[ "$(property userevd ExecMainStatus)" = 0 ]
}

check 'it is installed' install_it
install "$B/examples/requests" /usr/bin/shop-requests
check 'the unit has nothing to complain of' says_nothing systemctl show --property=LoadError --value userevd
check 'it starts' systemctl start userevd
check 'and is active' systemctl is-active userevd
check 'without any privilege' has_no_privilege
check 'a service of another user starts, and needs no daemon for that' start_client shop
check 'it becomes a tenant by its cgroup' within 20 is_a_tenant shop
check 'its event is there' within 20 says '^shop_request\s' userevctl events
check 'it can be switched on' userevctl enable shop_request
check 'its records come' says 'shop_request.*status=200.*path="/' timeout 60 userevctl tail --count=4 shop_request
check 'another service is another tenant' start_client bank
check '… of which there are two now' within 20 is_a_tenant bank
check 'a third wants the same event with other fields' start_impostor
check 'its refusal is in the journal, with its fields' within 20 refusal_has_its_fields
check 'its status is clean' says 'Active: active \(running\)' systemctl status --no-pager userevd
check 'it restarts' restarted
check 'the clients did not notice' systemctl is-active shop bank
check 'one that is started again' systemctl restart shop
check '… is the tenant that it was' within 20 is_a_tenant shop
check '… with its event' within 20 says '^shop_request\s' userevctl events
check 'the journal has what it said' says 'listening on /run/userevd/client/userevd.sock' journal
check 'and no error' says_nothing journal --priority=err
check 'it stops, with success' stopped_cleanly
check 'and leaves nothing behind' test ! -e /run/userevd
check 'the clients live on' systemctl is-active shop bank
check 'no unit has failed but the one that had to' says_nothing failed_units
sum_up
