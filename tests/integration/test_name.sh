#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl name with bad input: as an OCI runtime's hook it ends with 0 all the same, so that the container starts. In a guest, where cgroups
# are the test's own, also bad names of containers that there are.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
hook=("$B/userevctl" name --oci-hook)
of=() # the process of each container

# repeat TEXT TIMES, into $repeated: by doubling, since a word for each time would take half a minute in a guest.
repeat()
{
	repeated=$1
	while [ ${#repeated} -lt "$2" ]; do repeated+=$repeated; done
	repeated=${repeated:0:$2}
}

repeat x 4096
long=$repeated

# refuses PATTERN TEXT: says why, and succeeds within a few seconds.
refuses()
{
	local output
	output=$(printf %s "$2" | timeout 20 "${hook[@]}" 2>&1) && echo "$output" && has_line "$1" "$output"
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
	[ $status -eq "$1" ] && has_line "$2" "$output"
}

# The writer never closes its end.
waits_for_no_end()
{
	mkfifo "$scratch/fifo" && exec 3<>"$scratch/fifo" && timeout 20 "${hook[@]}" <"$scratch/fifo"
}

# all_at_once N: hooks of processes in `of`, or of this one.
all_at_once()
{
	local n text pids=()
	for ((n = 1; n <= $1; n++)); do
		text=$(state "id-$n" "${of[n]-$$}" "\"nerdctl/name\":\"name-$n\"")
		"${hook[@]}" <<<"$text" 2>/dev/null &
		pids+=($!)
	done
	for n in "${pids[@]}"; do wait "$n" || return 1; done
}

# --- containers that there are: a cgroup each, with a process ---

cgroups=/sys/fs/cgroup/userevd-name

# have_names REGEX N: that many of them have a name like this.
have_names()
{
	python3 - "$1" "$2" $cgroups/* <<-'END'
		import os, re, sys
		def name(cgroup):
		    try:
		        return os.getxattr(cgroup, "security.userevd.name").decode()
		    except OSError:
		        return ""
		names = {name(cgroup) for cgroup in sys.argv[3:] if os.path.isdir(cgroup)}
		print(list(names)[:3])
		sys.exit(sum(bool(re.fullmatch(sys.argv[1], name)) for name in names) != int(sys.argv[2]))
	END
}

# start NUMBER: the process of container id-NUMBER, whose cgroup there is; it waits.
start()
{
	(echo "$BASHPID" >"$cgroups/id-$1/cgroup.procs" && read -r <&4) &
	of[$1]=$!
	disown
}

# is_named REGEX JSON: the first container, whose engine says this text.
is_named()
{
	state id-1 "${of[1]}" "\"nerdctl/name\":\"$2\"" | "${hook[@]}" && have_names "$1" 1
}

tests_of_names()
{
	mkfifo "$scratch/never" && exec 4<>"$scratch/never"
	mkdir $cgroups $cgroups/id-1 && start 1
	within 20 grep -q userevd-name "/proc/${of[1]}/cgroup"
	check 'a control character leaves it without a name' is_named '' 'a\u001b[2Jb'
	check 'an escape that is none: the id' is_named 'container id-1' 'a\ud800b'
	check 'a NUL: the id' is_named 'container id-1' 'a\u0000b'
	check 'quotes and others are decoded' is_named 'container "caf\u00e9"' '\"caf\u00e9\"'
	check 'a name of 400 bytes is written' is_named 'container x{400}' "${long:0:400}"
	check 'one of 401: the id' is_named 'container id-1' "${long:0:401}"
	check 'one of 4,096: the id' is_named 'container id-1' "$long"
	# Of `make check-containers`, which has all engines, a thousand.
	crowd=$([ "${ENGINES-}" = all ] && echo 1000 || echo 100)
	seq -f "$cgroups/id-%g" 2 "$crowd" | xargs mkdir
	for ((n = 2; n <= crowd; n++)); do start "$n"; done
	check "$crowd are named at once" eval "all_at_once $crowd && have_names 'container name-[0-9]+' $crowd"
	echo 1 >$cgroups/cgroup.kill && within 60 find $cgroups -depth -type d -exec rmdir {} +
}

nothing='no state of a container'
other='is not this container.s own: its id is not in it'
check 'nothing' refuses "$nothing" ''
check 'no JSON' refuses "$nothing" nonsense
check 'another JSON' refuses "$nothing" '[1,2,{"id":"a"}]'
repeat '[' 100000
check 'deep nonsense' refuses "$nothing" "$repeated"
repeat x 2000000
check 'a megabyte and more' refuses "$nothing" "{\"id\":\"$repeated"
check 'no pid' refuses "$nothing" "$(state a -1 '')"
check 'a pid that is none' refuses 'no process' "$(state a 2147483647 '')"
check 'an id of 4,096 bytes' refuses "$nothing" "$(state "$long" $$ '')"
check 'an empty id' refuses "$other" "$(state '' $$ '')"
check "another container's id" refuses "$other" "$(state 5cf65dcc0123 $$ '')"
check 'a path as id' refuses "$other" "$(state ../../etc $$ '')"
check 'a name of 4,096 bytes' refuses "$other" "$(state 5cf65dcc0123 $$ "\"nerdctl/name\":\"$long\"")"
check 'escapes' refuses "$other" "$(state 5cf65dcc0123 $$ '"nerdctl/name":"\u001b[2J\u0000\ud800"')"
check 'a state that never ends' waits_for_no_end
# In a guest below.
[ -n "${IN_GUEST-}" ] || check 'a thousand at once' all_at_once 1000

check 'by hand: a name with a control character' usage 1 'has a control character' /x $'a\033[2Jb'
check 'a name that is too long' usage 1 '1 to 400 are possible' /x "$long"
check 'no name' usage 1 '1 to 400 are possible' /x ''
check 'an engine with a space' usage 1 'is no name of an engine' --engine='a b' /x y
check 'no cgroup' usage 2 "begins with '/'" x y
check 'a cgroup that is not there' usage 1 'No such file' "/userevd-test-$$" y
check 'the root of all cgroups' usage 1 'No such file' / y
check 'one argument' usage 2 'is missing' /x
[ -z "${IN_GUEST-}" ] || tests_of_names
sum_up
