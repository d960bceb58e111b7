#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Runs each example and reads its records: with `userevctl run`, or with a daemon and a tracer where the kernel has user_events. To trace
# from the first record on, the events must exist before: all examples run once first, and their events are kept (KeepFor=).

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
chmod 755 "$scratch"
mkdir "$scratch/copies"
echo one >"$scratch/first"
server='' processes=()
trap 'for pid in $server "${processes[@]}"; do kill $pid; done 2>/dev/null; wait; rm -rf "$scratch"' EXIT
export TMPDIR=$scratch PATH=$B:$PATH PYTHONPATH=client/python PYTHONDONTWRITEBYTECODE=1
# Short programs would otherwise end before the daemon has answered.
export USEREV_WAIT=60000
unset USEREV_SOCKET USEREV_CONTROL_SOCKET USEREVCTL_WIDTH
events=(backup_file hello_said plugin_called server_request stack_full stack_pushed tasks_done web_L2K1 web_L4K1)
[ -e /sys/kernel/tracing/user_events_data ] && [ "$(id -u)" = 0 ] && in_kernel=yes || in_kernel=

# The output since the start of the last run().
output()
{
	tail -n +$(($(cat "$scratch/before") + 1)) "$scratch/out"
}

seen()
{
	[ "$(output | grep -cE -- "$2")" -ge "$1" ]
}

# Appends its records and its output to $scratch/out. In the background: $running.
run()
{
	wc -l <"$scratch/out" >"$scratch/before"
	if [ "$in_kernel" ]; then
		"$@" >>"$scratch/out" 2>&1 </dev/null &
	else
		userevctl run -- "$@" >>"$scratch/out" 2>&1 </dev/null &
	fi
	running=$!
}

# Waits two seconds for the program to end by itself.
wait_or_end()
{
	for _ in {1..20}; do
		kill -0 "$1" 2>/dev/null || break
		sleep 0.1
	done
	kill "$1" 2>/dev/null
	wait "$1"
}

# says N PATTERN COMMAND…: N of its records or lines match within two minutes; then it is ended.
says()
{
	local wanted=$1 pattern=$2
	shift 2
	run "$@"
	for _ in {1..1200}; do
		seen "$wanted" "$pattern" && break
		[ "$in_kernel" ] || kill -0 $running 2>/dev/null || break
		sleep 0.1
	done
	wait_or_end $running
	output
	seen "$wanted" "$pattern"
}

# until_it COMMAND…: repeats it until it succeeds, up to a minute.
until_it()
{
	for _ in {1..600}; do
		"$@" >"$scratch/last" 2>&1 && return
		sleep 0.1
	done
	cat "$scratch/last"
	return 1
}

events_are()
{
	local event
	for event in "${events[@]}"; do
		userevctl events "$event" | grep "^$event"$'\t'"$1"$'\t' || return
	done
}

start_daemon()
{
	export USEREV_SOCKET=$scratch/socket USEREV_CONTROL_SOCKET=$scratch/control
	mkdir "$scratch/policy"
	printf '[/**]\nKeepFor=1h\n' >"$scratch/policy/keep.conf"
	userevd --foreground --socket="$USEREV_SOCKET" --control-socket="$USEREV_CONTROL_SOCKET" --policy="$scratch/policy" \
		>"$scratch/log" 2>&1 &
	processes+=($!)
	until_it userevctl status || cat "$scratch/log"
}

# Runs all of them until the daemon has their events.
make_known()
{
	local pids=() program
	for program in activity hello "server 2139 3" use_stack "plugin_host $B/examples/plugin.so 3" tasks; do
		# shellcheck disable=SC2086 # a program and its arguments
		"$B/examples/"$program >/dev/null 2>&1 </dev/null &
		pids+=($!)
	done
	sh client/examples/backup.sh "$scratch/copies" "$scratch/first" >/dev/null 2>&1
	until_it events_are 'off'
	kill "${pids[@]}" 2>/dev/null
	wait "${pids[@]}"
}

start_tracer()
{
	userevctl tail "${events[@]}" >>"$scratch/out" 2>&1 &
	processes+=($!)
	until_it events_are 'on'
}

in_last()
{
	output | grep -E -- "$1"
}

# ask PORT PATH: prints the HTTP status.
ask()
{
	local line
	exec 3<>"/dev/tcp/127.0.0.1/$1" || return
	printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
	read -r line <&3
	exec 3>&-
	echo "${line%$'\r'}"
}

start_server()
{
	local port
	for port in 2{1,3,5,7}{1,4,7}{3,6}9; do
		run "$B/examples/server" "$port" 3
		server=$running
		for _ in {1..600}; do
			ask "$port" /time >"$scratch/answer" 2>/dev/null && { echo "$port" >"$scratch/port"; return; }
			kill -0 $server 2>/dev/null || break
			sleep 0.1
		done
	done
	return 1
}

server_answers()
{
	[ "$(ask "$(cat "$scratch/port")" "$1" | cut -d' ' -f2)" = "$2" ]
}

copy_things()
{
	rm -f "$scratch/copies"/*
	says 1 'backup_file\s+status=1 bytes=0 name="missing"' sh client/examples/backup.sh "$scratch/copies" "$scratch/first" "$scratch/missing"
}

: >"$scratch/out"
if [ "$in_kernel" ]; then
	# Not in a command substitution, which would wait for their end.
	start_daemon && make_known && start_tracer
	check 'all events are traced' events_are 'on'
fi
check 'hello emits' says 1 'hello_said\s+count=1 whom="world"' "$B/examples/hello"
check 'hello.py emits' says 1 'hello_said\s+count=1 whom="world"' python3 client/examples/hello.py
start_server
check 'the request server listens' test -s "$scratch/port"
check '… it answers a request' server_answers /time 200
check '… it answers 404 for other paths' server_answers /favicon.ico 404
wait "$server"
server=''
check '… with an event for a failed request' until_it in_last 'server_request\s+status=404 ns=[0-9]+ path="/favicon.ico"'
check '… and for a successful one' until_it in_last 'server_request\s+status=200 ns=[0-9]+ path="/time"'
check 'a program emits activities in the EventHeader format' says 2 \
	'web_L4K1\s+request\(level=information opcode=(start|stop) activity=[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\) path="/cart" status=(0|200)$' "$B/examples/activity"
check '… and an event of another level' in_last 'web_L2K1\s+failed\(level=error\) error=-1$'
check 'a library has events that its program does not declare' says 2 'stack_full\s+refused=' "$B/examples/use_stack"
check '… its other event is emitted, too' in_last 'stack_pushed\s+number=64 depth=8'
check 'a plugin has its own event' says 3 'plugin_called\s+times=' "$B/examples/plugin_host" "$B/examples/plugin.so" 3
check 'a C++ program emits' says 3 'tasks_done\s+seconds_f64=[0-9.]+(e-[0-9]+)? name="task [123]"' "$B/examples/tasks"
check 'a shell script emits for a failed copy' copy_things
check '… and for a successful one' in_last 'backup_file\s+status=0 bytes=4 name="first"'
sum_up
