#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Causes and the output of doctor: a table. Each line is a real situation, and the sentence (and the advice on
# the next line) that a person has to read then. Only systemd is played, on machines where it is not the first process: by a
# `systemctl` that prints the output of the real one. With a kernel that has user_events there are some situations more.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
socket=$USEREV_SOCKET control=$USEREV_CONTROL_SOCKET
export PATH=$scratch/bin:$PATH
unset STATE_DIRECTORY USEREV_SOCKET USEREV_CONTROL_SOCKET NOTIFY_SOCKET INVOCATION_ID
mkdir "$scratch/policy.d" "$scratch/bin"
install "$B/userevctl" "$scratch/userevctl"

policy()
{
	# shellcheck disable=SC2059 # with its newlines
	printf "$1" >"$scratch/policy.d/10.conf"
}

# daemon [OPTION…]: a daemon that answers.
daemon()
{
	start "$scratch/log" "$B/userevd" --foreground --policy="$scratch/policy.d" --socket="$socket" --control-socket="$control" "$@"
	within "$ctl" --control-socket="$control" status
}

# killed: the last program that was started leaves its sockets.
killed()
{
	kill -KILL "${started[-1]}"
	end_all
}

# listener PATH…: as systemd has them for a daemon that it does not start.
listener()
{
	start "$scratch/listener" python3 -c '
import socket, sys, time
sockets = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for path in sys.argv[1:]]
for one, path in zip(sockets, sys.argv[1:]):
    one.bind(path)
    one.listen()
time.sleep(600)' "$@"
	for path in "$@"; do
		within test -S "$path"
	done
}

# systemd SOCKETS SERVICE [PATH]: the states of both units, of which the first is for our socket and that path.
systemd()
{
	printf '#!/bin/sh\ncat <<END\nActiveState=%s\nListen=%s (SequentialPacket)\nListen=%s (SequentialPacket)\n\nActiveState=%s\nEND\n' \
		"$1" "$socket" "${3:-$scratch}" "$2" >"$scratch/bin/systemctl"
	chmod +x "$scratch/bin/systemctl"
}

no_systemd()
{
	printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/systemctl"
	chmod +x "$scratch/bin/systemctl"
}

# row SENTENCE MARK-AND-SENTENCE [ADVICE [COMMAND…]]: the output of doctor, with the advice on the next line; then the
# situation is over unless $stays is set.
row()
{
	local situation=$1 sentence=$2 advice=${3:-}
	shift $(($# < 3 ? $# : 3))
	[ $# -gt 0 ] || set -- "$ctl"
	"$@" --socket="$socket" --control-socket="$control" doctor --policy="$scratch/policy.d" >"$scratch/said" 2>&1
	check "$situation: $sentence" grep -A1 -E -- "$sentence" "$scratch/said"
	[ -z "$advice" ] || check "… and what to do" grep -qE -- "$advice" <(grep -A1 -E -- "$sentence" "$scratch/said")
	[ -n "${stays:-}" ] || over
	[ $checks_failed -eq "${failed_before:-0}" ] || sed 's/^/      /' "$scratch/said"
	failed_before=$checks_failed
}

says_not()
{
	check "… and not '$1'" bash -c "! grep -qE -- '$1' '$scratch/said'"
}

over()
{
	end_all
	no_systemd
	rm -rf "$socket" "$control" "$scratch/policy.d"/*
}
over

# --- no daemon ---

row 'nothing there, nor units' '\[fail\] socket: there is none' "Start one: 'userevd --foreground'.* In a container, mount"
systemd inactive inactive
row 'sockets stopped' '\[fail\] socket: there is none' "sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'"
systemd failed failed
row 'sockets failed' '\[fail\] socket: there is none' "sockets are stopped: 'systemctl start userevd.socket userevd-control.socket'"
# (A daemon that changes its user leaves a process that removes the files.)
daemon --user=root
killed
row 'a stale socket, by hand' '\[fail\] daemon: the socket exists, but nobody listens' "Start one: 'userevd --foreground'"
systemd inactive inactive
listener "$socket"
killed
row 'a stale socket, units stopped' '\[fail\] daemon: the socket exists, but nobody listens' 'sockets are stopped'
systemd active active
row 'a socket that somebody removed' '\[fail\] socket: there is none' "'systemctl restart userevd.socket'"
: >"$socket"
row 'another file in its place' '\[fail\] socket: the file is not a socket' 'Remove it'

# --- a listener that does not answer ---

systemd active inactive
listener "$socket" "$control"
stays=yes row 'a socket of systemd, and no daemon' '\[fail\] daemon: the connection is accepted, but no daemon answers' "'systemctl start userevd'"
says_not 'is an admin'
over
systemd active activating
listener "$socket"
row 'a daemon that is being started' '\[fail\] daemon: the connection is accepted, but no daemon answers' 'It is starting'
systemd active failed
listener "$socket" "$control"
policy '[/a]\nMaxEvents=5\n[/b]\nMaxEvents=many\nMaxConnections=few\n'
stays=yes row 'a broken policy at the start' '\[fail\] daemon: the connection is accepted, but no daemon answers' 'journalctl -u userevd'
row '… and which line' '\[fail\] policy files: 2 errors are in them; no daemon starts with them' 'policy.d/10.conf:4: MaxEvents=many: not a number'
daemon
kill -STOP "${started[-1]}"
row 'a daemon that hangs, by hand' '\[fail\] daemon: the connection is accepted, but no daemon answers' 'look at its log'
systemd active active
listener "$socket" "$control"
row 'a daemon that hangs, a unit' '\[fail\] daemon: the connection is accepted, but no daemon answers' "'systemctl status userevd'"

# --- a daemon that answers ---

systemd active active "$scratch/removed"
daemon
stays=yes row 'the socket of containers was removed' "\[fail\] socket: somebody has removed $scratch/removed" \
	"'systemctl restart userevd.socket'"
systemd inactive inactive "$scratch/removed"
stays=yes row 'the units are stopped, and a daemon runs by hand' 'it answers'
says_not 'somebody has removed'
systemd active active
row 'all sockets are there' 'it answers'
says_not 'somebody has removed'
if [ "$(id -u)" = 0 ]; then
	daemon
	chmod 0600 "$socket"
	row 'no permission' '\[fail\] permission: this user may not connect: Permission denied' 'SocketMode=' \
		as_nobody "$scratch/userevctl"
fi
policy '[/nowhere]\nReserveEvents=5\n'
daemon --state-directory="$scratch/state" --user=root
end_all
policy '[/nowhere]\nReserveEvents=many\n'
daemon --state-directory="$scratch/state" --user=root
row 'a broken policy, and the last good one' '\[note\] policy files: .*an older policy is in force' '10.conf:2: ReserveEvents=many'
daemon
policy '[/nowhere]\nReserveEvents=many\n'
row 'files that were broken since' '\[note\] policy files: 1 error is in them; the daemon has not loaded them' '10.conf:2: ReserveEvents=many'
policy '[Daemon]\nDefaultMaxEvents=0\n'
daemon
row 'a quota that is full' '\[fail\] quota: the registration of a test event was refused: .*0 of 0 events' 'hold many events'
policy '[/]\nDenyEvents=userevctl_*\n[/**]\nDenyEvents=userevctl_*\n'
daemon
row 'a name that is denied' '\[fail\] policy: the registration of a test event was refused: .*userevctl_doctor' "policy for this tenant"
daemon --backend=embedded
"$ctl" --control-socket="$control" mute / >"$scratch/muted" 2>&1 || cat "$scratch/muted"
row 'a muted tenant' '\[note\] muted: an admin has muted this tenant: all its events are off for every tracer' "ends that with 'userevctl unmute'"
daemon --backend=embedded
stays=yes row 'without the kernel' '\[note\] backend: embedded: the daemon itself records'
if [ ! -d /sys/kernel/tracing/events ] || [ ! -e /sys/kernel/tracing/user_events_data ]; then
	row 'no user_events in the kernel' '\[note\] kernel: (this kernel has no|no) user_events' 'embedded backend works without'
fi
check 'that is no obstacle' grep -q '^Events work from here' "$scratch/said"
over

# The event is on before doctor asks for its records.
finds_its_record()
{
	local _
	for _ in {1..10}; do
		"$ctl" --socket="$socket" --control-socket="$control" doctor >"$scratch/said" || { cat "$scratch/said"; return 1; }
	done
}

policy ''
daemon --backend=embedded
start "$scratch/tail" "$ctl" --control-socket="$control" tail '*'
check 'another tail is no obstacle' finds_its_record
over

# --- a kernel that has them, and no guard ---

own_cgroup()
(
	mkdir -p /sys/fs/cgroup/doctor.slice/given/inner &&
		python3 -c 'import os; os.setxattr("/sys/fs/cgroup/doctor.slice/given", "user.delegate", b"1")' &&
		echo "$BASHPID" >/sys/fs/cgroup/doctor.slice/given/inner/cgroup.procs && "$@"
)

if [ -e /sys/kernel/tracing/user_events_data ] && [ "$(id -u)" = 0 ]; then
	daemon --guard=off
	row 'root on a plain host, nothing guards' '\[note\] guard: off|\[ok\] +backend: status-page' ''
	daemon --guard=off
	stays=yes row 'root in a cgroup that was given away, nothing guards' \
		'\[fail\] (daemon|policy): .*refused.* where nothing guards it; .*AllowHost[A-Za-z]*=yes' \
		'Use another user, run the guard' \
		own_cgroup "$ctl"
	over
	rmdir /sys/fs/cgroup/doctor.slice/given/inner /sys/fs/cgroup/doctor.slice/given /sys/fs/cgroup/doctor.slice
fi

# --- a daemon of an ordinary user, whose /proc/PID no other user may read (test_hardening.sh) ---

if [ "$(id -u)" = 0 ]; then
	mkdir "$scratch/nobody" && chown 65534 "$scratch/nobody"
	install "$B/userevd" "$scratch/userevd"
	# Not by as_nobody: a shell would be killed, and the daemon stay.
	start "$scratch/log" setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/userevd" --foreground --policy="$scratch/policy.d" --socket="$scratch/nobody/socket" \
		--control-socket="$scratch/nobody/control"
	within test -S "$scratch/nobody/control"
	check "an ordinary user's doctor can check an ordinary user's daemon" as_nobody "$scratch/userevctl" --socket="$scratch/nobody/socket" --control-socket="$scratch/nobody/control" doctor
fi
sum_up
