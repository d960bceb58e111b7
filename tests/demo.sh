#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A tour: a daemon, two programs in different tenants, an event switched on, its records decoded, a refusal. The exit status is 0 only if
# each of these was seen.

set -u
B=$(cd "${B:-build}" && pwd) || exit 1
directory=$(mktemp -d)
export USEREVCTL_WIDTH=100 USEREV_SOCKET=$directory/userevd.sock USEREV_CONTROL_SOCKET=$directory/control.sock
pids=() cgroup=
[ -t 1 ] && bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m' || bold='' dim='' plain=''

end_all()
{
	local pid
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null
	done
	for pid in "${pids[@]}"; do
		wait "$pid" 2>/dev/null
	done
	[ -z "$cgroup" ] || rmdir "$cgroup/shop" "$cgroup/bank" "$cgroup"
	rm -rf "$directory"
}
trap end_all EXIT

say()
{
	printf '\n%s# %s%s\n' "$bold" "$*" "$plain"
}

# Prints a command and its output, which must_see() searches.
show()
{
	local word line=''
	for word in "${@/#$B\//}"; do
		[[ $word = *[\ \;]* ]] && word="'$word'"
		line="$line $word"
	done
	[ "$1" = in_shop ] && line=${line/# in_shop/shop\$} || line="\$$line"
	printf '%s%s%s\n' "$dim" "$line" "$plain"
	output=$("$@" 2>&1)
	printf '%s\n' "$output"
}

must_see()
{
	grep -qE -- "$1" <<<"$output" && return
	printf '\nThe demo failed: %s was not seen.\n--- the daemon'\''s log:\n' "$2" >&2
	cat "$directory/log" >&2
	exit 1
}

# Two cgroups if this user may make them; otherwise each process is a tenant.
make_cgroup()
{
	local mount
	mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
	[ -n "$mount" ] && mkdir "$mount/userevd-demo-$$" 2>/dev/null || return
	cgroup=$mount/userevd-demo-$$
	if ! mkdir "$cgroup/shop" "$cgroup/bank" 2>/dev/null || ! (echo 0 >"$cgroup/shop/cgroup.procs") 2>/dev/null; then
		rmdir "$cgroup/shop" "$cgroup/bank" "$cgroup" 2>/dev/null
		cgroup=
	fi
}

# Each copy has its own name.
start_program()
{
	ln -s "$B/examples/requests" "$directory/$1"
	(
		[ -z "$cgroup" ] || echo 0 >"$cgroup/$1/cgroup.procs"
		exec "$directory/$1" "$1" 20
	) &
	pids+=($!)
}

# A command in the first program's container.
in_shop()
{
	echo 0 >"$cgroup/shop/cgroup.procs"
	exec "$@"
}

wait_for()
{
	local deadline=$((SECONDS + 10))
	while [ $SECONDS -lt $deadline ]; do
		output=$("$@" 2>&1) && return
		sleep 0.1
	done
	must_see 'nothing like this' "success of '$*'"
}

both_are_there()
{
	"$B/userevctl" events | grep -q shop_request && "$B/userevctl" events | grep -q bank_request
}

make_cgroup
say 'Start a daemon without privilege, with a limit of one event for each tenant'
printf '%s$ userevd --backend=embedded --max-events=1 &%s\n' "$dim" "$plain"
kind=cgroup
[ -n "$cgroup" ] || kind=process
"$B/userevd" --foreground --backend=embedded --max-events=1 --tenants=$kind --socket="$USEREV_SOCKET" \
	--control-socket="$USEREV_CONTROL_SOCKET" >"$directory/log" 2>&1 &
pids+=($!)
wait_for "$B/userevctl" status
cat "$directory/log"

say 'Start two programs in two containers; each declares an event in one line'
printf '%s$ shop & bank &%s\n' "$dim" "$plain"
start_program shop
start_program bank
wait_for both_are_there
show "$B/userevctl" tenants
must_see 'shop' 'the tenant of the first program'
must_see 'bank' 'the tenant of the second program'

say 'Without a tracer an event costs a load and a test. Enable one of the two'
show "$B/userevctl" enable shop_request
show "$B/userevctl" events
must_see 'shop_request.*on' 'shop_request switched on'
must_see 'bank_request.*off' 'bank_request still off'

say 'Follow its records, decoded'
show timeout 20 "$B/userevctl" tail --count=6 shop_request
must_see 'shop_request.*status=200.*path="/cart"' 'a decoded record'
must_see 'shop_request.*status=404.*path="/favicon.ico"' 'a decoded record with another status'

say 'Register a wrong description: the refusal suggests the correction'
show "$B/userevctl" emit 'checkout long basket' basket=1
must_see "field 1: 'long' has no fixed size; use s64 or u64" 'the refusal of a field that has no size'

if [ -n "$cgroup" ]; then
	say 'Exceed the limit in the container "shop": it is refused, and "bank" is not affected'
	show in_shop "$B/userevctl" emit 'checkout u64 basket' basket=1
	must_see 'this tenant holds 1 of 1 events' 'the refusal of an event above the limit'
	show "$B/userevctl" tenants
	must_see 'shop.*quota-exceeded 1' 'the refusal in the account of this tenant'
fi

say 'For development: one command runs a program with a private daemon, and leaves no files'
show "$B/userevctl" run -- "$B/examples/requests" desk 0.3
must_see 'desk_request.*status=200' 'a record of the private daemon'
must_see '[0-9]+ records?' 'the number of records'

printf '\n%sThe demo passed: each step showed the expected output.%s\n' "$bold" "$plain"
