#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl name with input that it refuses: as an OCI runtime's hook it ends with 0 all the same, so that the container starts. Names that are
# written are tested in containers.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
hook=("$B/userevctl" name --oci-hook)
long=$(printf 'x%.0s' {1..4096})

# refuses PATTERN TEXT: says why, and succeeds within a few seconds.
refuses()
{
	local output
	output=$(printf %s "$2" | timeout 20 "${hook[@]}" 2>&1) && echo "$output" && grep -qE -- "$1" <<<"$output"
}

# state ID PID ANNOTATIONS
state()
{
	printf '{"ociVersion":"1.0.2","id":"%s","pid":%s,"status":"created","bundle":"/nowhere/a/b","annotations":{%s}}' "$@"
}

# usage STATUS PATTERN ARGUMENT…
usage()
{
	local output status=0
	output=$("$B/userevctl" name "${@:3}" 2>&1) || status=$?
	echo "$output"
	[ $status -eq "$1" ] && grep -qE -- "$2" <<<"$output"
}

# The writer never closes its end.
waits_for_no_end()
{
	mkfifo "$scratch/fifo" && exec 3<>"$scratch/fifo" && timeout 20 "${hook[@]}" <"$scratch/fifo"
}

thousand_at_once()
{
	local n pids=()
	for n in {1..1000}; do
		state "id-$n" $$ '' | "${hook[@]}" 2>/dev/null &
		pids+=($!)
	done
	for n in "${pids[@]}"; do wait "$n" || return 1; done
}

nothing='no state of a container'
other='is not this container.s own: its id is not in it'
check 'nothing' refuses "$nothing" ''
check 'no JSON' refuses "$nothing" nonsense
check 'another JSON' refuses "$nothing" '[1,2,{"id":"a"}]'
check 'deep nonsense' refuses "$nothing" "$(printf '[%.0s' {1..100000})"
check 'a megabyte and more' refuses "$nothing" "{\"id\":\"$(printf 'x%.0s' {1..2000000})"
check 'no pid' refuses "$nothing" "$(state a -1 '')"
check 'a pid that is none' refuses 'no process' "$(state a 2147483647 '')"
check 'an id of 4,096 bytes' refuses "$nothing" "$(state "$long" $$ '')"
check 'an empty id' refuses "$other" "$(state '' $$ '')"
check "another container's id" refuses "$other" "$(state 5cf65dcc0123 $$ '')"
check 'a path as id' refuses "$other" "$(state ../../etc $$ '')"
check 'a name of 4,096 bytes' refuses "$other" "$(state 5cf65dcc0123 $$ "\"nerdctl/name\":\"$long\"")"
check 'escapes' refuses "$other" "$(state 5cf65dcc0123 $$ '"nerdctl/name":"\u001b[2J\u0000\ud800"')"
check 'a state that never ends' waits_for_no_end
check 'a thousand at once' thousand_at_once

check 'by hand: a name with a control character' usage 1 'has a control character' /x $'a\033[2Jb'
check 'a name that is too long' usage 1 '1 to 400 are possible' /x "$long"
check 'no name' usage 1 '1 to 400 are possible' /x ''
check 'an engine with a space' usage 1 'is no name of an engine' --engine='a b' /x y
check 'no cgroup' usage 2 "begins with '/'" x y
check 'a cgroup that is not there' usage 1 'No such file' "/userevd-test-$$" y
check 'the root of all cgroups' usage 1 'No such file' / y
check 'one argument' usage 2 'is missing' /x
sum_up
