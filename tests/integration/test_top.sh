#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl top on a terminal, with a daemon whose tenants come and go, and which itself comes and goes.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
trap 'end_all; end $(cat "$scratch/pid") 2>/dev/null; rm -rf "$scratch"' EXIT
export TERM=xterm

# In the background of the caller, with its pid in a file; daemons are started one after the other.
cat >"$scratch/start" <<END
"$B/userevd" --foreground --backend=embedded --max-events=2 --tenants=process --socket="$USEREV_SOCKET" \
	--control-socket="$USEREV_CONTROL_SOCKET" >>"$scratch/log" 2>&1 &
echo \$! >"$scratch/pid"
END

start_daemon()
{
	. "$scratch/start"
	within test -S "$USEREV_CONTROL_SOCKET"
}

# start_program NAME EVENTS: a tenant of that name, which asks for so many.
start_program()
{
	cp "$B/tests/emitter" "$scratch/$1"
	mkfifo "$scratch/$1.in"
	start "$scratch/$1.out" sh -c 'exec "$0" <>"$0.in"' "$scratch/$1"
	local i
	for i in $(seq "$2"); do
		printf 'register\t%s_%d u32 n\n' "$1" "$i"
	done >"$scratch/$1.in"
	within has_answers "$1" "$2"
}

has_answers()
{
	[ "$(wc -l <"$scratch/$1.out")" -ge "$2" ]
}

# top SIZE STEP…: see terminal.py.
top()
{
	tests/integration/terminal.py "$@" -- "$ctl" top --interval=1
}

prints_frames()
{
	[ "$("$ctl" top --batch="$1" | grep -c '^NAME')" = "$1" ]
}

first_is()
{
	[[ "$("$ctl" tenants "${@:2}" | head -1)" == "$1"-* ]]
}

is_json()
{
	"$ctl" top --json --batch=2 | python3 -c '
import json, sys
frames = [json.loads(line) for line in sys.stdin]
names = [tenant["name"].split("-")[0] for tenant in frames[1]["tenants"]]
sys.exit(len(frames) != 2 or frames[0]["status"]["backend"] != "embedded" or sorted(names) != ["bank", "greedy", "shop"])'
}

named_as_json()
{
	"$ctl" tenants --json --sort=refusals | python3 -c '
import json, sys
tenants = json.load(sys.stdin)
sys.exit(not tenants[0]["name"].startswith("greedy-") or not tenants[0]["tenant"].startswith("process:") or
    tenants[0]["events_max"] != 2 or "reserved" not in tenants[0] or tenants[0]["refusals"][0]["reason"] != "quota-exceeded")'
}

fits_a_terminal()
{
	"$ctl" --width=100 tenants | awk 'length > 100 { exit 1 } END { exit NR != 4 }'
}

shortens_nothing()
{
	"$ctl" --width=80 tenants --full | grep -q "process:${started[0]}:shop "
}

is_plain()
{
	! "$ctl" top --once | grep -q $'\e'
}

kill_daemon='kill -KILL $(cat '"$scratch"'/pid)'
hang_daemon='kill -STOP $(cat '"$scratch"'/pid)'
wake_daemon='kill -CONT $(cat '"$scratch"'/pid)'

check 'without a daemon it fails, and leaves the terminal alone' top 80x24 ends 3
check '… also where there is no terminal' exits 3 "$ctl" top --once
check 'the daemon starts' start_daemon
check 'without a program it shows a sentence' top 80x24 see 'No program is connected' press q ends 0
start_program shop 1
start_program bank 2
start_program greedy 5

check 'tenants has a line for each, that fits' fits_a_terminal
check '… or is not shortened' shortens_nothing
check '… with most events first' says '^(bank|greedy)-' "$ctl" tenants
check '… or by refusals' first_is greedy --sort=refusals
check '… by name' first_is bank --sort=name
check '… with names and all fields as JSON' named_as_json
check '… of a name' says '^shop-[0-9]+	process:[0-9]+:shop	1	2	0	0	1	' "$ctl" tenants 'shop-*'
check '… with its refusals' says '^greedy-.*	quota-exceeded 3$' "$ctl" tenants 'greedy-*'
check '… and a key that there is not is wrong usage' exits 2 "$ctl" tenants --sort=size

check 'in a pipe it prints a frame' prints_frames 1
check '… or as many as are wanted' prints_frames 2
check '… without colours and other sequences' is_plain
check '… or as JSON' is_json
check '… and no argument' exits 2 "$ctl" top shop

check 'on a terminal it shows all, and q ends it' top 100x24 see '^shop-' see '^bank-' see '^greedy-' fits press q ends 0
check 'a question mark explains the columns, and goes back' top 80x24 see '^shop-' press '?' see '^THR/S +the same' \
	hide '^shop-' fits press '?' see '^shop-' press '?' see '^NAME +the' press n see '\[name\]' see '^shop-' press q ends 0
check 'so does Ctrl-C' top 80x24 see shop press '\x03' ends 0
check 'SIGTERM ends it, after the terminal is given back' top 80x24 see shop fits signal TERM ends -15
check 'so does SIGHUP' top 80x24 see shop fits signal HUP ends -1
check 'letters and arrows choose the order' top 100x24 see '\[events\]' press r see '\[refusals\]' \
	see 'NAME[^\n]*\ngreedy' press n see '\[name\]' see 'NAME[^\n]*\nbank' press '\x1b[D' see '\[throttled\]' press '\x1bOC' \
	see '\[name\]' press q ends 0
check 'changes come in by themselves' top 100x24 see '^shop-\d+ .* 1 +2 ' \
	run "printf 'register\tlater u32 n\n' >$scratch/shop.in" see '^shop-\d+ .* 2 +2 ' \
	run "printf 'release\tlater\n' >$scratch/shop.in" press q ends 0
check 'refusals are shown by the second' top 100x24 see 'refused 0/s' \
	run "printf 'register\tmore u32 n\nregister\tmore u32 n\n' >$scratch/greedy.in" see 'refused \d\.\d/s' \
	see 'refused 0/s' press q ends 0
check 'it follows the size of the terminal' top 100x30 fits resize 40x10 fits resize 200x50 fits resize 60x7 fits press q ends 0
check '… and works at 40x10' top 40x10 see '^greedy.*\[\|+\]' fits press c see 'CONN' press q ends 0
check 'tenants that do not fit can be scrolled to' top 80x7 see '1-2 of 3' press '\x1b[B' see '2-3 of 3' press '\x1b[5~' see '1-2 of 3' \
	press q ends 0
check 'a terminal of one line has the first one' top 40x1 see '^embedded' press q ends 0
check 'Ctrl-Z gives the terminal back, and fg takes it again' top 80x24 see shop press '\x1a' stops continue \
	run 'sleep 0.2' press n see '\[name\]' fits press '\x1a' stops continue press q ends 0
check 'in the background it stops again, and leaves the terminal alone' top 80x24 see shop press '\x1a' stops background stops \
	continue press n see '\[name\]' fits press q ends 0
check 'started in the background it waits until it is in front' top 80x24 behind stops continue see shop fits press q ends 0
check 'SIGSTOP gives nothing back, but SIGCONT takes it again' top 80x24 see shop fits signal STOP halts continue \
	press n see '\[name\]' fits press q ends 0
check 'it shows that the daemon has gone, and connects to the next daemon' top 80x24 see shop run "$kill_daemon" \
	see 'The daemon does not answer' see '^shop' fits press n see '\[name\]' resize 40x10 fits run ". $scratch/start" \
	hide 'The daemon does not answer' press q ends 0
check '… and q ends it while there is none' top 80x24 see embedded run "$kill_daemon" see 'does not answer' press q ends 0
check 'another daemon starts' start_daemon
check 'a daemon that hangs is shown, and keys still work' top 80x24 see embedded run "$hang_daemon" see 'does not answer' press n \
	see '\[name\]' run "$wake_daemon" hide 'does not answer' press q ends 0
check '… as does Ctrl-C' top 80x24 see embedded run "$hang_daemon" see 'does not answer' press '\x03' ends 0
eval "$wake_daemon"
sum_up
