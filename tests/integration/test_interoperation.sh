#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Two programs without privilege, each a tenant, emit events through the daemon; the tracers are those that people have: trace-cmd,
# perf, and tracefs. For guests, as root. Where a kernel or a tool cannot do something, its present behaviour is checked, so that a
# change is noticed.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
tracing=/sys/kernel/tracing
events=$tracing/events/user_events
own=$tracing/instances/interop # a buffer with switches, filters and triggers of its own
scratch=$(mktemp -d)
chmod 755 "$scratch"
daemon=''
declare -A client to from tracer let_end
fields='u8 tiny; s16 short; u32 number; s64 wide; char[8] word; struct blob blob 2; __rel_loc char[] text; __data_loc char[] other'

# The older one doesn't tell the rest of itself how its records are printed, nor which fields are strings.
if [ -e /proc/sys/kernel/user_events_max ]; then
	abi='enable-address'
else
	abi='status-page'
fi

# A synthetic event of the time from one event to another of the same key.
# shellcheck disable=SC2016 # these are the kernel's
start='hist:keys=key:start=common_timestamp' \
latency='hist:keys=key:ns=common_timestamp-$start:onmatch(user_events.interop_begin).interop_latency(key,$ns)'

# While these are there, the instance can't be taken away.
remove_triggers()
{
	local status=0
	echo "!$latency" >$own/events/user_events/interop_end/trigger || status=1
	echo "!$start" >$own/events/user_events/interop_begin/trigger || status=1
	return $status
}

remove_definitions()
{
	local definition
	sed -n 's|^e:\(interop/[^ ]*\) .*|-:\1|p' $tracing/dynamic_events | while read -r definition; do
		echo "$definition" >>$tracing/dynamic_events
	done
	sed -n 's/^\(interop_[a-z]*\).*/!\1/p' $tracing/synthetic_events | while read -r definition; do
		echo "$definition" >>$tracing/synthetic_events
	done
}

clean_up()
{
	local event
	[ ${#tracer[@]} -eq 0 ] || { kill "${tracer[@]}"; wait "${tracer[@]}"; }
	remove_triggers
	rmdir $tracing/instances/interop*
	for event in $events/interop_*/enable; do
		echo 0 >"$event"
	done
	remove_definitions
	[ ${#client[@]} -eq 0 ] || { kill "${client[@]}"; wait "${client[@]}"; }
	[ -z "$daemon" ] || { kill "$daemon"; wait "$daemon"; }
	rmdir /sys/fs/cgroup/interop-*
	rm -rf "$scratch"
} 2>/dev/null
trap clean_up EXIT
trap 'exit 130' INT TERM

# says PATTERN FILE
says()
{
	cut -c 1-300 "$2"
	grep -aqE -- "$1" "$2"
}

# is WANTED COMMAND…: it prints just that.
is()
{
	local wanted=$1 got
	shift
	got=$("$@" 2>&1)
	[ "$got" = "$wanted" ] || { echo "'$got' instead of '$wanted'"; return 1; }
}

# takes FILE TEXT: the kernel does.
takes()
{
	echo "$2" >>"$1"
}

takes_not()
{
	! takes "$@"
}

# --- clients ---

# start_client NAME UID: an emitter in a cgroup of its own.
start_client()
{
	local name=$1 uid=$2 fd
	mkdir -p "/sys/fs/cgroup/interop-$name"
	mkfifo "$scratch/to-$name" "$scratch/from-$name"
	exec {fd}<>"$scratch/to-$name" && to[$name]=$fd
	exec {fd}<>"$scratch/from-$name" && from[$name]=$fd
	(
		echo $BASHPID >"/sys/fs/cgroup/interop-$name/cgroup.procs"
		export USEREV_SOCKET=$scratch/socket
		exec setpriv --reuid="$uid" --regid="$uid" --clear-groups "$scratch/emitter" \
			<"$scratch/to-$name" >"$scratch/from-$name" 2>"$scratch/client-$name.log"
	) &
	client[$name]=$!
}

# tell CLIENT WORD…: its answer, see emitter.c.
tell()
{
	local answer out=${to[$1]} in=${from[$1]} IFS=$'\t'
	shift
	printf '%s\n' "$*" >&"$out"
	read -r -t 60 -u "$in" answer || answer='(no answer)'
	printf '%s\n' "$answer"
}

# registers CLIENT DESCRIPTION
registers()
{
	is ok tell "$1" register "$2"
}

# is_on EVENT [CLIENT]: in the page that the client looks at.
is_on()
{
	is ok tell "${2:-one}" await "interop_$1" on
}

is_off()
{
	is ok tell "${2:-one}" await "interop_$1" off
}

# writes_kinds NUMBER [CLIENT]: a record with every kind of field, and that number in one.
writes_kinds()
{
	is 60 tell "${2:-one}" write interop_kinds 1 "number=$1" tiny=200 short=-300 wide=-9 word=abc blob=beef \
		'text=a "string" of ours' other=another
}

# writes_requests COUNT STATUS NS PATH [CLIENT]
writes_requests()
{
	is $((17 + ${#4})) tell "${5:-one}" write interop_request "$1" "status=$2" "ns=$3" "path=$4"
}

# writes_key EVENT KEY [CLIENT]
writes_key()
{
	is 8 tell "${3:-one}" write "interop_$1" 1 "key=$2"
}

# --- tracers ---

# start_tracer NAME COMMAND…: its child reports when it records, and ends on request.
start_tracer()
{
	local name=$1 fd
	shift
	mkfifo "$scratch/$name-runs" "$scratch/$name-may-end"
	exec {fd}<>"$scratch/$name-may-end" && let_end[$name]=$fd
	timeout 300 "$@" sh -c "echo >'$scratch/$name-runs'; read -r line <'$scratch/$name-may-end'" >"$scratch/$name.log" 2>&1 &
	tracer[$name]=$!
	exec {fd}<>"$scratch/$name-runs"
	check "$name begins to record" read -r -t 60 -u "$fd"
}

# succeeded NAME STATUS
succeeded()
{
	cat "$scratch/$1.log"
	return "$2"
}

stop_tracer()
{
	local name=$1
	echo >&"${let_end[$name]}"
	wait "${tracer[$name]}"
	check "$name ends" succeeded "$name" $?
	unset "tracer[$name]"
}

reads_trace_cmd()
{
	trace-cmd report -i "$scratch/$1.dat" >"$scratch/$1.txt"
}

reads_perf()
{
	perf script -i "$scratch/$1.dat" -F comm,pid,event,trace >"$scratch/$1.txt"
}

# Of the records with every kind of field, in their order.
numbers_in()
{
	sed -n 's/.*interop_kinds:.* number=\([0-9]*\) .*/\1/p' "$1" | paste -sd ' '
}

length_of_text()
{
	sed -n 's/.*interop_big:.* text=//p' "$1" | tr -d '\n' | wc -c
}

used_by()
{
	sed -n "s/^\([0-9]*:\)\?interop_$1 # Used by //p" $tracing/user_events_status
}

# --- tracefs ---

# How many records a client has in a buffer of ftrace's, whatever the kernel prints of them.
count_of()
{
	grep -ac "emitter-${client[$1]} " "${2:-$own/trace}"
}

counts()
{
	echo "$(count_of one) $(count_of two)"
}

# What has been recorded since the last time is put into a file. Linux 6.1 prints NULs, too.
take_records()
{
	tr -d '\0' <$own/trace >"$scratch/text"
	: >$own/trace
}

# in_histogram EVENT: its rows, in a single way.
in_histogram()
{
	sed -n 's/ \+/ /g; /^{/p' "$own/events/user_events/interop_$1/hist" | sort
}

# follows EVENT FILE ON OFF: the event goes on and off with a write to a file of tracefs.
follows()
{
	takes "$2" "$3" && is_on "$1" && is_on "$1" two && takes "$2" "$4" && is_off "$1" && is_off "$1" two
}

makes_instance()
{
	mkdir "$tracing/instances/$1"
}

removes_instance()
{
	rmdir "$tracing/instances/$1"
}

check 'the kernel has user_events' test -e $tracing/user_events_data
check 'there are trace-cmd and perf' command -v trace-cmd perf

cp "$B/tests/emitter" "$scratch/"
mkfifo "$scratch/ready"
exec {ready}<>"$scratch/ready"
"$B/userevd" --foreground --exit-with-parent --socket="$scratch/socket" --control-socket="$scratch/control" --ready-fd="$ready" \
	>"$scratch/log" 2>&1 &
daemon=$!
check 'the daemon starts' read -r -t 60 -u "$ready"
check '… with the types of this kernel' says "$abi backend" "$scratch/log"
start_client one 1000
start_client two 1001
for name in one two; do
	check "client $name registers an event with every kind of field" registers $name "interop_kinds $fields"
	check '… one of requests' registers $name 'interop_request u32 status; u64 ns; __rel_loc char[] path'
	check '… one for when something begins' registers $name 'interop_begin u64 key'
	check '… and ends' registers $name 'interop_end u64 key'
done
check 'one of them has an event of its own' registers one 'interop_big u32 n; __rel_loc char[] text'
check 'without a tracer all is off' is_off kinds

# --- trace-cmd and perf on the same events, coming and going ---

# Neither shows that a number shorter than an int is less than 0: this one is -300. So it is with the kernel's own events.
shown()
{
	echo "tiny=200 short=65236 number=$1 wide=-9 word=abc blob=61374 text=a \"string\" of ours other=another$"
}

start_tracer trace-cmd trace-cmd record -o "$scratch/trace-cmd.dat" -e user_events:interop_kinds -e user_events:interop_big
check 'trace-cmd switches the event on' is_on kinds
check '… for each of its tenants' is_on kinds two
check '… and is seen' is 'ftrace' used_by kinds
check 'a record for trace-cmd' writes_kinds 1
# -B: which programs ran is not asked here, and copying the kernel's symbols takes its time.
start_tracer perf perf record -B -a -o "$scratch/perf.dat" -e user_events:interop_kinds -e user_events:interop_big
check 'perf comes to the same event' is 'ftrace perf' used_by kinds
check 'a record for both' writes_kinds 2
check 'one of the other tenant' writes_kinds 3 two
check 'the largest record, for both' is 4064 tell one write interop_big 1 n=1 "text=$(printf '%4055d' 1)"
check 'one byte more is refused' is 'Argument list too long' \
	tell one write interop_big 1 n=1 "text=$(printf '%4056d' 1)"
stop_tracer trace-cmd
check 'trace-cmd has left: the event is still on' is_on kinds
check '… for perf alone' is 'perf' used_by kinds
check 'a record for perf' writes_kinds 4
start_tracer trace-cmd-2 trace-cmd record -o "$scratch/trace-cmd-2.dat" -B interop-buffer -e user_events:interop_kinds
check 'trace-cmd comes back, with a buffer of its own' is 'ftrace perf' used_by kinds
check 'a record for both' writes_kinds 5 two
stop_tracer perf
check 'perf has left: the event is still on' is_on kinds two
check '… for ftrace alone' is 'ftrace' used_by kinds
check 'a record for trace-cmd' writes_kinds 6
stop_tracer trace-cmd-2
check 'all have left: the event is off' is_off kinds
check '… for each of its tenants' is_off kinds two
check '… so is the other' is_off big
check '… and has no tracer' is '' used_by kinds

check 'trace-cmd reads its records' reads_trace_cmd trace-cmd
check '… of the client, by name and pid, in every kind of field' \
	says "^ *emitter-${client[one]} .* interop_kinds: *$(shown 1)" "$scratch/trace-cmd.txt"
check '… of the other tenant, too' says "^ *emitter-${client[two]} .* interop_kinds: *$(shown 3)" "$scratch/trace-cmd.txt"
check '… all that was written meanwhile' is '1 2 3' numbers_in "$scratch/trace-cmd.txt"
check '… with the largest record whole' is 4055 length_of_text "$scratch/trace-cmd.txt"
check 'trace-cmd reads its second recording' reads_trace_cmd trace-cmd-2
check '… all that was written meanwhile' is '5 6' numbers_in "$scratch/trace-cmd-2.txt"
check 'perf reads its records' reads_perf perf
check '… of the client, by name and pid, in every kind of field' \
	says "^ *emitter +${client[one]} user_events:interop_kinds: $(shown 2)" "$scratch/perf.txt"
check '… of the other tenant, too' says "^ *emitter +${client[two]} user_events:interop_kinds: $(shown 3)" "$scratch/perf.txt"
check '… all that was written meanwhile' is '2 3 4 5' numbers_in "$scratch/perf.txt"
check '… with the largest record whole' is 4055 length_of_text "$scratch/perf.txt"

# --- the switches of tracefs ---

check 'an instance of ftrace' makes_instance interop
check 'set_event switches on and off' follows kinds $tracing/set_event user_events:interop_kinds '!user_events:interop_kinds'
check 'the event'"'"'s own switch does' follows kinds $events/interop_kinds/enable 1 0
check 'the switch of all user events does' follows kinds $events/enable 1 0
check 'set_event of an instance does' follows kinds $own/set_event user_events:interop_kinds '!user_events:interop_kinds'
check 'a switch of an instance does' follows kinds $own/events/user_events/interop_kinds/enable 1 0

check 'another instance' makes_instance interop-2
check '… wants the event, too' takes $tracing/instances/interop-2/events/user_events/interop_kinds/enable 1
check 'the first wants it again' takes $own/events/user_events/interop_kinds/enable 1
check 'a record for both' writes_kinds 7
check '… is in the one' is 1 count_of one
check '… and in the other' is 1 count_of one $tracing/instances/interop-2/trace
check 'one instance ends' removes_instance interop-2
check '… and the event is still on' is_on kinds
check 'a record of the other tenant' writes_kinds 8 two
check '… is in the one that is left' is '1 1' counts
take_records
if [ $abi = enable-address ]; then
	check 'ftrace decodes it by itself' says \
		': interop_kinds: .* number=0x7 \(7\) wide=0x[f7]{16} \(-9\) word=abc .* text=a "string" of ours other=another$' \
		"$scratch/text"
else
	# It prints records of user events as bytes.
	check 'ftrace shows its bytes' says '^00000020: .*a "stri$' "$scratch/text"
fi
check 'the event is switched off' takes $own/events/user_events/interop_kinds/enable 0
check '… and is off' is_off kinds

# --- filters and histograms, set while programs hold the event ---

request=$own/events/user_events/interop_request
check 'a filter' takes $request/filter 'status >= 500'
check '… alone switches nothing on' is_off request
check '… and the event' takes $request/enable 1
check '… is on' is_on request
check 'records that it lets through' writes_requests 2 500 50 /a
check '… and that it does not' writes_requests 3 499 5 /a
check '… and of the other tenant' writes_requests 1 501 50 /b two
check 'only the former are recorded' is '2 1' counts
take_records
if [ $abi = enable-address ]; then
	check 'a filter by a string' takes $request/filter 'path == "/a" && status < 500'
	check 'records that it lets through' writes_requests 2 200 5 /a
	check '… and that it does not' writes_requests 3 200 5 /ab
	check 'only the former are recorded' is '2 0' counts
else
	# It thinks that each field is a number.
	check 'a filter by a string is refused' takes_not $request/filter 'path == "/a" && status < 500'
fi
check 'no filter any more' takes $request/filter 0
check '… and the event off' takes $request/enable 0
check '… is off' is_off request
take_records

check 'a histogram' takes $request/trigger 'hist:keys=status:vals=ns'
check '… switches the event on' is_on request
check '… for each of its tenants' is_on request two
check 'records for it' writes_requests 3 200 5 /a
check '… and others' writes_requests 2 500 50 /a
check '… of the other tenant, too' writes_requests 4 500 1000 /b two
check 'it has counted them all' is '{ status: 200 } hitcount: 3 ns: 15
{ status: 500 } hitcount: 6 ns: 4100' in_histogram request
check 'it is taken away' takes $request/trigger '!hist:keys=status:vals=ns'
check '… and the event is off' is_off request
check 'a histogram by program, with a filter' takes $request/trigger 'hist:keys=common_pid.execname if status >= 500'
check 'records for it' writes_requests 3 200 5 /a
check '… and others' writes_requests 2 500 50 /a
check '… of the other tenant, too' writes_requests 1 500 50 /b two
check 'it has counted them, and knows the programs' is "$(for name in one two; do
	printf '{ common_pid: emitter [ %d] } hitcount: %d\n' "${client[$name]}" "$([ $name = one ] && echo 2 || echo 1)"
done)" in_histogram request
check 'it is taken away' takes $request/trigger '!hist:keys=common_pid.execname if status >= 500'
check 'a histogram by a string' takes $request/trigger 'hist:keys=path:vals=ns'
check 'records for it' writes_requests 3 200 5 /a
check '… of the other tenant, too' writes_requests 2 500 50 /b two
if [ $abi = enable-address ]; then
	check 'it has counted them' is '{ path: /a } hitcount: 3 ns: 15
{ path: /b } hitcount: 2 ns: 100' in_histogram request
else
	# Not the string, but the number that says where it is: 3 << 16.
	check 'it has counted them by length' is '{ path: 196608 } hitcount: 5 ns: 115' in_histogram request
fi
check 'it is taken away' takes $request/trigger '!hist:keys=path:vals=ns'
check '… and the event is off' is_off request

# --- probes on events ---

check 'a probe on the event' takes $tracing/dynamic_events \
	'e:interop/numbers user_events.interop_request status=$status:u32 ns=$ns:u64'
# +4: the kernel forgets that the offset of a __rel_loc counts from behind its own four bytes. With +0 it finds those.
check 'a probe on its string' takes $tracing/dynamic_events 'e:interop/text user_events.interop_request path=+4($path):string'
check 'a probe on other kinds of strings' takes $tracing/dynamic_events \
	'e:interop/kinds user_events.interop_kinds word=+0($word):string other=+0($other):string wide=$wide:s64'
check '… switches nothing on' is_off request
check 'they are switched on' takes $own/events/interop/enable 1
check '… and with them the one event' is_on request
check '… and the other' is_on kinds two
check 'a record for them' writes_requests 1 404 7 /somewhere
check '… and another' writes_kinds 9 two
take_records
check 'the first fires, with the pid of the client' \
	says "^ *emitter-${client[one]} .*: numbers: \(user_events.interop_request\) status=404 ns=7$" "$scratch/text"
if [ $abi = enable-address ]; then
	check '… the second has the string' says ': text: .* path="/somewhere"$' "$scratch/text"
	check '… the third has its own' says "^ *emitter-${client[two]} .*: kinds: .* word=\"abc\" other=\"another\" wide=-9$" "$scratch/text"
else
	# It takes what is no number for one, and that for an address.
	check '… the second has no string' says ': text: .* path=\(fault\)$' "$scratch/text"
	check '… the third has none, either' \
		says "^ *emitter-${client[two]} .*: kinds: .* word=\(fault\) other=\(fault\) wide=-9$" "$scratch/text"
fi
check 'they are switched off' takes $own/events/interop/enable 0
check '… and with them the one event' is_off request
check '… and the other' is_off kinds two
remove_definitions

# --- triggers ---

check 'a synthetic event' takes $tracing/synthetic_events 'interop_latency u64 key; u64 ns'
check '… made of when one event' takes $own/events/user_events/interop_begin/trigger "$start"
check '… and another with the same key came' takes $own/events/user_events/interop_end/trigger "$latency"
check '… and recorded' takes $own/events/synthetic/interop_latency/enable 1
check 'the one is on' is_on begin
check '… and the other' is_on end two
check 'something begins' writes_key begin 5
check '… and something else' writes_key begin 6
check 'another program ends the first' writes_key end 5 two
check '… and one that never began' writes_key end 7 two
take_records
check 'the latency is recorded' says "^ *emitter-${client[two]} .*: interop_latency: key=5 ns=[1-9][0-9]*$" "$scratch/text"
check '… and no other' is 1 grep -c interop_latency "$scratch/text"
check 'its recording ends' takes $own/events/synthetic/interop_latency/enable 0
check 'the triggers are taken away' remove_triggers
check '… and the one event is off' is_off begin
check '… and the other' is_off end
remove_definitions

check 'one event is to switch on another' takes $request/trigger 'enable_event:user_events:interop_end:1 if status == 503'
check '… which is on already, for the kernel to look at each record' is_on end two
check 'a record of it' writes_key end 1 two
check 'a record of the one' writes_requests 1 503 7 /a
check 'a record of the other' writes_key end 2 two
check '… is the only one recorded' is '0 1' counts
check 'it is taken away' takes $request/trigger '!enable_event:user_events:interop_end:1'
check 'the other is switched off' takes $own/events/user_events/interop_end/enable 0
check '… and off' is_off end two
check '… and so is the one' is_off request
take_records

check 'an event is to take a snapshot' takes $request/trigger 'snapshot:1 if status == 503'
check '… and is recorded' takes $request/enable 1
check 'a record before it' writes_requests 2 200 7 /a
check 'a record that takes it' writes_requests 1 503 7 /a
check 'a record after it' writes_requests 1 200 7 /a
check 'the snapshot is of the former' is 3 count_of one $own/snapshot
check '… and the latter in the buffer' is '1 0' counts
check 'it is taken away' takes $request/trigger '!snapshot:1'
check 'an event is to stop the recording' takes $request/trigger 'traceoff:1 if status == 503'
check 'a record that does not' writes_requests 1 200 7 /a
check '… goes on' is 1 cat $own/tracing_on
check 'a record that does' writes_requests 1 503 7 /a
check '… ends it' is 0 cat $own/tracing_on
check 'it is taken away' takes $request/trigger '!traceoff:1'
check 'the event is switched off' takes $request/enable 0
check '… and is off' is_off request two

# --- programs that come and go while an event is traced ---

check 'the event of one program' takes $own/events/user_events/interop_big/enable 1
check '… is on' is_on big
check 'the program gives it back' is ok tell one release interop_big
check '… and wants it again' registers one 'interop_big u32 n; __rel_loc char[] text'
check '… and finds it on' is_on big
take_records
check 'recording goes on' takes $own/tracing_on 1
check 'a record' is 10 tell one write interop_big 1 n=1 text=x
check '… is recorded' is '1 0' counts
check 'the instance ends with all that it had' removes_instance interop
check '… and the event is off' is_off big

for event in kinds request begin end big; do
	check "at the end nobody uses $event" is '' used_by $event
done
check '… and the daemon has seen nothing strange' is "userevd: $abi backend, listening on $scratch/socket" \
	sed '/no guard/d' "$scratch/log"
sum_up
