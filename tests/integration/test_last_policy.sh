#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A daemon that is started with errors in the policy files uses a copy of the last policy without errors, if no other user could
# have written it, and logs that. A policy in a ConfigMap is read when the kubelet has renewed it.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
chmod 755 "$scratch"
trap 'stop; rm -rf "$scratch"' EXIT
export USEREV_SOCKET=$scratch/socket USEREV_CONTROL_SOCKET=$scratch/control TMPDIR=$scratch
unset STATE_DIRECTORY USEREVCTL_WIDTH NO_COLOR NOTIFY_SOCKET INVOCATION_ID
ctl=$B/userevctl
state=$scratch/state kept=$scratch/state/policy file=$scratch/policy.d/10.conf
mkdir "$scratch/policy.d"

# start [OPTION…]: 0 once the daemon answers; otherwise its exit status. As root it stays root, since the owners of files matter.
start()
{
	: >"$scratch/log"
	"$B/userevd" --foreground --backend=embedded --user=root --policy="$scratch/policy.d" --socket="$USEREV_SOCKET" \
		--control-socket="$USEREV_CONTROL_SOCKET" "$@" >"$scratch/log" 2>&1 &
	local daemon=$!
	echo $daemon >"$scratch/pid"
	for _ in $(seq 1200); do
		"$ctl" status >/dev/null 2>&1 && return 0
		kill -0 $daemon 2>/dev/null || { wait $daemon; return; }
		sleep 0.05
	done
	return 99
}

# check() runs commands in a subshell, so the daemon may be no child of this shell.
stop()
{
	local daemon
	daemon=$(cat "$scratch/pid" 2>/dev/null) || return 0
	rm "$scratch/pid"
	kill "$daemon" 2>/dev/null || return 0
	while kill -0 "$daemon" 2>/dev/null; do
		sleep 0.02
	done
}

restart()
{
	stop
	start "$@"
}

logged()
{
	grep -qE -- "$1" "$scratch/log" || { cat "$scratch/log"; return 1; }
}

# in_force N: the reserve of the policy in force.
in_force()
{
	"$ctl" emit --socket="$USEREV_SOCKET" 'one u32 n' n=1 >/dev/null 2>&1
	[ "$("$ctl" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["reserved"])')" = "$1" ]
}

policy()
{
	# shellcheck disable=SC2059 # with its newlines
	printf "$1" >"$file"
}

is_silent()
{
	! "$ctl" status | grep -q 'older policy' && ! grep -q 'older policy' "$scratch/log"
}

is_silent_now()
{
	! "$ctl" status --brief | grep -q 'older policy'
}

# not_used PATTERN: the daemon does not start with the copy, and logs why.
not_used()
{
	stop
	exits 78 start --state-directory="$state" && logged "$1"
	local result=$?
	stop
	return $result
}

good='[/nowhere]\nReserveEvents=5\n'
wrong='[/nowhere]\nReserveEvents=9\n[/else]\nMaxEvents=many\nMaxConnections=few\n'

policy "$wrong"
check 'with errors and without a copy the daemon does not start' exits 78 start
check '… and nothing is printed for the keeper, which the unit asks for' eval '[ -z "$(exits 78 "$B/userevd" --native --policy="$scratch/policy.d")" ]'
check '… nor with an empty directory' exits 78 start --state-directory="$state"
check '… and logs that there is no copy' logged 'no last good policy to go on with: none is kept in'

policy "$good"
check 'a policy without errors is kept' start --state-directory="$state"
check '… in a file that other users cannot read' [ "$(stat -c '%a %F' "$kept" "$state" | sort | tr '\n' ,)" = '600 regular file,700 directory,' ]
check '… without a line in the log' is_silent
policy "$wrong"
check 'a reload with errors is refused' exits 1 "$ctl" reload
check '… and status --brief shows it' says 'Policy: the policy files have errors: an older policy is in force' "$ctl" status --brief
check '… as JSON, too' says '"policy_note":"the policy files have errors' "$ctl" status --brief --json
check '… and a start with them uses the copy' restart --state-directory="$state"
check '… as the policy was' in_force 5
check '… with each error in the log' logged 'policy.d/10.conf:4: MaxEvents=many'
check '… the second one, too' logged 'policy.d/10.conf:5: MaxConnections=few'
check '… and that an older policy is in force' logged 'the policy files have errors: an older policy is in force, the last good one, loaded first on 20'
check '… and in the status' says 'Policy: the policy files have errors: an older policy is in force' "$ctl" status
check '… and in the output of doctor' says '\[note\] policy files: the policy files have errors: an older policy' "$ctl" doctor
check '… with the first error' says '10.conf:4: MaxEvents=many' "$ctl" doctor
check 'another start uses it again' restart --state-directory="$state"
check '… as the policy was' in_force 5
stop
check 'with --strict-policy the daemon does not start' exits 78 start --state-directory="$state" --strict-policy
STATE_DIRECTORY=$state start
check 'STATE_DIRECTORY names the directory' in_force 5

policy '[/nowhere]\nReserveEvents=7\n'
check 'files that were corrected are loaded' exits 0 "$ctl" reload
check "… and the status is silent again" bash -c "! '$ctl' status | grep -q 'older policy'"
policy "$wrong"
check '… and kept: the next start uses them' restart --state-directory="$state"
check '… as they were' in_force 7
echo garbage >"$state/policy.new"
policy '[/nowhere]\nReserveEvents=8\n'
check 'an unfinished copy of a killed daemon does no harm' exits 0 "$ctl" reload
policy "$wrong"
check '… and the new policy is kept' restart --state-directory="$state"
check '… as it was' in_force 8

# Whether reserves fit is known once the kernel is open.
policy '[/nowhere]\nReserveEvents=60000\n'
check 'a policy with more reserves than capacity is an error' restart --state-directory="$state" --capacity=100
check '… and the last one is in force' in_force 8
stop
check '… unless there is no room for its reserves either' exits 78 start --state-directory="$state" --capacity=4
check '… which is logged' logged 'there is no room for its reserves either'
policy "$wrong"

cp "$kept" "$scratch/copy"
printf '[Daemon]\n' >>"$kept"
check 'a damaged copy is not used' not_used 'damaged, or has errors itself'
head -c -3 "$scratch/copy" >"$kept"
check '… nor a truncated one' not_used 'damaged, or has errors itself'
: >"$kept"
check '… nor an empty one' not_used 'damaged, or has errors itself'
cp "$scratch/copy" "$kept" && chmod 0622 "$kept"
check '… nor one that others can write' not_used 'could have written it'
chmod 0600 "$kept" && chmod 0777 "$state"
check '… or replace' not_used 'could have written it'
chmod 0700 "$state" && rm "$kept" && ln -s "$scratch/copy" "$kept"
check '… nor a symbolic link' not_used 'is not used: Too many levels'
rm "$kept" && cp "$scratch/copy" "$kept"
if [ "$(id -u)" = 0 ]; then
	chown 4711 "$kept"
	check '… nor a file of another user' not_used 'could have written it'
	chown 0 "$kept" && chown 4711 "$state"
	check '… nor a file in the directory of another user' not_used 'could have written it'
	chown 0 "$state"
fi
check 'the same copy with its owner and mode is used' start --state-directory="$state"
check '… as it was' in_force 8
stop
if [ "$(id -u)" = 0 ]; then
	# A daemon that gives up root makes the directory for its later user.
	policy "$good"
	check 'a directory is made for the user that the daemon becomes' start --user=nobody --state-directory="$scratch/given"
	check '… which owns the copy' [ "$(stat -c %U "$scratch/given" "$scratch/given/policy" | sort -u)" = nobody ]
	policy "$wrong"
	check '… which the next daemon uses' restart --user=nobody --state-directory="$scratch/given"
	check '… as it was' in_force 5
	stop
fi
policy "$good"
: >"$scratch/plain"
check 'a file in place of the directory is no error' start --state-directory="$scratch/plain"
check '… which is logged' logged "can't keep the policy in .*/plain for the next start"
stop

# renew TEXT: as a kubelet does it: another directory, and in one step the link to it.
renew()
{
	local files
	files=$(mktemp -d "$scratch/policy.d/..XXXXXX")
	# shellcheck disable=SC2059 # with its newlines
	printf "$1" >"$files/10.conf"
	ln -s "${files##*/}" "$scratch/policy.d/..next"
	mv -T "$scratch/policy.d/..next" "$scratch/policy.d/..data"
}
ln -sf ..data/10.conf "$file"
renew "$good"
check 'a ConfigMap is read at the start' restart
check '… as it is' in_force 5
renew '[/nowhere]\nReserveEvents=7\n'
check '… and when it is renewed' within 10 in_force 7
renew "$wrong"
check '… with errors, which are shown' within 10 says 'the policy files have errors' "$ctl" status --brief
check '… and leave the policy in force' in_force 7
renew "$good"
check '… until it is corrected' within 10 in_force 5
check '… and nothing is shown' is_silent_now
sum_up
