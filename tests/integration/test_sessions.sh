#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Sessions of userevctl, which are instances of tracefs that stay: as root, in a guest. First without a daemon, where all events are
# foreign; then with one.

cd "$(dirname "$0")/../.." || exit 1
tracefs=/sys/kernel/tracing
if [ "$(id -u)" != 0 ] || [ ! -e $tracefs/user_events_status ]; then
	echo '0 passed, 0 failed, 1 skipped: sessions need root and a kernel with user_events'
	exit 0
fi
. tests/integration/tool.sh
skipped=()

session()
{
	"$ctl" session "$@"
}

# Everything that sessions make in tracefs, into $state. Events of programs are their own matter. No process is started, as this runs often.
all_of_tracefs()
{
	local file lines line
	printf -v state '%s\n' $tracefs/instances/* $tracefs/events/userevd_*
	for file in set_event dynamic_events current_tracer tracing_on; do
		mapfile -t lines <$tracefs/$file
		for line in "${lines[@]}"; do
			[[ $line = u:* ]] || state+=$line$'\n'
		done
	done
}

nothing_is_left()
{
	local state
	all_of_tracefs
	[ "$state" = "$before" ] || diff <(echo "$before") <(echo "$state")
}

# A program that waits for the file `go`, and then writes its records, n from 0 on. It holds the event until it is ended.
start_counted()
{
	rm -f "$scratch/go"
	# Not by the program's start alone, which may come after the first look.
	: >"$scratch/program"
	"$B/tests/direct" --when="$scratch/go" --hold --count="${1-100}" --number=n 'counted u32 n' >"$scratch/program" 2>&1 &
	program=$!
	within file_has registered "$scratch/program"
}

count_now()
{
	: >"$scratch/go"
	within file_has written "$scratch/program"
}

end_counted()
{
	kill $program
	wait $program 2>/dev/null
}

# counted N COMMAND…: while such a program has N records to write.
counted()
{
	local status
	start_counted "$1"
	shift
	"$@"
	status=$?
	end_counted
	return $status
}

used()
{
	grep -qE '(^|:)counted # Used by' $tracefs/user_events_status
}

# numbers NAME: the n of the records in a snapshot.
numbers()
{
	session snapshot "$@" 2>>"$scratch/notes" | sed -n 's/.*	counted	n=\([0-9]*\)$/\1/p'
}

# has NAME FIRST LAST
has()
{
	diff <(seq "$2" "$3") <(numbers "$1")
}

filters_contradict()
{
	session create all --event=counted && session create above --event=counted --filter='n > 90' &&
		session create below --event=counted --filter='n < 10 && n != 3' || return
	count_now
	numbers all >"$scratch/all"
	[ "$(wc -l <"$scratch/all")" -eq 100 ] && diff <(awk '$1 > 90' "$scratch/all") <(numbers above) &&
		diff <(awk '$1 < 10 && $1 != 3' "$scratch/all") <(numbers below)
}

goes_off_with_the_last()
{
	session destroy all && used && session destroy above && used && session destroy below && within exits 1 used
}

# As many records as written are shown and counted: the last ones, or the first ones.
keeps_the_newest()
{
	session create full --event=counted --size=8k || return
	count_now
	json '(len(it) > 10 and it[-1]["fields"]["n"] == 19999 and it[0]["missed"] + len(it) - 1 == 20000 and
		[one["fields"]["n"] for one in it[1:]] == list(range(it[0]["missed"], 20000)))' session snapshot full --json
}

keeps_the_first()
{
	session create full --event=counted --size=8k --mode=record || return
	count_now
	says '^full	on	record	1	[0-9]+	[1-9][0-9]*	[0-9]+$' session list
	json '(len(it) > 10 and it[-1]["missed"] + len(it) - 1 == 20000 and
		[one["fields"]["n"] for one in it[:-1]] == list(range(len(it) - 1)))' session snapshot full --json
}

stops_and_starts()
{
	session create paused --event=counted --stopped && says '^paused	stopped	' session list || return
	count_now
	[ -z "$(numbers paused)" ] && session start paused && says '^paused	on	' session list || return
	end_counted
	start_counted
	count_now
	session stop paused && says '^paused	stopped	' session list && has paused 0 99 &&
		says '^paused	stopped	' session list
}

is_as_it_was_made()
{
	session create shown --event=counted --filter='n > 5' --trigger='snapshot:3 if n == 7' --kernel-event=sched:sched_switch \
		--filter='sched_switch: prev_pid == 1' --pid=1,2 --children --mode=record --size=64k &&
		json '(it["session"] == "shown" and it["on"] and it["mode"] == "record" and it["events"] == 2 and it["size"] >= 65536 and
			it["snapshot"] == "none" and it["children"] and set(it["pids"].split(",")) >= {"1", "2"} and
			{one["event"]: (one["filter"], one["triggers"]) for one in it["event_list"]} ==
			{"counted": ("n > 5", ["snapshot:count=3 if n == 7"]), "sched_switch": ("prev_pid == 1", [])})' session show shown --json &&
		grep -qF '[mono]' $tracefs/instances/userevd-shown/trace_clock && says '^filter	sched_switch: prev_pid == 1$' session show shown && says '^trigger	counted: snapshot' session show shown &&
		session destroy shown
}

# A trigger takes a snapshot at the record 50; others follow.
takes_one_by_a_trigger()
{
	session create flight --event=counted --trigger='counted: snapshot:1 if n == 50' || return
	count_now
	says '^snapshot	taken$' session show flight && has flight 0 50 && grep -q 'a trigger took' "$scratch/notes" &&
		says '^snapshot	none$' session show flight && has flight 51 99 && [ -z "$(numbers flight)" ]
}

takes_one_now()
{
	session create flight --event=counted --trigger='snapshot:1 if n == 50' || return
	count_now
	has flight --now >/dev/null
	diff <(seq 51 99) <(numbers flight --now) && session destroy flight
}

selects_processes()
{
	session create one --event=counted --pid=$program && session create none --event=counted --pid=1 || return
	count_now
	has one 0 99 && [ -z "$(numbers none)" ] && json 'not it["children"]' session show one --json && session destroy one && session destroy none
}

writes_a_file()
{
	session create file --event=counted || return
	count_now
	[ -z "$(session snapshot file -o "$scratch/records" --json)" ] && session destroy file &&
		json 'len(it) == 100 and it[5]["event"] == "counted" and it[5]["comm"] == "direct" and it == sorted(it, key=lambda one: one["time_ns"])' \
			cat "$scratch/records"
}

fills_a_disk()
{
	session create disk --event=counted || return
	count_now
	exits 1 session snapshot disk -o /dev/full 2>"$scratch/full" && session destroy disk &&
		grep -q 'cannot write the output: No space left' "$scratch/full"
}

# A reader that reads no more leaves the rest to the next.
leaves_the_rest()
{
	session create rest --event=counted || return
	count_now
	says '	n=0$' sh -c '"$1" session snapshot rest --json | head -1 | sed "s/.*\"n\":\([0-9]*\).*/	n=\1/"' - "$ctl" &&
		says '^snapshot	taken$' session show rest && numbers rest >"$scratch/rest" && session destroy rest &&
		[ "$(head -1 "$scratch/rest")" -gt 1 ] && diff <(seq "$(head -1 "$scratch/rest")" 9999) "$scratch/rest"
}

# The session `plain` where the kernel has no snapshots: its own buffers are read.
plain_snapshot()
{
	local cpus=$tracefs/instances/userevd-plain/per_cpu
	rm -rf "$scratch/cpu0" && mkdir "$scratch/cpu0"
	# shellcheck disable=SC2016 # in the shell of the namespace
	unshare -m sh -ec 'mount --bind "$0/cpu0" "$1"; mount -t tmpfs none "$0/cpu0"; touch "$0/cpu0/trace_pipe_raw" "$0/cpu0/stats"
		mount --bind "$1/trace_pipe_raw" "$0/cpu0/trace_pipe_raw"; mount --bind "$1/stats" "$0/cpu0/stats"
		exec "$2" session snapshot plain' "$cpus" "$scratch/cpu0" "$ctl" | sed -n 's/.*	n=//p'
}

# It goes on if it did before.
reads_without_snapshots()
{
	session create plain --event=counted || return
	count_now
	diff <(seq 0 99) <(plain_snapshot) && says '^plain	on	flight-recorder	1	0	0	' session list && session stop plain || return
	[ -z "$(plain_snapshot)" ] && says '^plain	stopped	' session list && session destroy plain
}

# Each with a probe of its own.
lists_by_name()
{
	local name
	for name in b c a; do
		session create $name --event=counted --probe="e:odd user_events.counted m=\$n:u32" || return
	done
	diff <(printf '%s\n' a b c) <(session list | cut -f1) && json 'len(it["probes"]) == 1 and "userevd_b/odd" in it["probes"][0]' session show b --json &&
		for name in a b c; do
			session destroy $name || return
		done
}

# paused_create CALL OPTION…: while a program writes, `create` pauses before this call, so that records come at this moment.
paused_create()
{
	"$B/tests/kill_at" --pause "$1" "$ctl" session create "${@:2}" >/dev/null 2>&1
}

# A filter counts from the first record on, and a trigger has a record to show.
are_there_from_the_first_record_on()
{
	local call writer status=0
	"$B/tests/direct" --hold --every=1 --count=100000000 --number=n 'steady u32 n' >/dev/null &
	writer=$!
	within grep -qw steady $tracefs/user_events_status
	for call in {10..18}; do
		paused_create $call first --event=steady --filter='n == 4294967295' && [ -z "$(session snapshot first)" ] &&
			paused_create $call triggered --event=steady --trigger='snapshot:1 if n != 4294967295' &&
			within says '^snapshot	taken$' session show triggered || { echo "paused before call $call"; status=1; }
		session destroy first && session destroy triggered || status=1
		[ $status = 0 ] || break
	done
	kill $writer
	wait $writer
	return $status
}

# The event of a kernel function, and one made of the program's event, beside an event of the kernel's.
records_probes()
{
	session create mixed --event=counted --kernel-event='sched:sched_switch' --probe='e:odd user_events.counted m=$n:u32' \
		"${function_probe[@]}" || return
	count_now
	session snapshot mixed --json >"$scratch/mixed" 2>"$scratch/notes"
	session destroy mixed
	json "(lambda of: [one['n'] for one in of['counted']] == list(range(100)) and [one['m'] for one in of['odd']] == list(range(100)) and
		'prev_comm' in of['sched_switch'][0] and ${#function_probe[@]} == ('opened' in of))(
		{name: [one['fields'] for one in it if one.get('event') == name] for name in {one.get('event') for one in it}})" cat "$scratch/mixed"
}

# Lines that other programs write into the timeline.
has_marks()
{
	local marker=$tracefs/instances/userevd-marked/trace_marker
	session create marked --event=counted || return
	echo before >$marker
	count_now
	echo behind >$marker
	json '(lambda name: name(it[0]) == name(it[-1]) == "print" and it[0]["fields"]["buf"].strip() == "before" and
		it[-1]["fields"]["buf"].strip() == "behind" and [one["fields"]["n"] for one in it[1:-1]] == list(range(100)))(lambda one: one["event"])' \
		session snapshot marked --json && session destroy marked
}

reads_as_text()
{
	session create text --kernel-event='sched:sched_sw*' && session stop text &&
		says '	sched_switch	prev_comm=.*==> next_comm=' session snapshot text && session destroy text
}

# runs_tracer TRACER OPTION…: the event has its name. $all: an expression about each record.
runs_tracer()
{
	session create tracer --size=64k --tracer="$@" && within grep -q . $tracefs/instances/userevd-tracer/trace_pipe || return
	says "^tracer	$1$" session show tracer && within json "it[-1]['event'] == '$1' and all(${all-True} for one in it if 'event' in one)" session snapshot tracer --json &&
		session destroy tracer
}

# snapshot_has NAME EVENT: sooner or later. All snapshots are in $scratch/NAME.
snapshot_has()
{
	session snapshot "$1" --json >>"$scratch/$1" 2>>"$scratch/notes"
	grep -qE "\"event\": ?\"$2\"" "$scratch/$1"
}

# beside_tracer TRACER: in one session with records of a program, a kprobe and an fprobe with arguments that BTF names.
beside_tracer()
{
	rm -f "$scratch/beside"
	session create beside --tracer="$1" --event=counted --probe='p:opened do_sys_openat2 dfd mode=how->mode:x64' --probe='f:read vfs_read count' || return
	count_now
	within snapshot_has beside "$1" && within snapshot_has beside read && session destroy beside &&
		json "(lambda of: [one['n'] for one in of['counted']] == list(range(100)) and
			type(of['opened'][0]['dfd']) == type(of['opened'][0]['mode']) == type(of['read'][0]['count']) == int)(
			{name: [one['fields'] for one in it if one.get('event') == name] for name in {one.get('event') for one in it}})" cat "$scratch/beside"
}

# Other tracers' buffers, and a tail beside it, are as they were.
disturbs_nobody()
{
	local tail
	echo >$tracefs/trace
	"$ctl" tail --foreign --count=100 counted >"$scratch/tail" 2>&1 &
	tail=$!
	within used
	session create beside --event=counted --filter='n == 1' --trigger='traceoff if n == 50' || return
	count_now
	wait $tail
	diff <(seq 0 99) <(sed -n 's/.*	n=//p' "$scratch/tail") && has beside 1 1 && ! grep -v '^#' $tracefs/trace &&
		[ "$(cat $tracefs/tracing_on)" = 1 ] && says '^beside	stopped	' session list && session destroy beside
}

victim=(victim --event=counted --filter='counted: n > 5' --probe='e:odd user_events.counted m=$n:u32')

# kills VERB ARGUMENT…: kills the command before every eighth of its system calls that change something (KILL_STEP), and in the end before
# none. The next command finds the session whole, or removes what is left of it.
kills()
{
	local call status=137
	for ((call = 1; status == 137; call += step)); do
		[ "$1" = create ] || session create "${victim[@]}" >/dev/null 2>&1 || return
		"$B/tests/kill_at" $call "$ctl" session "$@" >/dev/null 2>&1
		status=$?
		if session list | grep -q '^victim'; then
			is_whole && session destroy victim || return
		elif [ "$1" != create ] && [ "$1" != destroy ]; then
			echo "the session has gone with call $call"
			return 1
		fi
		nothing_is_left || { echo "after call $call"; return 1; }
	done
	[ $status = 0 ] && [ $call -gt "$least" ] || { echo "exit status $status after call $call"; return 1; }
}

# The names of all files, but for those of a processor or an event.
listing()
{
	find $tracefs -path '*/per_cpu/*' -prune -o -path '*/events/*/*/*' -prune -o -print | sort
}

listing_is_the_same()
{
	diff "$scratch/listing" <(listing)
}

# While one command creates a session, another waits, and does not remove the parts of an unfinished session.
waits_for_a_create()
{
	local creating child list status
	"$B/tests/kill_at" --stop 12 "$ctl" session create "${victim[@]}" >/dev/null 2>&1 &
	creating=$!
	within is_stopped $creating
	child=$(pgrep -P $creating)
	"$ctl" session list >/dev/null 2>&1 &
	list=$!
	within waits_or_has_ended $list
	[ -d $tracefs/instances/userevd-victim ] && waits_for_a_lock $list
	status=$?
	kill -CONT "$child"
	wait $list
	wait $creating && [ $status = 0 ] && is_whole && session destroy victim && nothing_is_left
}

waits_for_a_lock()
{
	grep -qE -- "-> FLOCK .* $1 " /proc/locks
}

waits_or_has_ended()
{
	waits_for_a_lock "$1" || [ ! -e "/proc/$1" ] || grep -q 'State:.*Z' "/proc/$1/status"
}

is_stopped()
{
	grep -q 'State:.*T (stopped)' "/proc/$(pgrep -P "$1")/status"
}

is_whole()
{
	json '{one["event"]: one.get("filter") for one in it["event_list"]} == {"odd": None, "counted": "n > 5"} and len(it["probes"]) == 1' \
		session show victim --json
}

# Parts that a killed command leaves, in each state.
finishes_parts()
{
	mkdir $tracefs/instances/userevd-part && echo 1 >$tracefs/instances/userevd-part/events/user_events/counted/enable &&
		echo 'e:userevd_a_db__c/odd user_events.counted m=$n:u32' >>$tracefs/dynamic_events &&
		session list && nothing_is_left
}

leaves_others_alone()
{
	mkdir $tracefs/instances/userevd-.theirs $tracefs/instances/theirs
	echo 'e:userevd_x_y/odd user_events.counted m=$n:u32' >>$tracefs/dynamic_events
	[ -z "$(session list)" ] && rmdir $tracefs/instances/userevd-.theirs $tracefs/instances/theirs &&
		echo '-:userevd_x_y/odd' >>$tracefs/dynamic_events && nothing_is_left
}

# A program reads the session: it cannot be removed, and stays whole.
stays_while_it_is_read()
{
	local reader
	session create busy --event=counted --probe='e:odd user_events.counted m=$n:u32' || return
	exec {reader}<$tracefs/instances/userevd-busy/trace_pipe
	fails 1 'is in use' session destroy busy &&
		json 'it["on"] and it["events"] == 2 and len(it["probes"]) == 1' session show busy --json
	exec {reader}<&-
	session destroy busy && nothing_is_left
}

# refused STATUS SENTENCE OPTION…: create fails so, and leaves nothing.
refused()
{
	local status=$1 sentence=$2
	shift 2
	fails "$status" "$sentence" session create "$@" && nothing_is_left
}

folder=/etc/userevd/sessions.d

# session_file NAME LINE…
session_file()
{
	[ -d $folder ] || mkdir -p $folder
	printf '%s\n' '# a session' '[Session]' "${@:2}" >"$folder/$1.conf"
}

# Each key, and each sort of value.
loads_files()
{
	session_file all Event=counted 'Filter=n > 5' 'Trigger=counted: \' '  snapshot:3 if n == 7' KernelEvent=sched:sched_switch \
		'Filter=sched_switch: prev_pid == 1' Probe='e:odd user_events.counted m=$n:u32' Pid=1,2 Children=yes Mode=record Size=64k Stopped=no
	session_file still Event=counted Stopped=yes Tracer=nop
	says_nothing session check && says "^session 'all' records 3 events" session load &&
		json '(it["on"] and it["mode"] == "record" and it["size"] >= 65536 and it["children"] and len(it["probes"]) == 1 and
			{one["event"]: (one.get("filter"), one["triggers"]) for one in it["event_list"]} == {"odd": (None, []),
			"counted": ("n > 5", ["snapshot:count=3 if n == 7"]), "sched_switch": ("prev_pid == 1", [])})' session show all --json &&
		says '^still	stopped	' session list
}

# Those that exist are as they were; one of them is made again.
loads_again()
{
	json 'it == [{"session": "all", "exists": True}, {"session": "still", "exists": True}]' session load --json &&
		session destroy all && says "^session 'all' records" session load all && exits 1 session load all nosuch &&
		says 'no file nosuch.conf in /etc/userevd/sessions.d' session load nosuch
}

# makes_no SENTENCE LINE…: a file with these lines from the third on. Another one is loaded all the same.
makes_no()
{
	local list
	session_file bad "${@:2}"
	session destroy still
	fails 1 "$1" session load && list=$(session list) && has_line '^still' "$list" && ! has_line '^bad' "$list"
}

# is_wrong SENTENCE LINE…: without the kernel.
is_wrong()
{
	session_file bad "${@:2}"
	fails 1 "$1" session check && exits 1 session check $folder/bad.conf && exits 0 session check $folder/still.conf &&
		json 'not it["good"] and it["problems"][0]["file"].endswith("/bad.conf")' as_nobody "$ctl" session check --json && makes_no "$@"
}

masks_a_file()
{
	mkdir -p /run/userevd/sessions.d && ln -sf /dev/null $folder/bad.conf && cp $folder/still.conf /run/userevd/sessions.d/bad.conf &&
		session destroy still && says "^session 'still' is stopped" session load && ! says '^bad' session list
}

ends_files()
{
	rm -rf $folder /run/userevd/sessions.d
	session destroy all && session destroy still && session load && nothing_is_left
}

longest=$(printf 'n%.0s' {1..64})
function_probe=(--probe='p:opened do_sys_openat2')
if ! echo 'p:userevd_test/opened do_sys_openat2' >>$tracefs/dynamic_events; then
	function_probe=()
	skipped+=('this kernel has no kprobes')
fi 2>/dev/null
echo '-:userevd_test/opened' >>$tracefs/dynamic_events
has_btf=yes
if ! echo 'f:userevd_test/read vfs_read count' >>$tracefs/dynamic_events; then
	has_btf=''
	skipped+=('this kernel has no fprobes with arguments by name')
fi 2>/dev/null
[ ! "$has_btf" ] || echo '-:userevd_test/read' >>$tracefs/dynamic_events
all_of_tracefs
before=$state

echo '# without a daemon'
check 'there is no session' says_nothing session list
check 'sessions have contradictory filters' counted 100 filters_contradict
check '… and the event goes off with the last' goes_off_with_the_last
check '… and nothing is left' nothing_is_left
check 'a flight recorder keeps the newest records, and counts the others' counted 20000 keeps_the_newest
check '… and is destroyed' says "^session 'full' is destroyed" session destroy full
check 'another mode keeps the first records' counted 20000 keeps_the_first
check '… and is destroyed' json 'it == {"session": "full", "destroyed": True}' session destroy full --json
check 'a session is stopped and started' counted 100 stops_and_starts
check '… and destroyed' session destroy paused
check 'a session is shown as it was made' counted 100 is_as_it_was_made
check 'a trigger takes a snapshot, which is shown once' counted 100 takes_one_by_a_trigger
check '… and is destroyed' session destroy flight
check '--now takes another' counted 100 takes_one_now
check 'processes are selected' counted 100 selects_processes
check 'a snapshot is written to a file' counted 100 writes_a_file
check 'a reader that ends early leaves the rest' counted 10000 leaves_the_rest
check 'a disk that is full is an error' counted 100 fills_a_disk
check 'a kernel without snapshots' counted 100 reads_without_snapshots
check 'events of the kernel, and probes' counted 100 records_probes
check '… as text' reads_as_text
check '… and lines of the trace_marker' counted 100 has_marks
check 'sessions are listed by name' counted 100 lists_by_name
check 'filters and triggers are there from the first record on' are_there_from_the_first_record_on
check 'nobody else is disturbed' counted 100 disturbs_nobody
# All functions of all processes would be slow.
runs_tracer_of_functions()
{
	all="one['pid'] == $program" runs_tracer function --pid="$program"
}

check 'the tracer of functions' counted 100 runs_tracer_of_functions
step=${KILL_STEP:-8}
# These keep the processor busy, and an emulated one for half a minute.
tracers='osnoise timerlat'
[ $step = 1 ] || { skipped+=("the tracers $tracers (make check-vm)"); tracers=''; }
for tracer in $tracers; do
	if grep -qw $tracer $tracefs/available_tracers; then
		check "the tracer $tracer" runs_tracer $tracer
		[ ! "$has_btf" ] || check '… beside an event, a kprobe and an fprobe' counted 100 beside_tracer $tracer
	else
		skipped+=("this kernel has no $tracer")
	fi
done
check 'nothing is left of any of them' nothing_is_left

start_counted
listing >"$scratch/listing"
[ $step = 1 ] || skipped+=("$((step - 1)) of $step calls at which a command of sessions is killed (make check-vm)")
least=15 check 'create is killed at its system calls' kills create "${victim[@]}"
least=6 check 'destroy is killed at its system calls' kills destroy victim
for verb in snapshot stop list show; do
	name=(victim)
	[ $verb != list ] || name=()
	least=1 check "… and $verb" kills $verb "${name[@]}"
done
check '… and no file of tracefs is new, or missing' listing_is_the_same
check 'a command waits while another creates a session' waits_for_a_create
check 'parts of a session are removed' finishes_parts
check '… and nothing of others' leaves_others_alone
check 'a session that is read stays' stays_while_it_is_read

check 'a wrong filter is refused with the kernel’s sentence' refused 1 "counted: the kernel refuses 'm > 1': Field not found" bad --event=counted --filter='m > 1'
check '… and a wrong trigger' refused 1 "counted: the kernel refuses 'nonsense'" bad --event=counted --trigger=nonsense
check '… and a wrong probe' refused 1 "odd: the kernel refuses 'e:userevd_bad/odd user_events.countd'" bad --probe='e:odd user_events.countd'
check '… and a probe without a name' refused 2 'give .p:NAME FUNCTION' bad --probe='p vfs_read'
check '… and a probe in a group' refused 2 'give .p:NAME FUNCTION' bad --probe='p:mine/a vfs_read'
check 'an unknown event is refused' refused 1 'no event is called .countd' bad --event=countd
check '… and one of the kernel' refused 1 "the kernel has no such event. Did you mean 'sched_switch'" bad --kernel-event=sched:sched_swich
check '… and a system' refused 1 'no such system of events' bad --kernel-event=shed:sched_switch
check '… and half a name' refused 2 'give SYSTEM:EVENT' bad --kernel-event=sched
check 'a filter for none of the events is refused' refused 1 "no event of the session is called 'other'" bad --event=counted --filter='other: n > 1'
check 'an unknown tracer is refused' refused 1 'It has: .*function' bad --tracer=nonsense
check 'a wrong pid is refused' refused 2 'give numbers of processes' bad --event=counted --pid=1,,x
check '… and children of none' refused 2 'give --pid, too' bad --event=counted --children
check 'a session of nothing is refused' refused 2 'give --event' bad
check 'buffers beyond the memory are refused' refused 1 'not enough memory' bad --event=counted --size=1000000M
check 'a wrong size is refused' refused 2 'give a number from 4096' bad --event=counted --size=1
for name in '' . .. a/b ../a -a 'a b' "$longest"n; do
	check "a session can't be called '$name'" exits 2 session create --event=counted -- "$name"
done
check '… and nothing is left' nothing_is_left
check 'the longest name' session create --event=counted "$longest"
check '… is listed' says "^$longest	" session list
check '… only once' says 'a session .* exists' session create --event=counted "$longest"
check '… has no room for probes' says 'too long for a session with probes' session create "${longest%n}" --probe='e:odd user_events.counted m=$n:u32'
check '… and is destroyed' session destroy "$longest"
session create --event=counted similar >/dev/null 2>&1
check 'a session that is not there is an error' exits 1 session stop nosuch
check '… with the name of one like it' says "Did you mean 'similar'" session stop similr
session destroy similar >/dev/null 2>&1
check 'an unknown verb is a wrong usage' exits 2 session nonsense
check 'a verb without its name is a wrong usage' exits 2 session destroy
echo '# files'
check 'files are loaded' loads_files
check '… once' loads_again
check 'an unknown key is refused' is_wrong 'bad.conf:4: Filtre: there is no such key; did you mean Filter=' Event=counted Filtre='n > 1'
check '… and that of another verb' is_wrong 'bad.conf:3: Output: there is no such key' Output=/x Event=counted
check '… and a wrong value' is_wrong 'bad.conf:3: Mode=some: give flight-recorder or record' Mode=some Event=counted
check '… and a wrong size' is_wrong 'bad.conf:4: Size=1: give a number from 4096' Event=counted Size=1
check '… and none' is_wrong 'bad.conf:3: Event=: give a value' Event= Tracer=nop
check '… and an answer to yes or no' is_wrong 'bad.conf:4: Stopped=maybe: give yes or no' Event=counted Stopped=maybe
check '… and a line that is none' is_wrong 'bad.conf:3: Event: write .Session' Event
check '… and another section' is_wrong 'bad.conf:3: .Event x.: write .Session' '[Event x]'
check '… and a session of nothing' is_wrong 'bad.conf: it records nothing' Size=64k
check 'what the kernel refuses has its line' makes_no 'bad.conf:4: the session is not made' Event=counted 'Filter=m > 1' 'Trigger=snapshot'
check '… and an event of its own' makes_no 'bad.conf:4: the session is not made' KernelEvent=sched:sched_switch KernelEvent=sched:nosuch
check '… and a probe' makes_no 'bad.conf:4: the session is not made' Event=counted 'Probe=e:odd user_events.countd'
check '… and a tracer' makes_no 'bad.conf:3: the session is not made' Tracer=nonsense Event=counted
check '… and an unknown event its file' makes_no 'bad.conf: the session is not made' Event=countd
echo Event=counted >"$scratch/a b.conf"
check '… and a line before the section' says 'a b.conf:1: Event=counted: write .Session' session check "$scratch/a b.conf"
check 'a name that no session can have is refused' says 'a b.conf: no session can have this name' session check "$scratch/a b.conf"
check 'a file may be masked' masks_a_file
check 'nothing is left of files' ends_files

check 'nobody without root has sessions' exits 3 as_nobody "$ctl" session list
check 'nothing is left' nothing_is_left
end_counted

echo '# with a daemon'
start_daemon
start_program shop 300
records()
{
	session list | cut -f5
}

grows()
{
	[ "$(records)" -gt "$1" ]
}

is_of_a_tenant()
{
	json '(len(it) > 2 and {one["event"] for one in it} == {"shop_request"} and
		all(one["tenant"].startswith("/") and one["comm"] == "requests" for one in it))' session snapshot lasting --json
}

echo 'u:shop_foreign u32 n' >>$tracefs/dynamic_events
check 'a pattern selects events of programs' session create lasting --event='shop*'
check '… and no foreign ones' json '[one["event"] for one in it["event_list"]] == ["shop_request"]' session show lasting --json
echo '!u:shop_foreign' >>$tracefs/dynamic_events
check '… and they are recorded' within grows 0
end $daemon 2>/dev/null
check 'the session survives the daemon' says '^lasting	on	flight-recorder	1	' session list
count=$(records)
start_daemon
within says '^shop_request' "$ctl" events
check '… and goes on with the next' within grows "$count"
check 'the records have tenants' is_of_a_tenant
check '… and are as text those of a tail' says '	requests-[0-9]+	[^	]*	shop_request	status=' session snapshot lasting
check 'it is destroyed' session destroy lasting
check '… and nothing is left' nothing_is_left
end $daemon 2>/dev/null
daemon=''
start_daemon --backend=embedded
check 'the embedded backend has no sessions' says 'the embedded backend has no sessions' session list
check '… which is an error' exits 1 session create some --event='shop*'

sum_up "${skipped[*]:+${#skipped[@]} skipped: $(IFS=,; echo "${skipped[*]}")}"
