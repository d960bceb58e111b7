#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl as people and scripts use it, against a daemon with one program.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh

fits_a_screen()
{
	"$ctl" --help | awk 'length > 80 { long = 1 } END { exit long || NR > 24 }'
}

nothing_is_left()
{
	! ls -d "$scratch"/userevctl-* 2>/dev/null && ! pgrep -P $$ -x userevd | grep -vx "$daemon"
}

run_killed()
{
	"$ctl" run --quiet -- sh -c 'kill -TERM $$'
}

# By SIGTERM: a shell starts background programs with SIGINT ignored.
run_terminated()
{
	"$ctl" run --quiet -- sh -c 'touch "$TMPDIR/runs"; exec sleep 20' &
	local run=$!
	within test -e "$scratch/runs"
	kill $run
	wait $run
}

keeps_stdout_apart()
{
	[ "$("$ctl" run -- sh -c 'echo mine; '"$ctl emit 'kept u32 n' n=1" 2>/dev/null)" = mine ]
}

no_colour_in_a_pipe()
{
	! "$ctl" events | grep -q $'\e'
}

shows_in_time()
{
	"$ctl" tail --count=3 --timeout=10 demo_request >"$scratch/tail" && [ "$(wc -l <"$scratch/tail")" -eq 3 ]
}

head_ends_quietly()
{
	[ -z "$({ "$ctl" tail --timeout=10 demo_request | head -1 >/dev/null; } 2>&1)" ]
}

# Without a daemon.
check '--help fits a screen' fits_a_screen
for command in status events tenants top metrics enable disable delete mute unmute block unblock tail hist session emit run policy reload doctor version; do
	check "$command --help helps" says "^Usage: userevctl $command" "$ctl" $command --help
done
check 'no daemon is exit status 3' exits 3 "$ctl" status
check '… with advice' says 'Start one with' "$ctl" status
check 'emit without a daemon is exit status 3 if it is required' exits 3 "$ctl" emit --require 'x u32 n' n=1
check 'doctor says that there is no daemon' says '\[fail\] socket' "$ctl" doctor
check '… and fails' exits 1 "$ctl" doctor
check 'a wrong command is exit status 2' exits 2 "$ctl" evnets
check '… and names the right one' says "Did you mean 'events'" "$ctl" evnets
check 'a wrong option is exit status 2' exits 2 "$ctl" events --nosuch
check '… and names the right one' says "Did you mean '--foreign'" "$ctl" tail --foriegn
check '… also of one letter' says "no option '-x'. See 'userevctl events --help'" "$ctl" events -x
check 'an option without its value says so' says "option '--count' needs a value" "$ctl" tail --count
check 'a missing argument is exit status 2' exits 2 "$ctl" enable
check 'version without a daemon' says 'userevctl [0-9]' "$ctl" version

mkdir "$scratch/policy"
start_daemon --max-events=8 --policy="$scratch/policy"
start_program demo 300

# With one.
check 'status' says 'embedded' "$ctl" status
check 'status as JSON' json 'it["backend"] == "embedded" and it["events"] == 1' "$ctl" status --json
check 'no event is on' says 'No event matches' "$ctl" events --on
check 'events as JSON' json 'it[0]["event"] == "demo_request" and it[0]["on"] is False and it[0]["holders"][0]["comm"] == "requests"' \
	"$ctl" events --json
check 'events of a pattern that matches none' says_not demo_request "$ctl" events 'nothing*'
check 'tenants as JSON' json 'it[0]["events"] == 1 and it[0]["events_max"] == 8' "$ctl" tenants --json
check 'no colours in a pipe' no_colour_in_a_pipe
check 'colours where they are wanted' says $'\e\\[' "$ctl" --color=always events
check 'doctor is content' exits 0 "$ctl" doctor
daemon_uid=$(awk '/^Uid:/ { print $3 }' "/proc/$daemon/status")
if [ "$daemon_uid" -ne 0 ] && [ "$(id -u)" -eq 0 ]; then
	setpriv --reuid="$daemon_uid" --clear-groups sleep 1000 &
	other=$!
	check 'doctor says that another program runs as the daemon'"'"'s user' within says "^\[note\] user: [0-9]+ other .* user $daemon_uid," "$ctl" doctor
	kill $other
	wait $other
fi
check 'enable of an unknown event is exit status 1' exits 1 "$ctl" enable demo_reqest
check '… and names those that look alike' says 'demo_request' "$ctl" enable demo_reqest
check 'enable' says 'on' "$ctl" enable demo_request
check '… is seen' json 'it[0]["on"] is True' "$ctl" events --json
check '… also among those that are on' json '[one["event"] for one in it] == ["demo_request"]' "$ctl" events --on --json
check 'tail shows records and ends after --count' shows_in_time
check '… decoded' grep -q 'status=200 ns=[0-9]* path="/' "$scratch/tail"
check 'tail into head ends quietly' head_ends_quietly
check 'tail as JSON' json 'it[0]["event"] == "demo_request" and it[0]["fields"]["status"] in (200, 404) and it[0]["comm"] == "requests"' \
	"$ctl" tail --json --count=2 --timeout=10 demo_request
check 'disable' says 'off' "$ctl" disable demo_request
check '… is seen' json 'it[0]["on"] is False' "$ctl" events --json
check '… also among those that are on' json 'it == []' "$ctl" events --on --json
check 'events of a tenant' says '^demo_request' "$ctl" events --tenant='/*'
check '… and of no other' says_nothing "$ctl" events --tenant=nobody
check '… in a wrong order' exits 2 "$ctl" events --sort=size
mkfifo "$scratch/sorted"
exec 7<>"$scratch/sorted"
for i in 1 2; do
	start "$scratch/sorted.out" sh -c 'exec "$0" emit --stdin "another u32 n" <"$1"' "$ctl" "$scratch/sorted"
done
check '… with most programs first' within json '[one["event"] for one in it] == ["another", "demo_request"]' "$ctl" events --json --sort=programs
end "${started[-1]}" "${started[-2]}" 2>/dev/null
unset 'started[-1]' 'started[-1]'
exec 7>&-
check '… with most records first' json '[one["event"] for one in it][0] == "demo_request" and it[0]["records"] > 0' "$ctl" events --json --sort=records
check 'emit without a tracer succeeds' exits 0 "$ctl" emit 'quiet u32 n' n=1
check '… and --verbose prints the reason' says 'no tracer is active' "$ctl" emit --verbose 'quiet u32 n' n=1
check 'emit of a field that is not there names those that are' says "'?n'?" "$ctl" emit 'quiet u32 n' m=1
check '… and fails' exits 1 "$ctl" emit 'quiet u32 n' m=1
check 'emit of a number out of range says the range' says '4294967295' "$ctl" emit 'quiet u32 n' n=-1
check 'a refused description is exit status 1' exits 1 "$ctl" emit 'bad long n' n=1
if [ "$(id -u)" = 0 ]; then
	cp "$ctl" "$scratch/userevctl" && chmod 755 "$scratch/userevctl"
	check 'status is for admins' exits 4 as_nobody "$scratch/userevctl" status
	check 'but may emit' exits 0 as_nobody "$scratch/userevctl" emit 'anybodys u32 n' n=1
	check 'and the doctor says that it works' says '\[ ?ok ?\]' as_nobody "$scratch/userevctl" doctor
else
	check 'emit needs no privilege' exits 0 "$ctl" emit 'anybodys u32 n' n=1
fi

check 'tail of past records' says 'demo_request.*status=' "$ctl" tail --past --no-follow demo_request
check 'tail of past records, as JSON' json 'all(row["event"] == "demo_request" for row in it)' \
	"$ctl" tail --past --no-follow --json demo_request
check 'tail ends after --timeout' exits 0 "$ctl" tail --timeout=1
check 'tail of an unknown event names those that look alike' says demo_request "$ctl" tail demo_requests
check '… since a time' says 'demo_request.*status=' "$ctl" tail --since=1h --no-follow demo_request
check '… which is to come' says_nothing "$ctl" tail --since="$(date -d '+1 hour' '+%F %T')" --no-follow demo_request
check 'tail on a narrow terminal' says 'demo_r' "$ctl" --width=60 tail --past --no-follow --count=1 demo_request
check 'events on a narrow terminal' says 'demo_request' "$ctl" --width=60 events --full
check 'tenants of a pattern that matches none' exits 1 "$ctl" tenants '/nowhere/*'
check 'status on a terminal' says 'embedded' "$ctl" --width=80 --color=always status
check 'version as JSON' json 'it["userevctl"] == it["userevd"]' "$ctl" version --json
check 'doctor as JSON' json 'all(one["result"] in ("ok", "note") for one in it["checks"]) if "checks" in it else True' \
	"$ctl" doctor --json
check 'every type can be emitted' exits 0 "$ctl" emit \
	'typed u8 a; s16 b; u32 c; s64 d; char[8] e; __rel_loc char[] f; struct blob g 2; char h; __rel_loc u16[] i' \
	a=0xff b=-1 c=7 d=-9 e=abc f='a "string"' g=beef "h='x'" i=01000200

# Lines of stdin. `stream N COMMAND…` gives it that many.
stream()
{
	local n=$1
	shift
	seq "$n" | sed 's/.*/n=& text="line &"/' | "$@"
}

# lines TEXT COMMAND…: its output, with those lines as its stdin.
lines()
{
	printf "$1" | "${@:2}"
}

# Its input pauses, and stays open.
is_prompt()
{
	local fd emitter reader
	mkfifo "$scratch/input"
	"$ctl" emit --stdin 'prompt u32 n' <"$scratch/input" &
	emitter=$!
	exec {fd}>"$scratch/input"
	"$ctl" tail --wait --count=1 --timeout=60 prompt >"$scratch/prompt" &
	reader=$!
	until [ -s "$scratch/prompt" ]; do
		echo n=3 >&$fd
		sleep 0.05
	done
	exec {fd}>&-
	wait $emitter && wait $reader && grep -q 'n=3' "$scratch/prompt"
}

# ends_by SIGNAL STATUS: with its input still open, and after it has printed its numbers.
ends_by()
{
	local fd pid status
	rm -f "$scratch/input"
	mkfifo "$scratch/input"
	# Otherwise the line of the last program could be found before this one has begun.
	rm -f "$scratch/printed"
	# A shell starts background programs with SIGINT ignored.
	env --default-signal="$1" "$ctl" emit --stdin --verbose 'ended u32 n' <"$scratch/input" 2>"$scratch/printed" &
	pid=$!
	exec {fd}>"$scratch/input"
	echo wrong >&$fd
	within grep -q 'line 1' "$scratch/printed"
	kill -"$1" $pid
	wait $pid
	status=$?
	exec {fd}>&-
	cat "$scratch/printed"
	[ $status -eq "$2" ] && grep -q 'ended: 0 records' "$scratch/printed"
}

text='text u32 n; __rel_loc char[] text'
check 'a record for each line' json 'it["lines"] == 3 and it["untraced"] == 3' stream 3 "$ctl" emit --stdin --json "$text"
"$ctl" tail --wait --timeout=300 'text' >"$scratch/text" 2>/dev/null &
reader=$!
check '… is written if a tracer is active' json 'it["lines"] == it["written"] + it["untraced"] == 100 and it["written"] > 0' \
	stream 100 sh -c 'sleep 1; exec "$0" "$@"' "$ctl" emit --stdin --json "$text"
check '… in both notations, and the last without its end' json 'it["written"] == 3' \
	lines 'n=1 text="a b\\x21"\n{"n":2,"text":"\\u0041"}\nn=3' "$ctl" emit --stdin --json "$text"
check '… and read' grep -q 'n=1 text="a b!"' "$scratch/text"
check '… from both notations' grep -q 'n=2 text="A"' "$scratch/text"
check 'a wrong line is reported with its number' says 'line 2: n=x: u32 takes' \
	lines 'n=1\nn=x\nn=3\n' "$ctl" emit --stdin "$text"
check '… and makes it fail' exits 1 lines 'n=1\nn=x\nn=3\n' "$ctl" emit --stdin "$text"
check '… the others are written' json '(it["written"], it["refused"]) == (2, 1)' \
	lines 'n=1\nn=x\nn=3\n' "$ctl" emit --stdin --json "$text"
check 'a record that is too large is refused, and no other' json '(it["written"], it["refused"]) == (2, 1)' \
	lines "n=1\ntext=$(printf '%04056d' 0)\ntext=$(printf '%04055d' 0)\n" "$ctl" emit --stdin --json "$text"
check 'a line without an end is refused, and no other' json '(it["lines"], it["written"], it["refused"]) == (3, 2, 1)' \
	lines "n=1\ntext=$(printf '%0200000d' 0)\nn=2" "$ctl" emit --stdin --json "$text"
check 'all lines are counted' json \
	'it["lines"] == 50000 == it["written"] + it["lost"] and it["untraced"] == it["refused"] == 0' \
	stream 50000 "$ctl" emit --stdin --json "$text"
kill $reader
wait $reader
check 'a record is written as soon as its line is there' is_prompt
check 'SIGINT ends it as it should, with its numbers' ends_by INT 130
check 'so does SIGTERM' ends_by TERM 143
check '--stdin takes no fields from the command line' exits 2 "$ctl" emit --stdin "$text" n=1
check 'no line at all is fine' exits 0 "$ctl" emit --stdin "$text" </dev/null
check 'a refused description is exit status 1 before anything is read' exits 1 "$ctl" emit --stdin 'bad long n' </dev/null

check 'a description from a file of the wrong kind is refused by name' says 'bad-description|field 1' "$ctl" emit 'bad double x' x=1

program=${started[*]}
for i in 1 2 3 4 5 6 7 8; do
	start "$scratch/greedy$i" "$B/examples/requests" "greedy$i" 60
done
check 'a tenant takes all it may have' within says '"events": *8' "$ctl" tenants --json
check '… the doctor says that the quota is used up' says 'quota|8 of 8' "$ctl" doctor
check '… and that events do not work' exits 1 "$ctl" doctor
check '… which is shown with its reason' says 'quota-exceeded' "$ctl" tenants
check '… and as JSON' json 'any(one["reason"] == "quota-exceeded" for one in it[0]["refusals"])' "$ctl" tenants --json
end "${started[@]:1}" 2>/dev/null
started=("$program")
check 'programs that end give their events back' exits 0 "$ctl" doctor

check 'run shows the records of a program' says 'own_request.*path="/login"' "$ctl" run -- "$B/examples/requests" own 0.3
check 'run keeps the program'"'"'s output apart' keeps_stdout_apart
check 'run has the exit status of the program' exits 7 "$ctl" run --quiet -- sh -c 'exit 7'
check '… or 128 and the signal' exits 143 run_killed
check 'run of a missing program is exit status 127' exits 127 "$ctl" run -- /nonexistent/program
check 'run that is ended ends its program' exits 143 run_terminated
# titles
check "policy explain's second table has titles in a pipe" says $'^LEVEL\tHOLDS\tMAX\tPAYS FOR\tSHARING\tFILES\tFILE MAX\tLEASES\tLEASE MAX$' "$ctl" policy explain / 'told u32 n'
no_title_twice()
{
	"$ctl" --width=200 tenants | head -1 | grep -oE '[A-Z]+( [A-Z]+)*' | sort | uniq -d | grep . && return 1
	"$ctl" --width=200 tenants | grep -q 'CONN MAX'
}
check 'no title of tenants stands twice' no_title_twice
# reload
check 'reload without files' says '^loaded: 0 sections from 0 files$' "$ctl" reload
printf '[/a]\nMaxEvents=1\nMaxEvent=1\n' >"$scratch/policy/10.conf"
check 'reload counts' says '^loaded: 1 section from 1 file$' "$ctl" reload
check '… warns, as policy check does' says '/10.conf:3: warning: MaxEvent=: .* did you mean MaxEvents=\?$' "$ctl" reload
check '… is JSON' json '(it["loaded"] is True and it["sections"] == 1 and
	it["files"] == 1 and [p["severity"] for p in it["problems"]] == ["warning"])' "$ctl" reload --json
printf '[/a]\nMaxEvents=many\n' >"$scratch/policy/20.conf"
check 'reload of wrong files is exit status 1' exits 1 "$ctl" reload
check '… prints the place and a correction' says '/20.conf:2: MaxEvents=many: not a number; give 0 to 65535, or infinity$' "$ctl" reload
check '… and that nothing has changed' says '^userevctl: not loaded; the policy stays as it was\.$' "$ctl" reload
check '… as JSON, too' json '(it["loaded"] is False and "files" not in it and
	[(p["severity"], p["line"], p["key"]) for p in it["problems"]] == [("warning", 3, "MaxEvent"), ("error", 2, "MaxEvents")])' \
	"$ctl" reload --json
check 'reload takes no argument' exits 2 "$ctl" reload 10.conf
rm "$scratch/policy"/*
check 'without the files reload succeeds' exits 0 "$ctl" reload

check 'run as JSON' json 'it[0]["event"] == "shell" and it[0]["fields"] == {"n": 5}' \
	sh -c "'$ctl' run --json --output='$scratch/out' -- '$ctl' emit 'shell u32 n' n=5; cat '$scratch/out'"
check 'run leaves nothing behind' nothing_is_left

# Sockets without a daemon.
python3 - "$scratch/mute" <<'END' &
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen()
time.sleep(60)
END
mute=$!
within test -S "$scratch/mute"
check 'doctor finds a socket that does not answer' says '\[fail\]' "$ctl" --socket="$scratch/mute" doctor
kill -9 $mute
wait $mute 2>/dev/null
check 'doctor finds a socket without a listener' says 'refused|nobody|no daemon' "$ctl" --socket="$scratch/mute" doctor
python3 - "$scratch/ending" <<'END' &
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.bind(sys.argv[1])
s.listen()
# Each answer is ROWS with one row, and more to come: first of its status, then of what is asked.
row = struct.pack("<BBH", ord("t"), 7, 1) + b"granted\1"
for _ in range(2):
    client, _ = s.accept()
    serial = struct.unpack_from("<I", client.recv(4096), 8)[0]
    client.send(struct.pack("<IHBBIIHHI", 24 + len(row), 135, 1, 0, serial, 0, 1, 0, len(row)) + row)
    client.close()
END
within test -S "$scratch/ending"
check 'explain reports a daemon that ends in the middle of its answer' says 'the daemon' "$ctl" --control-socket="$scratch/ending" policy explain /a 'a u32 n'
wait $!
check 'another socket than the control socket is an error' exits 1 "$ctl" --control-socket="$USEREV_SOCKET" status
if [ "$(id -u)" = 0 ]; then
	install -m 0600 /dev/null "$scratch/closed" && rm "$scratch/closed"
	chmod 0600 "$USEREV_SOCKET"
	check 'doctor finds a socket without permission' says 'permission|Permission' as_nobody "$scratch/userevctl" doctor
	check '… emit does, too' exits 4 as_nobody "$scratch/userevctl" emit 'x u32 n' n=1
	chmod 0666 "$USEREV_SOCKET"
fi
sum_up
