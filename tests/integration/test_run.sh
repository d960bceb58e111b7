#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `make run` as a new user goes about it: the three commands that it prints are tried as they are printed.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
export B
scratch=$(mktemp -d)
daemon='' tail='' program=''
trap 'for pid in $daemon $tail $program; do kill $pid; done 2>/dev/null; wait; rm -rf "$scratch"' EXIT

# The n-th of the commands.
command_number()
{
	grep '^  /' "$scratch/out" | sed -n "$1p"
}

try()
{
	bash -c "$(command_number "$1")"
}

# within N COMMAND…: becomes true in so many seconds.
within()
{
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $deadline ] || return 1
		sleep 0.1
	done
}

is_ready()
{
	[ "$(grep -c '^  /' "$scratch/out")" = 3 ] && grep -q 'listening on' "$scratch/out" && try 3
}

is_shown()
{
	try 2
	grep -q 'hello.*count=1 whom="world"' "$scratch/tail"
}

start()
{
	tests/run-daemon.sh >"$scratch/out" 2>&1 &
	daemon=$!
}

stop()
{
	kill "$(pgrep -P $daemon -x userevd)"
	wait "$daemon"
}

is_registered()
{
	"$B/userevctl" "$admins" events | grep -q left_request
}

start
check 'it starts, and prints three commands' within 120 is_ready
bash -c "exec $(command_number 1) --wait" >"$scratch/tail" 2>&1 &
tail=$!
check 'the first shows the records of the second' within 120 is_shown
check 'the third shows the state' try 3
directory=$(command_number 3 | sed 's/.*--control-socket=\(.*\)\/control.sock.*/\1/')
admins=--control-socket=$directory/control.sock
eval "$(grep -o 'export USEREV_SOCKET=.*' "$scratch/out")"
"$B/examples/requests" left 600 &
program=$!
check 'a program finds it at the printed socket' within 120 is_registered
stop
check 'it ends with success' test $? -eq 0
daemon=''
start
check 'a second daemon starts' within 120 is_ready
check 'and the program finds it by itself' within 120 is_registered
stop
daemon=''
kill $program
program=''
check 'and leaves nothing behind' test ! -e "$directory"
sum_up
