#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A boot with userevd installed (early_boot.sh): the sockets exist before ordinary services start, and requests made before the daemon
# runs are answered.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# before UNIT MOMENT UNIT MOMENT: the first moment of this boot was before the second. A moment is a property such as ActiveEnter.
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
	systemd-analyze verify --man=no userevd.service userevd-keeper.service userevd-sessions.service userevd-snapshot@flight.service "${sockets[@]}" 2>&1 | grep -i userevd
}

folder=/var/log/userevd

# The record of the early service is its first one, and the session has it still.
session_has_first_record()
{
	before early-emits ExecMainExit sysinit.target ActiveEnter && says '	boot_step	number=1$' userevctl session snapshot boot
}

# old_snapshots NAME…: a dozen files of each session, the oldest one first.
old_snapshots()
{
	local name day
	mkdir -p $folder
	for name; do
		for day in {01..12}; do
			install -m 600 /dev/null "$folder/$name-2020-01-$day-120000.000000000"
		done
	done
}

# A service writes two records and fails: first after a trigger has taken a snapshot between them, then without a trigger.
failure_leaves_records()
{
	old_snapshots flight flight-2
	userevctl session create flight --event=boot_step --trigger='snapshot:1 if number == 10' || return
	printf '%s\n' '[Unit]' OnFailure=userevd-snapshot@flight.service '[Service]' Type=oneshot \
		"ExecStart=sh -c \"for n in 0 1; do userevctl emit 'boot_step u32 number' number=%i\$\$n; done; exit 7\"" >/run/systemd/system/fails@.service
	systemctl daemon-reload
	for number in 1 2; do
		! systemctl start fails@$number && within 120 grep -rq "number=${number}1$" $folder &&
			within 120 says '^inactive$' systemctl show --property=ActiveState --value userevd-snapshot@flight || return
	done
	systemctl reset-failed 'fails@*'
	diff <(printf 'number=%d\n' 10 11 20 21) <(cat $folder/flight-"$(date +%Y)"* | grep -o 'number=.*') && says_nothing find $folder -type f ! -perm 600 &&
		userevctl session destroy flight
}

# Of the session that was written, ten; of the other one, all.
# sees_alone SERVICE on|off
sees_alone()
{
	systemctl stop "$1.service" 2>/dev/null
	systemd-run --quiet --unit="$1" --property=Type=exec sh -c 'sleep infinity | userevctl emit --stdin boot_alone' &&
		within 60 json 'len(it) == 1 and it[0]["holders_total"] == 2 and it[0].get("silent", 0) == '"$([ "$2" = on ]; echo $?)" \
			userevctl events --json boot_alone
	local status=$?
	systemctl stop "$1.service"
	return $status
}

keeps_the_newest_files()
{
	diff <(printf '%s\n' {05..12}) <(ls $folder | sed -n 's/^flight-2020-01-\(..\)-.*/\1/p') &&
		[ "$(ls $folder | grep -c '^flight-2-2020-')" = 12 ] && [ "$(ls $folder | grep -c "^flight-$(date +%Y)-")" = 2 ]
}

# Also with the number of an admin, and if the snapshot itself cannot be taken.
keeps_as_many_as_wanted()
{
	mkdir -p /run/systemd/system/userevd-snapshot@.service.d
	printf '[Service]\nEnvironment=KEEP=3\n' >/run/systemd/system/userevd-snapshot@.service.d/keep.conf
	systemctl daemon-reload
	! systemctl start userevd-snapshot@flight-2 && systemctl reset-failed userevd-snapshot@flight-2 &&
		diff <(printf '%s\n' 11 12) <(ls $folder | sed -n 's/^flight-2-2020-01-\(..\)-.*/\1/p')
}

# It is a failure of the template's instance, and leaves no file.
failure_without_session()
{
	! systemctl start userevd-snapshot@nosuch && systemctl reset-failed userevd-snapshot@nosuch &&
		says "there is no session 'nosuch'" journalctl --unit=userevd-snapshot@nosuch --output=cat && ! ls $folder/nosuch*
}

# on_after_load EVENT: as after a boot at which it was off.
on_after_load()
{
	echo 0 >/sys/kernel/tracing/events/user_events/"$1"/enable
	systemctl restart userevd-sessions
	says '^1$' cat /sys/kernel/tracing/events/user_events/"$1"/enable
}

keeps_until_disabled()
{
	userevctl enable --keep boot_step && userevctl enable --keep boot_step && on_after_load boot_step &&
		says_nothing diff <(printf '%s\n' boot_kept not_there 'boot_alone /system.slice/shop.service' boot_step) /etc/userevd/kept-events &&
		userevctl disable 'boot_[s]*' && ! on_after_load boot_step && on_after_load boot_kept && userevctl disable boot_kept boot_alone &&
		exits 1 userevctl disable not_there && [ ! -s /etc/userevd/kept-events ] && exits 2 userevctl enable --kept boot_kept &&
		says '^0 events are on' userevctl enable --kept
}

cycles()
{
	journalctl --quiet --no-pager --boot --output=cat --grep='ordering cycle|to break'
}

check 'the sockets exist before ordinary services' sockets_are_early
check 'the user is created before the sockets' user_is_new
check 'a program sends a request before the daemon starts' before early-asks ExecMainStart userevd ExecMainStart
check 'the request is answered' was_answered
check 'the daemon runs before sysinit.target' before userevd ActiveEnter sysinit.target ActiveEnter
check 'the request started the daemon, not the boot' says '^disabled$' systemctl is-enabled userevd
check 'the kernel has user_events, and the guard is in force' has_backend enable-address on
check 'the declared event of the policy exists' says '^boot_step\s' userevctl events
check 'a kept event is on' says '^1$' cat /sys/kernel/tracing/events/user_events/boot_kept/enable
check '… and one that is not there has a note' says "'not_there' is not there" journalctl --unit=userevd-sessions --output=cat
check '… and one for a tenant alone' says '^ *Only: boot_alone in /system.slice/shop.service$' userevctl status
check '… whose programs see it as on' sees_alone shop on
check '… and others as off' sees_alone other off
check 'the session of a file exists' says '^boot	on	' userevctl session list
check '… and outlives its unit' systemctl stop userevd-sessions
check '… with the first record of an early service' session_has_first_record
check 'an event is kept until it is disabled' keeps_until_disabled
check 'a failing service leaves its last records in a file' failure_leaves_records
check '… of which the newest are kept, and those of other sessions' keeps_the_newest_files
check '… as many as an admin wants' keeps_as_many_as_wanted
check '… unless there is no such session' failure_without_session
check 'the declared event can be enabled' userevctl enable boot_step
check 'a second program of the early boot runs' systemctl is-active early-writes
check 'the event of the second program exists' within 120 says '^load_0\s' userevctl events
check 'the event of the second program can be enabled' userevctl enable load_0
check 'the records of the second program arrive' says 'load_0.*x=' timeout 120 userevctl tail --count=4 load_0
check 'the second program ends' systemctl stop early-writes
check 'systemd finds no fault in the units' says_nothing verify_units
check 'systemd dropped no job because of a cycle' says_nothing cycles
check 'no unit has failed' says_nothing systemctl --failed --no-legend --no-pager --plain
sum_up
