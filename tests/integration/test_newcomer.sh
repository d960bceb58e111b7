#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A new user's first hour, in a container and on a host: README.md's three commands, short programs under `userevctl run`, refusals, and
# messages without a daemon.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
scratch=$(mktemp -d)
chmod 755 "$scratch"
trap 'rm -rf "$scratch"' EXIT
export TMPDIR=$scratch PATH=$B:$PATH PYTHONPATH=$PWD/client/python PYTHONDONTWRITEBYTECODE=1
unset USEREV_SOCKET USEREV_CONTROL_SOCKET USEREVCTL_WIDTH USEREV_WAIT USEREV_DEBUG
tree=$PWD

# says PATTERN COMMAND…: one of its outputs, which are kept for said_lines().
says()
{
	local pattern=$1
	shift
	"$@" >"$scratch/output" 2>&1 </dev/null
	cat "$scratch/output"
	grep -qE -- "$pattern" "$scratch/output"
}

# said_lines NUMBER PATTERN
said_lines()
{
	[ "$(grep -cE -- "$2" "$scratch/output")" -eq "$1" ] || { cat "$scratch/output"; return 1; }
}

is_silent()
{
	"$@" >"$scratch/output" 2>&1 </dev/null && ! grep . "$scratch/output"
}

# build NAME [OPTION…]: compiles standard input.
build()
{
	local name=$1
	shift
	cat >"$scratch/$name.c"
	"${CC:-cc}" -Wall -Wextra -Werror -O2 "$scratch/$name.c" -o "$scratch/$name" -I "$tree/client" "$@"
}

# --- README.md's first program and its three commands ---
# Run as written, except that `make` only prints its commands, the build directory is the tests', and slow machines get more time.
readme_commands()
{
	sed -n '/^## Three commands/,/^## /p' README.md | sed -n '/^    make$/,/^$/s/^    //p' |
		sed "s|^make$|make -n DEPENDENCIES=skip >$scratch/make.log|; s|build/|$B/|g; s|-o shop|-o $scratch/shop|; s|\\./shop|$scratch/shop|
			s|^cc |${CC:-cc} -Wall -Wextra -Werror |; s|timeout 2 |timeout 5 |" >"$scratch/commands"
	[ "$(wc -l <"$scratch/commands")" -eq 3 ] && bash -ec ". $scratch/commands"
}

check "README's program is the example" diff <(sed -n '/^```c$/,/^```$/p' README.md | sed '1d;$d') <(tail -n +3 client/examples/shop.c)
check "README's three commands print records" says 'shop_request.*status=200 us=4000 path="/cart"' readme_commands

build short "$B/libuserev.a" <<'END'
#include <stdio.h>
#include <string.h>
#include <userev.h>

USEREV_EVENT(shop, request, (u32, status), (string, path));
USEREV_EVENT(shop, sold, (u64, order), (s32, pieces), (f64, price));

int main(void)
{
	char path[64];

	for (uint64_t order = 1; scanf("%63s", path) == 1; order++) {
		uint32_t status = strcmp(path, "/buy") == 0 ? 200 : 404;

		if (status == 200)
			userev_emit(shop_sold, order, 1, 9.95);
		userev_emit(shop_request, status, path);
	}
	return 0;
}
END
# Five times, because of the race between a short program and the daemon.
every_record_is_seen()
{
	for _ in 1 2 3 4 5; do
		printf '/\n/buy\n/a b\n' | userevctl run -- "$scratch/short" >"$scratch/output" 2>&1
		sed -E 's/^[0-9:.]+\t[^\t]*\t[^\t]*\t//' "$scratch/output" >"$scratch/seen"
		diff "$scratch/seen" "$scratch/wanted" || return
	done
}

printf '%s\n' $'shop_request\tstatus=404 path="/"' $'shop_sold\torder=2 pieces=1 price_f64=9.95' \
	$'shop_request\tstatus=200 path="/buy"' $'shop_request\tstatus=404 path="/a"' $'shop_request\tstatus=404 path="b"' \
	'userevctl: 5 records, 0 lost' >"$scratch/wanted"
check 'run prints each record of a short program' every_record_is_seen

build by_hand "$B/libuserev.a" <<'END'
#include <userev.h>
int main(void)
{
	static struct userev_event event;
	struct userev *userev = userev_open(NULL, 0);
	userev_register(userev, &event, "by_hand u32 n", 0);
	return userev_write(&event, "1234", 4) != 4;
}
END
cat >"$scratch/once.py" <<'END'
import userev
userev.event("by_python u32 n").emit(7)
END
check 'run prints records of a program that registers by hand' says 'by_hand.*n=875770417' userevctl run -- "$scratch/by_hand"
check 'run prints records of a program in Python' says 'by_python.*n=7' userevctl run -- python3 "$scratch/once.py"

# The daemon is stopped for three seconds: longer than any call waits without USEREV_WAIT.
answered_late()
{
	local daemon program
	userevd --foreground --backend=embedded --policy= --socket="$scratch/late" --control-socket="$scratch/late-control" 2>"$scratch/log" &
	daemon=$!
	until userevctl --control-socket="$scratch/late-control" status >"$scratch/status" 2>&1; do
		sleep 0.05
	done
	kill -STOP $daemon
	"$@" >"$scratch/late-output" 2>&1 &
	program=$!
	sleep 3
	kill -CONT $daemon
	wait $program
	local status=$?
	kill $daemon
	wait $daemon
	cat "$scratch/late-output"
	return $status
}

build is_granted "$B/libuserev.a" <<'END'
#include <userev.h>
int main(void)
{
	static struct userev_event event;
	struct userev *userev = userev_open(NULL, 0);
	userev_register(userev, &event, "by_hand u32 n", 0);
	return userev_why(&event) != NULL;
}
END
cat >"$scratch/is_granted.py" <<'END'
import sys, userev
sys.exit(not userev.event("by_python u32 n").is_registered)
END
waits()
{
	answered_late env USEREV_WAIT=60000 USEREV_SOCKET="$scratch/late" "$@"
}
check 'USEREV_WAIT applies to events registered by hand' waits "$scratch/is_granted"
check 'USEREV_WAIT applies to Python' waits python3 "$scratch/is_granted.py"

build plugin.so -shared -fPIC -L "$B" -luserev <<'END'
#include <userev.h>
USEREV_EVENT(plugin, called, (u32, times));
void call(uint32_t times);
void call(uint32_t times)
{
	userev_emit(plugin_called, times);
}
END
build host -ldl <<'END'
#include <dlfcn.h>
#include <stdint.h>
int main(int argc, char **argv)
{
	for (uint32_t i = 1; i <= 10 && argc > 1; i++) {
		void *plugin = dlopen(argv[1], RTLD_NOW), (*call)(uint32_t);
		if (!plugin)
			return 1;
		*(void **)&call = dlsym(plugin, "call");
		call(i);
		dlclose(plugin);
	}
	return 0;
}
END
ln -sf "$B"/libuserev.so* "$scratch"
each_delivers()
{
	LD_LIBRARY_PATH=$scratch userevctl run -- "$scratch/host" "$scratch/plugin.so" >"$scratch/output" 2>&1
	for i in {1..10}; do
		said_lines 1 "plugin_called.*times=$i\$" || return
	done
}
check 'each record of a plugin arrives that is loaded, emits and is closed' each_delivers

# --- refusals ---
build refused "$B/libuserev.a" <<'END'
#include <stdio.h>
#include <string.h>
#include <userev.h>
int main(void)
{
	static struct userev_event first, other, wide, huge;
	char description[1024];
	struct userev *userev = userev_open(NULL, 0);
	userev_register(userev, &first, "twice u32 n", 0);
	userev_register(userev, &other, "twice u64 n", 0);
	memset(description, 'x', sizeof(description));
	memcpy(description + 210, " u32 n", 7);
	userev_register(userev, &wide, description, 0);
	memset(description, 'y', 600);
	description[600] = '\0';
	userev_register(userev, &huge, description, 0);
	return 0;
}
END
build refused_declared "$B/libuserev.a" <<'END'
#include <userev.h>
#define TWICE(type) USEREV_EVENT(one, name, (type, n));
TWICE(u32)
int main(void)
{
	static struct userev_event other;
	struct userev *userev = userev_open(NULL, 0);
	userev_register(userev, &other, "one_name u64 n", 0);
	return 0;
}
END
cat >"$scratch/refused.py" <<'END'
import userev
userev.event("twice u32 n")
userev.event("twice u64 n")
userev.event("x" * 210 + " u32 n")
userev.event("y" * 600)
END
under_run()
{
	says "$1" userevctl run -- "${@:2}"
}
prints_refusals()
{
	under_run '^userev: refused: twice u64 n: .' "$@" && said_lines 1 '^userev: refused: twice' &&
		said_lines 1 '^userev: refused: x{200}\.\.\.: .' && said_lines 1 '^userev: refused: y{200}\.\.\.: .' && said_lines 3 '^userev:'
}
under_debug()
{
	answered_late env USEREV_DEBUG=1 USEREV_SOCKET="$scratch/late" USEREV_WAIT=60000 "$@" >"$scratch/output" 2>&1
	said_lines 1 'refused: twice u64 n: .' && said_lines 1 'refused: x{200}\.\.\.: .' && said_lines 1 'refused: y{200}\.\.\.: .'
}
for program in "$scratch/refused" "python3 $scratch/refused.py"; do
	name=${program##*/}
	# shellcheck disable=SC2086 # a program and its argument
	check "$name: run prints refusals of two types, a long name and a long description, once each" prints_refusals $program
	# shellcheck disable=SC2086
	check "$name: USEREV_DEBUG prints the same refusals" under_debug $program
done
check 'run --quiet prints no refusal' is_silent userevctl run --quiet -- "$scratch/refused"
check 'run prints the refusal of a declared event' under_run '^userev: refused: one_name u64 n: .' "$scratch/refused_declared"

# --- emit ---
check 'emit waits without USEREV_WAIT' answered_late userevctl --socket="$scratch/late" emit 'late u32 n'
cat >"$scratch/emit_beside.py" <<'END'
import subprocess, userev
held = userev.event("twice u32 n")
subprocess.run(["userevctl", "emit", "twice u64 n"])
END
check 'emit prints its refusal once' says '^userevctl: the event was refused' userevctl run -- python3 "$scratch/emit_beside.py"
check 'the library does not print the refusal of emit' said_lines 0 '^userev:'

# --- without a daemon ---
export USEREV_SOCKET=$scratch/nobody
check 'emit succeeds silently without a daemon' is_silent sh -ec "userevctl emit 'x u32 n' n=1"
check 'emit --verbose reports that there is no daemon' says 'no daemon' userevctl emit --verbose 'x u32 n' n=1
check 'emit --require fails without a daemon' exits 3 userevctl emit --require 'x u32 n' n=1
check 'emit --require names the socket' says "$scratch/nobody" userevctl emit --require 'x u32 n' n=1
check 'emit refuses a wrong description' exits 1 userevctl emit 'x long n' n=1
check 'emit refuses a wrong value' exits 1 userevctl emit 'x u32 n' n=y
echo one >"$scratch/first"
echo two >"$scratch/second"
mkdir "$scratch/copies"
check 'a shell script runs silently without a daemon' is_silent sh client/examples/backup.sh "$scratch/copies" "$scratch/first" "$scratch/second"
check 'the shell script runs to its end' diff "$scratch/second" "$scratch/copies/second"
all_lines_are_read()
{
	seq -f 'n=%g' 100000 | (userevctl emit --stdin --json 'x u32 n' && cat) | grep '"lines":100000,"written":0,"untraced":100000,"lost":0'
}
check 'emit --stdin reads all lines' all_lines_are_read
came_later()
{
	local daemon
	export USEREV_SOCKET=$scratch/later
	mkfifo "$scratch/input"
	userevctl emit --stdin --json 'later u32 n' <"$scratch/input" >"$scratch/output" &
	local emitter=$!
	exec 3>"$scratch/input"
	echo n=1 >&3
	userevd --foreground --backend=embedded --policy= --socket="$USEREV_SOCKET" --control-socket="$scratch/later-control" 2>"$scratch/log" 3>&- &
	daemon=$!
	until userevctl --control-socket="$scratch/later-control" events 2>"$scratch/status" | grep -q ^later; do
		sleep 0.1
	done
	exec 3>&-
	wait $emitter
	kill $daemon
	wait $daemon
}
check 'emit --stdin finds a daemon that starts later' came_later
unset USEREV_SOCKET

# --- the path in messages, with the /run of a container ---
# in_container DIRECTORIES COMMAND…
in_container()
{
	unshare -m sh -c 'mount -t tmpfs none /run && [ -z "$1" ] || mkdir -p $1; shift; exec "$@"' sh "$@"
}
client=/run/userevd/client/userevd.sock
if in_container '' true 2>/dev/null; then
	mount_it='-v /run/userevd/client:/run/userevd/client:ro'
	for command in "emit --require x" doctor; do
		# shellcheck disable=SC2086 # a command and its arguments
		check "${command%% *} names the path of containers" says "$client" in_container '' userevctl $command
		check "${command%% *} does not name the path of hosts" said_lines 0 'at /run/userevd.sock'
	done
	check 'emit refers to doctor' says "'userevctl doctor' shows why" in_container '' userevctl emit --require x
	check 'doctor suggests the mount' says "$mount_it.*userevd-containers" in_container '' userevctl doctor
	check 'doctor reports with the mount that the host has no daemon' says 'on its host' in_container /run/userevd/client userevctl doctor
	check 'doctor does not suggest the existing mount' said_lines 0 "$mount_it"
	check 'status refers to the host' says 'In a container, run this on the host' in_container '' userevctl status
	check 'a debug line names the path of containers' says "no connection to $client: .*$mount_it" in_container '' \
		env USEREV_DEBUG=1 "$scratch/by_hand"
	check 'a debug line in Python names the path of containers' says "$client: .*$mount_it" in_container '' env USEREV_DEBUG=1 python3 "$scratch/once.py"
	beside_a_daemon='userevd --foreground --backend=embedded --policy= --socket='$client' --control-socket=/run/elsewhere 2>/dev/null & daemon=$!
		until [ -S '$client' ]; do sleep 0.05; done; userevctl status; userevctl doctor; kill $daemon; wait $daemon'
	check 'status names the socket of programs' says "Programs find a daemon at $client" \
		in_container /run/userevd/client bash -c "$beside_a_daemon"
	check 'doctor uses the socket of programs' said_lines 1 "socket: $client exists"
fi
sum_up
