#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl as a tracer, on a kernel with user_events: as root, in a guest. First without a daemon, where all events are foreign; then
# with one.

cd "$(dirname "$0")/../.." || exit 1
tracefs=/sys/kernel/tracing
if [ "$(id -u)" != 0 ] || [ ! -e $tracefs/user_events_status ]; then
	echo '0 passed, 0 failed, 1 skipped: tracing needs root and a kernel with user_events'
	exit 0
fi
. tests/integration/tool.sh
direct=$B/tests/direct

# made OPTION… DESCRIPTION…: a program of the other sort, which is registered when this returns.
made()
{
	start "$scratch/made.${#started[@]}" "$direct" "$@"
	within grep -q registered "$scratch/made.$((${#started[@]} - 1))"
}

# in_cgroup DIRECTORY COMMAND…: in the background.
in_cgroup()
{
	start "$scratch/program.${#started[@]}" sh -c 'echo $$ >"$0"/cgroup.procs && exec "$@"' "$@"
}

# event NAME EXPRESSION: about the one of that name.
event()
{
	json "(lambda it: $2)(next(e for e in it if e['event'] == '$1'))" "$ctl" events --json "$1"
}

enabled()
{
	[ "$(cat $tracefs/events/user_events/"$1"/enable)" = 1 ]
}

is_off()
{
	[ "$(cat $tracefs/events/user_events/"$1"/enable)" = 0 ]
}

used()
{
	grep -qE "(^|:)$1 # Used by" $tracefs/user_events_status
}

# instances N: so many of ours.
instances()
{
	[ "$(ls $tracefs/instances | grep -c '^userevctl-')" -eq "$1" ]
}

no_instance()
{
	instances 0
}

# lines_of FILE N: it has so many, soon.
lines_of()
{
	[ "$(wc -l <"$1")" -eq "$2" ]
}

# Events without a holder outlive their programs with the older ABI, and always where they were made by hand.
forget_events()
{
	local event
	grep '^u:' $tracefs/dynamic_events >"$scratch/dynamic_events"
	while read -r event; do
		echo "!$event" >>$tracefs/dynamic_events
	done <"$scratch/dynamic_events" 2>/dev/null
}

# ends_by SIGNAL: a tail that gets it removes its instance and ends by it. (A shell starts background programs with SIGINT ignored.)
ends_by()
{
	env --default-signal="$1" "$ctl" tail --foreign plain >/dev/null 2>&1 &
	local tail=$!
	within used plain
	kill -"$1" $tail
	exits $((128 + $(kill -l "$1"))) wait $tail && no_instance
}

# A reader that does not read: the tail waits in write(), and ends nevertheless.
ends_while_nobody_reads()
{
	local tail reader
	mkfifo "$scratch/fifo"
	sleep 100 <"$scratch/fifo" &
	reader=$!
	"$ctl" tail --foreign stuffed >"$scratch/fifo" 2>/dev/null &
	tail=$!
	within used stuffed
	sleep 1
	kill $tail
	wait $tail
	kill $reader
	wait $reader 2>/dev/null
	rm "$scratch/fifo"
	no_instance
}

head_ends_quietly()
{
	local said
	said=$({ "$ctl" tail --foreign --timeout=120 ticking | head -1 >/dev/null; } 2>&1 | grep -v 'no daemon')
	[ -z "$said" ] || { echo "it said: $said"; return 1; }
	within no_instance
}

# Records are written while the tail does not read. The records that it shows and the number that it missed add up.
counts_missed_records()
{
	local tail
	made --when="$scratch/go" --count=60000 --number=n 'flood u32 n; u64 more'
	start "$scratch/flood" "$ctl" tail --foreign --json flood
	tail=$!
	within used flood
	echo 64 >$tracefs/instances/userevctl-$tail/buffer_size_kb
	kill -STOP $tail
	touch "$scratch/go"
	within grep -q written "$scratch"/made.$((${#started[@]} - 2))
	kill -CONT $tail
	within json '(lambda numbers, missed: missed > 0 and numbers == sorted(numbers) and len(numbers) + missed == 60000)(
		[one["fields"]["n"] for one in it if "fields" in one], sum(one.get("missed", 0) for one in it))' cat "$scratch/flood" &&
		kill $tail
}

is_first_of_its_kind()
{
	[ "$(ls -d $tracefs/instances/userevctl-* 2>/dev/null)" = "$tracefs/instances/userevctl-$1" ]
}

killed_tail_is_cleaned_up()
{
	"$ctl" tail --foreign plain >/dev/null 2>&1 &
	local tail=$!
	within used plain
	kill -9 $tail
	wait $tail 2>/dev/null
	instances 1 && "$ctl" tail --foreign --timeout=1 plain && no_instance
}

# Some tools mount debugfs, which has a tracefs below it.
elsewhere()
{
	unshare -m sh -c "{ umount -R /sys/kernel/debug 2>/dev/null || true; } && umount $tracefs && $*"
}

no_daemon='no daemon runs'

echo '# without a daemon: everything is foreign'
check 'no daemon: status fails' exits 3 "$ctl" status
made --hold 'plain u32 n'
made --hold 'idle u64 n; __rel_loc char[] text'
echo 'u:written_by_hand u8 a; struct blob b 7' >>$tracefs/dynamic_events
check 'events are listed' says '^plain	off	-	foreign	-	u32 n$' "$ctl" events
check '… also those of the dynamic_events file' says '^written_by_hand	off	-	foreign	-	u8 a; struct blob b 7$' "$ctl" events
check '… with a note that there is no daemon' says "$no_daemon" "$ctl" events
check 'events as JSON' event plain 'it["foreign"] is True and it["on"] is False and it["used_by"] == [] and it["tracefs"] == "user_events:plain"'
check '… with their fields' event idle 'it["description"] == "idle u64 n; __rel_loc char[] text"'
check 'a pattern that matches none is an error' exits 1 "$ctl" events 'nothing*'
check 'events are not switched by the way' exits 1 "$ctl" enable plain
check '… nor by a pattern' exits 1 "$ctl" enable --foreign 'pl*'
check '… with a message' says 'Give the full name of each' "$ctl" enable --foreign 'pl*'
check '… but by their full names' says '^1 event is on' "$ctl" enable --foreign plain
check '… in the top instance' enabled plain
check '… and no others' is_off idle
check 'its tracers are shown' says '^plain	on	ftrace	foreign' "$ctl" events
check '… as JSON' event plain 'it["on"] is True and it["used_by"] == ["ftrace"]'
mkdir $tracefs/instances/other $tracefs/instances/userevd-slow
echo 1 >$tracefs/instances/other/events/user_events/plain/enable
echo 'traceoff if n > 5' >$tracefs/instances/userevd-slow/events/user_events/plain/trigger
check '… and instances and sessions by name' event plain 'it["used_by"] == ["ftrace"] and set(it["users"]) == {"ftrace", "instance other", "session slow"}'
check '… in a table' says '^plain	on	ftrace, (session slow, instance other|instance other, session slow)	foreign' "$ctl" events
echo 0 >$tracefs/events/user_events/plain/enable
check 'the top instance only if it uses the event' event plain 'set(it["users"]) == {"instance other", "session slow"}'
echo 1 >$tracefs/events/user_events/plain/enable
echo '!traceoff if n > 5' >$tracefs/instances/userevd-slow/events/user_events/plain/trigger
rmdir $tracefs/instances/other $tracefs/instances/userevd-slow
check '… and instances no more when they have gone' event plain 'it["users"] == ["ftrace"]'
check 'a misspelt one is nothing' says 'look alike' "$ctl" enable --foreign plian
check '… and nothing is switched where one is misspelt' exits 1 "$ctl" disable --foreign plain plian
check '… indeed' enabled plain
check 'it is switched off again' says '^1 event is off' "$ctl" disable --foreign plain
check '… indeed' is_off plain
if command -v perf >/dev/null; then
	start "$scratch/perf" perf record -q -o "$scratch/perf.data" -e user_events:plain sleep 100
	check 'perf is seen as a tracer' within event plain 'it["used_by"] == it["users"] == ["perf"]'
	echo 1 >$tracefs/events/user_events/plain/enable
	check '… beside ftrace' says '^plain	on	ftrace, perf	' "$ctl" events
	echo 0 >$tracefs/events/user_events/plain/enable
fi
end_all

types='types u8 a; s8 b; u16 c; s16 d; u32 e; s32 f; u64 g; s64 h; char[6] i; __rel_loc char[] j; __rel_loc u16[] k; struct blob l 3; unsigned char m; __data_loc char[] n'
values=(a=255 b=-128 c=65535 d=-32768 e=4294967295 f=-2147483648 g=18446744073709551615 h=-9223372036854775808 i=chars
	'j=a "string" /é' k=01000200ffff l=c0ffee m=65 n=old)
made --hold "$types" "${values[@]}"
check 'every type is decoded' json 'it["fields"] == {"a": 255, "b": -128, "c": 65535, "d": -32768, "e": 4294967295, "f": -2147483648,
	"g": 18446744073709551615, "h": -9223372036854775808, "i": "chars", "j": "a \"string\" /é", "k": [1, 2, 65535], "l": "c0ffee",
	"m": 65, "n": "old"} and it["comm"] == "direct" and it["event"] == "types" and it["uid"] == 0 and it["tenant"].startswith("/")' \
	"$ctl" tail --json --foreign --count=1 --timeout=20 types
end_all
made "$types" "${values[@]}"
check '… as text, also when the program has ended' says '	direct-[0-9]+	.*	types	a=255 b=-128 c=65535 d=-32768 e=4294967295 f=-2147483648 g=18446744073709551615 h=-9223372036854775808 i="chars" j="a \\"string\\" /é" k=\[1,2,65535\] l=c0ffee m=.*n="old"$' \
	"$ctl" tail --foreign --count=1 --timeout=20 types
if [ -e /proc/sys/kernel/user_events_max ]; then
	made --multi --hold 'many u32 a' a=1
	made --multi --hold 'many u64 b' b=2
	check 'events of many formats are listed apart' says '^many\.[0-9a-f]+	off	-	foreign	-	u64 b$' "$ctl" events
	check '… and recorded' json 'sorted(str(one["fields"]) for one in it) == ["{'"'a'"': 1}", "{'"'b'"': 2}"]' \
		"$ctl" tail --json --count=2 --timeout=20 'many.*'
	check '… also by the one name that they have' says '^2 events are on' "$ctl" enable --foreign many
	made --hold 'many u8 c'
	check '… and a plain event together with them' says '^3 events are off' "$ctl" disable --foreign many
fi
end_all

made --hold --every=20 --count=100000 --number=n 'ticking u32 n'
check 'tail --tenant shows the tenants that match' json 'len(it) == 2 and it[0]["tenant"].endswith(it[0]["tenant_name"])' \
	"$ctl" tail --json --count=2 --timeout=20 --tenant='*' ticking
check '… and no other' says_nothing "$ctl" tail --timeout=2 --tenant='no such' ticking
check 'tail ends after --count' json 'len(it) == 3 and [one["fields"]["n"] for one in it] == list(range(it[0]["fields"]["n"], it[0]["fields"]["n"] + 3))' \
	"$ctl" tail --json --count=3 --timeout=20 ticking
check '… and leaves nothing behind' no_instance
check '… nor on' exits 1 used ticking
check 'tail ends after --timeout' exits 0 "$ctl" tail --timeout=1 ticking
check 'the time is that of the wall clock' json 'abs(__import__("time").time() - it["time_ns"] / 1e9) < 300' \
	"$ctl" tail --json --count=1 --timeout=20 ticking
check 'tail into head ends quietly' head_ends_quietly
start "$scratch/one" "$ctl" tail --json --count=50 --timeout=30 ticking
one=$!
start "$scratch/two" "$ctl" tail --json --count=50 --timeout=30 'tick*'
check 'two tails at once' within lines_of "$scratch/two" 50
check '… get all, both' within lines_of "$scratch/one" 50
wait $one
check 'without a name, events of the top instance are shown' says 'No event is on' "$ctl" tail --timeout=1
"$ctl" enable --foreign ticking >/dev/null 2>&1
check '… and when it is' json 'it["event"] == "ticking"' "$ctl" tail --json --count=1 --timeout=20
"$ctl" disable --foreign ticking >/dev/null 2>&1
start "$scratch/followed" "$ctl" tail
check 'events that are switched on later' exits 0 "$ctl" enable --foreign ticking
check '… is shown, too' within grep -q ticking "$scratch/followed"
check '… until it is switched off' exits 0 "$ctl" disable --foreign ticking
check '… by everybody' within exits 1 used ticking
end_all

check 'an unknown name is an error' says 'no event is called' "$ctl" tail nosuch
start "$scratch/later" "$ctl" tail --wait --json 'later*' unborn
within instances 1
made --hold --count=5 --every=50 'later_event u32 n'
made --hold 'unborn u32 n'
check 'events that are registered later are shown' within grep -q later_event "$scratch/later"
check '… also by its full name' within grep -q unborn "$scratch/later"
end_all
check 'and nothing is left' no_instance

made --hold 'plain u32 n'
for signal in INT TERM HUP; do
	check "SIG$signal ends a tail, and its instance" ends_by $signal
done
made --hold --count=10000000 'stuffed u32 n; __rel_loc char[] text' 'text=a long text that fills the pipe'
check 'a reader that does not read does not keep it' ends_while_nobody_reads
end_all
made --hold 'plain u32 n'
check 'the next tail removes the instance of a killed one' killed_tail_is_cleaned_up
mkdir $tracefs/instances/userevctl-1
check '… unless its program lives' exits 0 "$ctl" tail --timeout=1 plain
check '… indeed' is_first_of_its_kind 1
rmdir $tracefs/instances/userevctl-1
check '--past says where to look instead' says 'trace-cmd show' "$ctl" tail --past plain
check '… and fails' exits 1 "$ctl" tail --past plain
check '--no-follow has nothing to show' exits 0 "$ctl" tail --no-follow plain
end_all

made --when="$scratch/all" --count=100 'par_1 u32 n'
made --when="$scratch/all" --count=100 'par_2 u32 n'
made --when="$scratch/all" --count=100 'par_3 u32 n'
made --when="$scratch/all" --count=100 'par_4 u32 n'
start "$scratch/par" "$ctl" tail --json 'par_*'
within used par_1 && within used par_2 && within used par_3 && within used par_4
touch "$scratch/all"
check 'records of many programs come' within lines_of "$scratch/par" 400
check '… in the order of their times' json 'len(it) == 400 and it == sorted(it, key=lambda one: one["time_ns"])' cat "$scratch/par"
end_all
check 'missed records are counted' counts_missed_records
end_all

made --hold 'plain u32 n'
mkdir "$scratch/elsewhere"
grep -qw debugfs /proc/filesystems &&
	check 'tracefs below debugfs is found' says '^plain	' elsewhere mount -t debugfs none "$scratch/elsewhere" '&&' "$ctl" events
check 'tracefs elsewhere is found' says '^plain	' elsewhere mount -t tracefs none "$scratch/elsewhere" '&&' "$ctl" events
check 'without tracefs and daemon there is no daemon' exits 3 elsewhere "$ctl" events
check 'other users than root learn that there is no daemon' exits 3 as_nobody "$ctl" events
end_all
forget_events

echo '# with a daemon: what programs hold, and what others made'
start_daemon
cgroup=/sys/fs/cgroup/userevctl-test-$$
mkdir -p $cgroup/one $cgroup/two $cgroup/three
in_cgroup "$cgroup/one" "$B/examples/requests" demo 300
in_cgroup "$cgroup/two" "$B/examples/requests" shop 300
made --hold --count=1000000 --every=20 'demo_foreign u32 n'
within says '^shop_request' "$ctl" events
within says '^demo_request' "$ctl" events
check 'holders of an event are shown with their tenants' says "^demo_request	off	-	requests-[0-9]+	/userevctl-test-$$(/one)?	u32 status; u64 ns; __rel_loc char" "$ctl" events
check '… as JSON' event demo_request 'it["holders"][0]["comm"] == "requests" and it["on"] is False and it["used_by"] == [] and not it.get("foreign")'
if [ -e /proc/sys/kernel/user_events_max ]; then
	# Two programs that want one name with different fields, and ask for nothing special.
	twins=()
	mkfifo "$scratch/never"
	exec 7<>"$scratch/never"
	for description in 'twin u32 first' 'twin u64 second'; do
		in_cgroup "$cgroup/three" sh -c 'exec "$0" emit --stdin "$1" <"$2"' "$ctl" "$description" "$scratch/never"
		twins+=($!)
		within says "${description#twin }$" "$ctl" events twin
	done
	check 'a late comer with other fields has its own format' says '^twin\.[0-9a-f]+	off	-	userevctl-[0-9]+	.*	u64 second$' "$ctl" events twin
	check '… beside the one that came first' says '^twin	off	-	userevctl-[0-9]+	.*	u32 first$' "$ctl" events twin
	check '… and one name switches both on' says '^2 events are on' "$ctl" enable twin
	start "$scratch/twin" "$ctl" tail --json twin
	twins+=($!)
	within instances 1
	in_cgroup "$cgroup/three" "$ctl" emit 'twin u64 second' second=2
	in_cgroup "$cgroup/three" "$ctl" emit 'twin u32 first' first=1
	check '… and shows the records of both' within eval 'grep -q second "$scratch/twin" && grep -q first "$scratch/twin"'
	check '… and switches both off' says '^2 events are off' "$ctl" disable twin
	kill "${twins[@]}"
	wait "${twins[@]}" 2>/dev/null
	exec 7>&-
	within exits 1 "$ctl" events twin
fi
check 'events of a tenant' json '[one["event"] for one in it] == ["demo_request"]' "$ctl" events --json --tenant="/userevctl-test-$$*/one"
check '… none of which is on' json 'it == []' "$ctl" events --json --tenant='*/one' --on
check 'and foreign events' says '^demo_foreign	off	-	foreign	-	u32 n$' "$ctl" events
check 'a pattern matches events of programs' says '^1 event is on' "$ctl" enable 'demo*'
check '… indeed' enabled demo_request
check '… also among those that are on' json '[one["event"] for one in it] == ["demo_request"]' "$ctl" events --json --on
check '… of a tenant' json 'it == []' "$ctl" events --json --on --tenant="/userevctl-test-$$*/two"
check '… and the admin is named' event demo_request 'it["enabled_by"]["uid"] == 0 and it["enabled_by"]["comm"] == "userevctl" and it["enabled_by"]["pid"] > 1 and it["enabled_by"]["time"] > 1e18'
check '… in a column' says '	userevctl-[0-9]+, user 0, 20[0-9-]+ [0-9:]+$' "$ctl" events --full demo_request
check '… which is there only with --full' says_not 'user 0' "$ctl" events demo_request
echo 0 >$tracefs/events/user_events/demo_request/enable
check '… not when another program has switched it off' event demo_request '"enabled_by" not in it'
echo 1 >$tracefs/events/user_events/demo_request/enable
check '… and never foreign events' is_off demo_foreign
check '… with a message if it matches nothing else' says 'foreign events only' "$ctl" enable 'demo_f*'
check 'status shows each event with its tracers, programs and tenants' says "^demo_request	on	ftrace	requests-[0-9]+	/userevctl-test" "$ctl" status
check '… and foreign events' says '^demo_foreign	off	-	foreign	-$' "$ctl" status
check '… how many those are' says 'Tracefs: .*1 event is foreign' "$ctl" status
check '… as JSON' json 'it["foreign"] == 1 and it["tracefs"] == "/sys/kernel/tracing" and {one["event"] for one in it["event_list"]} == {"demo_request", "shop_request", "demo_foreign"}' "$ctl" status --json
check 'without a name, tail shows the events that are on' json '{one["event"] for one in it} == {"demo_request"}' "$ctl" tail --json --count=5 --timeout=20
check '… with the tenant' json "it and all(one['tenant'].startswith('/userevctl-test-$$') and one['comm'] == 'requests' for one in it)" \
	"$ctl" tail --json --count=5 --timeout=20
check 'a pattern of a tail matches events of programs' json '{one["event"] for one in it} == {"demo_request", "shop_request"}' "$ctl" tail --json --count=20 --timeout=20 '*'
check '… and with --foreign all' json '"demo_foreign" in {one["event"] for one in it}' "$ctl" tail --json --foreign --count=60 --timeout=20 '*'
chmod 666 "$USEREV_CONTROL_SOCKET"
cp "$ctl" "$scratch/userevctl" && chmod 755 "$scratch/userevctl"
check 'an admin without root sees the holders' says '^demo_request	-	-	requests-[0-9]+	/userevctl-test' as_nobody "$scratch/userevctl" events
check '… with a note that the states are missing' says 'the state of events is not shown' as_nobody "$scratch/userevctl" events
check '… and which are on is not known' exits 4 as_nobody "$scratch/userevctl" events --on
check '… as JSON' json '"on" not in it[0] and it[0]["holders_total"] == 1' as_nobody "$scratch/userevctl" events --json demo_request
check '… and may not switch' exits 4 as_nobody "$scratch/userevctl" disable demo_request
check '… nor look on' exits 4 as_nobody "$scratch/userevctl" tail
check 'disable' says '^1 event is off' "$ctl" disable demo_request
echo 1 >$tracefs/events/user_events/demo_request/enable
check '… after which no admin is named' event demo_request 'it["on"] and "enabled_by" not in it'
echo 0 >$tracefs/events/user_events/demo_request/enable
check '… indeed' is_off demo_request
check 'doctor is content' exits 0 "$ctl" doctor
check '… and has seen its record' says 'record.*came back' "$ctl" doctor
check 'a plain user learns from doctor that the kernel has user_events' says 'kernel: it has user_events' as_nobody "$scratch/userevctl" doctor
check '… that tracefs is there and may not be searched' says 'tracefs: mounted at [^ ]*, which user 65534 may not search' \
	as_nobody "$scratch/userevctl" doctor
check '… without a daemon, that it cannot be seen' says 'kernel: (this kernel has user_events .*, but|no user_events was found:) this user may not look' \
	as_nobody "$scratch/userevctl" --socket=/nobody --control-socket=/nobody doctor
check 'tracefs is found where it is not mounted' elsewhere "$ctl" enable shop_request
"$ctl" disable shop_request >/dev/null
for command in status 'status --json' events doctor 'tail --timeout=1 shop_request' tenants metrics 'enable shop_request' 'disable shop_request'; do
	check "$command mounts nothing" elsewhere "$ctl $command && ! grep tracefs /proc/self/mountinfo"
done

start "$scratch/brief" "$ctl" tail --json 'brief*'
brief=$!
within instances 1
in_cgroup "$cgroup/three" "$B/examples/requests" brief 300
check 'a program that comes later is seen' within grep -q brief_request "$scratch/brief"
kill ${started[-1]}
check '… and its event is switched off when no program holds it' within exits 1 used brief_request
check '… while the tail goes on' kill -0 $brief
start "$scratch/lasting" "$ctl" tail --json shop_request
within grep -q shop_request "$scratch/lasting"
kill $daemon
wait $daemon 2>/dev/null
check 'the end of the daemon is reported' within grep -q 'the daemon does not answer' "$scratch/lasting.error"
check '… and does not end the tail' kill -0 ${started[-1]}
end_all
rmdir $cgroup/one $cgroup/two $cgroup/three $cgroup 2>/dev/null

forget_events

sum_up
