#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl delete: persistent events are deleted in the kernel, and events of programs, tracers and the policy stay. In a guest also over
# a restart of the daemon, whose keeper goes on.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
tracefs=/sys/kernel/tracing
mkdir "$scratch/policy"
export PYTHONPATH=$PWD/client/python USEREV_WAIT=60000 # by default a declaration waits 0.1 s, and later ones not at all

# start_keeper: as systemd starts it.
start_keeper()
{
	start "$scratch/keeper" python3 -c 'if 1:
		import os, socket, sys
		listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		listening.bind(sys.argv[1])
		listening.listen()
		os.dup2(listening.fileno(), 3)
		os.set_inheritable(3, True)
		os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="keeper")
		os.execv(sys.argv[2], sys.argv[2:])' "$scratch/keeper.sock" "$B/userevd-keeper" --allow-persist --pages="$scratch/pages"
	keeper=$!
	within test -S "$scratch/keeper.sock"
}

# hold DESCRIPTION…: a program with these events, which are persistent where that is possible, until end_program.
hold()
{
	start "$scratch/program" python3 -c 'if 1:
		import sys, time, userev
		events = [userev.event(text, persist=sys.argv[1] == "enable-address") for text in sys.argv[2:]]
		time.sleep(600)' "$backend" "$@"
	program=$!
	local one
	for one; do
		within says "^${one%% *}	" "$ctl" events
	done
}

end_program()
{
	end $program 2>/dev/null
	within json 'it["streams"] == 0' "$ctl" status --json
}

kernel_has()
{
	cut -d' ' -f1 $tracefs/user_events_status | grep -qE "^([0-9]+:)?$1\$"
}

# charged N: events, to the machine.
charged()
{
	json "it['charges'] == $1" "$ctl" status --json
}

declare_event()
{
	printf '%s\n' "$@" >"$scratch/policy/events.conf"
	"$ctl" reload
}

# By hand: a foreign event that needs no program.
make_by_hand()
{
	echo "u:$1" >>$tracefs/dynamic_events
}

# leaves_closed FILE COMMAND…: the command does not open the file.
leaves_closed()
{
	python3 -c '
import ctypes, os, subprocess, sys
libc, IN_OPEN = ctypes.CDLL(None), 0x20
inotify = libc.inotify_init1(os.O_NONBLOCK)
if libc.inotify_add_watch(inotify, sys.argv[1].encode(), IN_OPEN) < 0:
    sys.exit("no watch")
subprocess.run(sys.argv[2:], check=True)
try:
    sys.exit(f"it was opened: {os.read(inotify, 4096)}")
except BlockingIOError:
    pass' "$@"
}

options=(--policy="$scratch/policy" --allow-persist)
if [ "$(id -u)" = 0 ] && [ -e $tracefs/user_events_status ]; then
	start_keeper
	options+=(--keeper-socket="$scratch/keeper.sock")
fi
start_daemon "${options[@]}"
backend=$("$ctl" status --json | sed -n 's/.*"backend": *"\([a-z-]*\)".*/\1/p')
hold 'lasting u32 n' 'another u32 n'

check 'an unknown event is exit status 1' exits 1 "$ctl" delete lastin
check '… and names those that look alike' says 'lasting' "$ctl" delete lastin
check 'nothing is deleted if one name is unknown' exits 1 "$ctl" delete lasting lastin
if [ "$backend" != enable-address ]; then
	check 'no event is persistent here' says "in-use.*it is not persistent, and ends with python3-$program of tenant /" "$ctl" delete lasting
	check '… which the list shows' json 'not any(one.get("persistent") for one in it)' "$ctl" events --json
else
	check 'the event of a program stays' exits 1 "$ctl" delete 'last*'
	check '… with the name of the program' says "in-use.*python3-$program of tenant /.* has it: try again when it has ended" "$ctl" delete lasting
	end_program
	check 'it has outlived its program' says '^lasting	off	-	persistent	' "$ctl" events
	check '… and is charged' charged 2
	"$ctl" enable lasting >/dev/null
	check 'the event of a tracer stays' says 'in-use.*a tracer uses it' "$ctl" delete lasting
	check '… with the name of the tracer' says "^It is on, for ftrace. 'userevctl disable'" "$ctl" delete lasting
	check '… and its charge' charged 2
	"$ctl" disable lasting >/dev/null
	check 'one of two may be deleted' exits 0 "$ctl" delete lasting
	check '… and the kernel has it no more' exits 1 kernel_has lasting
	check '… nor does the list' says_not '^lasting' "$ctl" events
	check '… and its charge is gone' charged 1
	"$ctl" enable another >/dev/null
	kill -KILL "$daemon" && wait "$daemon" 2>/dev/null
	start_daemon "${options[@]}"
	check 'the next daemon does not know it' says_not '^lasting' "$ctl" events
	check '… and knows the other one' says '^another	on	ftrace	persistent	' "$ctl" events
	check '… and the admin that has switched it on' json 'it[0]["enabled_by"]["comm"] == "userevctl"' "$ctl" events --json another
	"$ctl" disable another >/dev/null
	hold 'lasting u64 m'
	check 'its name is free for other fields' says '^lasting	.*	u64 m$' "$ctl" events
	end_program
	check 'a pattern deletes both' json 'it == {"deleted": 2}' "$ctl" delete --json 'lasting' 'ano*'
	check '… and no charge is left' charged 0

	declare_event '[Event declared]' 'Fields=u32 n' 'Persist=yes' >/dev/null
	within kernel_has declared
	check 'a declared event stays' says 'in-use.*the policy declares it: take its \[Event\] out' "$ctl" delete declared
	declare_event >/dev/null
	within says '^declared	off	-	persistent' "$ctl" events
	check '… until it is declared no more' says '^1 event is deleted' "$ctl" delete declared
	check '… indeed' exits 1 kernel_has declared
	check '… and no charge is left' charged 0

	# The keeper has ended, too: the next daemon does not know the event.
	hold 'orphan u32 n'
	end_program
	end "$daemon" 2>/dev/null
	end "$keeper" 2>/dev/null
	rm "$scratch/keeper.sock"
	start_keeper
	start_daemon "${options[@]}"
	check 'an event of a daemon before the last is foreign' says 'foreign events only' "$ctl" delete orphan
	check '… and deleted by its full name' says '^1 event is deleted' "$ctl" delete --foreign orphan
	check '… indeed' exits 1 kernel_has orphan
	declare_event '[/**]' 'AllowMultiFormat=yes' >/dev/null
	hold 'twin u32 n'
	end_program
	hold 'twin u64 m'
	end_program
	check 'two formats of a name are deleted together' says '^1 event is deleted' "$ctl" delete twin
	check '… and no charge is left' charged 0
	check '… nor is an event' says_not 'twin' cat $tracefs/user_events_status
fi
if [ "$backend" != embedded ]; then
	make_by_hand 'orphan u32 n; char[8] text'
	check 'the fields of an event made by hand are shown' says 'orphan	.*u32 n; char\[8\] text' "$ctl" events
	check '… in JSON, too' json '"orphan u32 n; char[8] text" in [one.get("description") for one in it["event_list"]]' "$ctl" status --json
	check '… without its format file, which crashes Linux 6.1 when the event is deleted meanwhile' exits 0 leaves_closed \
		$tracefs/events/user_events/orphan/format "$ctl" events
	check 'an event made by hand is foreign' says 'foreign events only' "$ctl" delete orphan
	check '… and deleted by its full name' says '^1 event is deleted' "$ctl" delete --foreign orphan
	check '… indeed' exits 1 kernel_has orphan
fi
sum_up
