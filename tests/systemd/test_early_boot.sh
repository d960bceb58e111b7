#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A boot with everything installed (early_boot.sh): the sockets are there before ordinary services, and programs that ask before
# there is a daemon get what they ask for.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh

# before UNIT MOMENT UNIT MOMENT: in this boot the first was before the second; a moment is a property such as ActiveEnter.
before()
{
	local first second
	first=$(property "$1" "$2TimestampMonotonic") second=$(property "$3" "$4TimestampMonotonic")
	echo "$1: $first µs, $3: $second µs"
	[ "$first" -gt 0 ] && [ "$first" -lt "$second" ]
}

sockets_are_early()
{
	local unit
	for unit in "${sockets[@]}"; do
		before "$unit" ActiveEnter sysinit.target ActiveEnter || return 1
	done
}

was_answered()
{
	says '^success$' property early-asks Result && before early-asks ExecMainStart early-asks ExecMainExit
}

user_is_new()
{
	says '^success$' property systemd-sysusers Result && getent passwd userevd &&
		before systemd-sysusers ExecMainExit userevd-keeper.socket ActiveEnter
}

# The services first, so that the sockets' are found.
verify_units()
{
	systemd-analyze verify --man=no userevd.service userevd-keeper.service "${sockets[@]}" 2>&1 | grep -i userevd
}

cycles()
{
	journalctl --quiet --no-pager --boot --output=cat --grep='ordering cycle|to break'
}

check 'the sockets are there before ordinary services' sockets_are_early
check 'the user is made before what belongs to it' user_is_new
check 'a program asks while there is no daemon' before early-asks ExecMainStart userevd ExecMainStart
check '… and is answered' was_answered
check '… before the boot goes on' before userevd ActiveEnter sysinit.target ActiveEnter
check 'the daemon was started by that, and not by the boot' says '^disabled$' systemctl is-enabled userevd
check 'the kernel has the events, and the guard holds' has_backend enable-address on
check 'what the policy declares is there without any program' says '^boot_step\s' userevctl events
check '… and can be switched on' userevctl enable boot_step
check 'another has written since then, which nobody reads' systemctl is-active early-writes
check '… its event is there' within 120 says '^load_0\s' userevctl events
check '… is switched on' userevctl enable load_0
check '… and its records come' says 'load_0.*x=' timeout 120 userevctl tail --count=4 load_0
check 'it ends' systemctl stop early-writes
check 'the units have nothing to complain of' says_nothing verify_units
check 'no job was left out to break a cycle' says_nothing cycles
check 'no unit has failed' says_nothing systemctl --failed --no-legend --no-pager --plain
sum_up
