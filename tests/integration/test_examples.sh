#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The examples do what they say: each is run by `userevctl run`, and its records are read.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
server=''
trap '[ -z "$server" ] || kill $server 2>/dev/null; wait; rm -rf "$scratch"' EXIT
export TMPDIR=$scratch PATH=$B:$PATH PYTHONPATH=client/python PYTHONDONTWRITEBYTECODE=1
# Programs that end at once would be gone before anybody has answered them.
export USEREV_WAIT=60000
unset USEREV_SOCKET USEREVCTL_WIDTH

seen()
{
	[ "$(grep -cE -- "$2" "$scratch/out")" -ge "$1" ]
}

# Those that end by themselves soon are waited for.
wait_or_end()
{
	for _ in {1..20}; do
		kill -0 "$1" 2>/dev/null || break
		sleep 0.1
	done
	kill "$1" 2>/dev/null
	wait "$1"
}

# says N PATTERN COMMAND…: in that many of its records, or lines, within two minutes; then it may end.
says()
{
	local wanted=$1 pattern=$2 running
	shift 2
	userevctl run -- "$@" >"$scratch/out" 2>&1 </dev/null &
	running=$!
	for _ in {1..1200}; do
		seen "$wanted" "$pattern" && break
		kill -0 $running 2>/dev/null || break
		sleep 0.1
	done
	wait_or_end $running
	cat "$scratch/out"
	seen "$wanted" "$pattern"
}

in_last()
{
	grep -E -- "$1" "$scratch/out"
}

# ask PORT PATH: the status that the server gives.
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
		userevctl run -- "$B/examples/server" "$port" 3 >"$scratch/server" 2>&1 &
		server=$!
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

server_said()
{
	grep -E -- "$1" "$scratch/server"
}

copy_things()
{
	mkdir "$scratch/copies"
	echo one >"$scratch/first"
	says 1 'backup_file\s+status=1 bytes=0 name="missing"' sh client/examples/backup.sh "$scratch/copies" "$scratch/first" "$scratch/missing"
}

check 'hello says so' says 1 'hello_said\s+count=1 whom="world"' "$B/examples/hello"
check 'hello.py does, too' says 1 'hello_said\s+count=1 whom="world"' python3 client/examples/hello.py
start_server
check 'a request server is one' test -s "$scratch/port"
check '… that answers' server_answers /time 200
check '… and finds nothing at other places' server_answers /favicon.ico 404
wait "$server"
server=''
check '… with an event for each' server_said 'server_request\s+status=404 ns=[0-9]+ path="/favicon.ico"'
check '… of either kind' server_said 'server_request\s+status=200 ns=[0-9]+ path="/time"'
check 'a library has events that its program knows nothing of' says 2 'stack_full\s+refused=' "$B/examples/use_stack"
check '… all of them' in_last 'stack_pushed\s+number=64 depth=8'
check 'a plugin has its own' says 3 'plugin_called\s+times=' "$B/examples/plugin_host" "$B/examples/plugin.so" 3
check 'C++ has them' says 3 'tasks_done\s+seconds_f64=[0-9.]+(e-[0-9]+)? name="task [123]"' "$B/examples/tasks"
check 'a shell script has them, of what goes wrong' copy_things
check '… of what went well, too' in_last 'backup_file\s+status=0 bytes=4 name="first"'
sum_up
