#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Two programs without privilege, each a tenant, emit events through the daemon; the tracers are trace-cmd, perf, and tracefs. For
# guests, as root. A limitation of a kernel or tool is checked as it is, so that a change is noticed.

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

# Linux before 6.4 registers neither a print format nor the types of strings for user events.
if [ -e /proc/sys/kernel/user_events_max ]; then
	abi='enable-address'
else
	abi='status-page'
fi

# A synthetic event with the time between two events of the same key.
# shellcheck disable=SC2016 # the kernel's variables
start='hist:keys=key:start=common_timestamp' \
latency='hist:keys=key:ns=common_timestamp-$start:onmatch(user_events.interop_begin).interop_latency(key,$ns)'

# The instance can't be removed while it has triggers.
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

# is WANTED COMMAND…: the command prints exactly that.
is()
{
	local wanted=$1 got
	shift
	got=$("$@" 2>&1)
	[ "$got" = "$wanted" ] || { echo "'$got' instead of '$wanted'"; return 1; }
}

# takes FILE TEXT: the kernel accepts the text.
takes()
{
	echo "$2" >>"$1"
}

# --- clients ---

# start_client NAME UID: an emitter in its own cgroup.
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

# tell CLIENT WORD…: prints the client's answer, see emitter.c.
tell()
{
	local answer out=${to[$1]} in=${from[$1]} IFS=$'\t'
	shift
	printf '%s\n' "$*" >&"$out"
	read -r -t 60 -u "$in" answer || answer='(no answer)'
	printf '%s\n' "$answer"
}

# registers CLIENT DESCRIPTION…
registers()
{
	local name=$1 description
	shift
	for description; do
		is ok tell "$name" register "$description" || return
	done
}

# becomes on|off EVENT…: in the page of each client that has the event.
becomes()
{
	local state=$1 event name
	shift
	for event; do
		for name in one two; do
			[ "$event-$name" = big-two ] || is ok tell $name await "interop_$event" "$state" || return
		done
	done
}

# writes_kinds NUMBER [CLIENT]: a record with all kinds of fields, and this number in one.
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

# start_tracer NAME COMMAND…: its child reports when the tracer records, and ends on request.
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

# The numbers of the records with all kinds of fields, in their order.
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

# count_of CLIENT [BUFFER]: the client's records in a buffer of ftrace, in any format.
count_of()
{
	grep -ac "emitter-${client[$1]} " "${2:-$own/trace}"
}

counts()
{
	echo "$(count_of one) $(count_of two)"
}

# Moves the recorded text into a file. Linux 6.1 prints NULs, too.
take_records()
{
	tr -d '\0' <$own/trace >"$scratch/text"
	: >$own/trace
}

# in_histogram EVENT: its rows, with single blanks.
in_histogram()
{
	sed -n 's/ \+/ /g; /^{/p' "$own/events/user_events/interop_$1/hist" | sort
}

# switches FILE ON OFF: writing these to a file of tracefs enables and disables the event.
switches()
{
	takes "$1" "$2" && becomes on kinds && takes "$1" "$3" && becomes off kinds
}

check 'the kernel has user_events' test -e $tracing/user_events_data
check 'trace-cmd and perf are installed' command -v trace-cmd perf

cp "$B/tests/emitter" "$scratch/"
mkfifo "$scratch/ready"
exec {ready}<>"$scratch/ready"
"$B/userevd" --foreground --exit-with-parent --socket="$scratch/socket" --control-socket="$scratch/control" --ready-fd="$ready" \
	>"$scratch/log" 2>&1 &
daemon=$!
check 'the daemon starts' read -r -t 60 -u "$ready"
check 'the daemon uses the backend of this kernel' says "$abi backend" "$scratch/log"
start_client one 1000
start_client two 1001
for name in one two; do
	check "client $name registers its events" registers $name "interop_kinds $fields" \
		'interop_request u32 status; u64 ns; __rel_loc char[] path' 'interop_begin u64 key' 'interop_end u64 key'
done
check 'client one registers an event of its own' registers one 'interop_big u32 n; __rel_loc char[] text'
check 'without a tracer the event is off' becomes off kinds

# --- trace-cmd and perf on the same events, coming and going ---

# Neither prints short numbers as signed, as with the kernel's own events: this one is -300.
shown()
{
	echo "tiny=200 short=65236 number=$1 wide=-9 word=abc blob=61374 text=a \"string\" of ours other=another$"
}

start_tracer trace-cmd trace-cmd record -o "$scratch/trace-cmd.dat" -e user_events:interop_kinds -e user_events:interop_big
check 'trace-cmd enables the event for both tenants' becomes on kinds
check 'the kernel names ftrace as the tracer' is 'ftrace' used_by kinds
check 'client one writes record 1 for trace-cmd' writes_kinds 1
# -B: without the build ids of programs. Copying the kernel's symbols takes its time.
start_tracer perf perf record -B -a -o "$scratch/perf.dat" -e user_events:interop_kinds -e user_events:interop_big
both_record()
{
	is 'ftrace perf' used_by kinds && writes_kinds 2 && writes_kinds 3 two &&
		is 4064 tell one write interop_big 1 n=1 "text=$(printf '%4055d' 1)"
}
check 'trace-cmd and perf record the same events' scene both_record
check 'a record above the maximum is refused' is 'Argument list too long' tell one write interop_big 1 n=1 "text=$(printf '%4056d' 1)"
stop_tracer trace-cmd
perf_alone()
{
	becomes on kinds && is 'perf' used_by kinds && writes_kinds 4
}
check 'without trace-cmd the event stays on for perf' scene perf_alone
start_tracer trace-cmd-2 trace-cmd record -o "$scratch/trace-cmd-2.dat" -B interop-buffer -e user_events:interop_kinds
check 'trace-cmd returns with a buffer of its own' is 'ftrace perf' used_by kinds
check 'client two writes record 5 for both' writes_kinds 5 two
stop_tracer perf
trace_cmd_alone()
{
	becomes on kinds && is 'ftrace' used_by kinds && writes_kinds 6
}
check 'without perf the event stays on for trace-cmd' scene trace_cmd_alone
stop_tracer trace-cmd-2
check 'without tracers the events are off' becomes off kinds big
check 'the kernel names no tracer' is '' used_by kinds

for name in trace-cmd trace-cmd-2; do
	check "trace-cmd reads its recording $name" trace-cmd report -i "$scratch/$name.dat"
	trace-cmd report -i "$scratch/$name.dat" >"$scratch/$name.txt" 2>/dev/null
done
check 'perf reads its recording' perf script -i "$scratch/perf.dat" -F comm,pid,event,trace
perf script -i "$scratch/perf.dat" -F comm,pid,event,trace >"$scratch/perf.txt" 2>/dev/null
check 'trace-cmd has all its records' is '1 2 3' numbers_in "$scratch/trace-cmd.txt"
check 'trace-cmd has all its later records' is '5 6' numbers_in "$scratch/trace-cmd-2.txt"
check 'perf has all its records' is '2 3 4 5' numbers_in "$scratch/perf.txt"
for each in 1:one 3:two; do
	check "trace-cmd prints name, pid and all fields of client ${each#*:}" \
		says "^ *emitter-${client[${each#*:}]} .* interop_kinds: *$(shown ${each%:*})" "$scratch/trace-cmd.txt"
done
for each in 2:one 3:two; do
	check "perf prints name, pid and all fields of client ${each#*:}" \
		says "^ *emitter +${client[${each#*:}]} user_events:interop_kinds: $(shown ${each%:*})" "$scratch/perf.txt"
done
for name in trace-cmd perf; do
	check "$name has the whole of the longest record" is 4055 length_of_text "$scratch/$name.txt"
done

# --- bpftrace, as userevctl(1) has it ---

recipe()
{
	sed -n '/^bpftrace /,/^\.Ed/ { /^\.Ed/d; s/\\e/\\/g; p }' client/userevctl/userevctl.1
}

becomes_records()
{
	local result
	PATH=$B:$PATH USEREV_SOCKET=$scratch/socket setsid timeout 200 bash -c "$(recipe)" >"$scratch/bpftrace.log" 2>&1 &
	tracer[bpftrace]=$!
	USEREV_CONTROL_SOCKET=$scratch/control "$B/userevctl" tail --wait --count=1 --timeout=150 started >"$scratch/started" &
	until ! kill -0 $! 2>/dev/null; do /bin/true; sleep 0.5; done
	wait $!
	result=$?
	kill -- "-${tracer[bpftrace]}"
	unset 'tracer[bpftrace]'
	cat "$scratch/bpftrace.log"
	[ $result = 0 ] && says 'pid=[0-9]+ file="[^"]*(true|sleep)"' "$scratch/started"
}

# It wants the kernel's types, which our Linux 6.1 does not have.
[ ! -e /sys/kernel/btf/vmlinux ] || check 'what bpftrace prints becomes records' becomes_records

# --- the switches of tracefs ---

check 'an instance of ftrace is created' mkdir $own
check 'set_event switches the event' switches $tracing/set_event user_events:interop_kinds '!user_events:interop_kinds'
check "the event's file switches the event" switches $events/interop_kinds/enable 1 0
check 'the file of all user events switches the event' switches $events/enable 1 0
check 'set_event of an instance switches the event' switches $own/set_event user_events:interop_kinds '!user_events:interop_kinds'
check "the event's file of an instance switches the event" switches $own/events/user_events/interop_kinds/enable 1 0

two_instances()
{
	mkdir $own-2 && takes $own-2/events/user_events/interop_kinds/enable 1 && takes $own/events/user_events/interop_kinds/enable 1 &&
		writes_kinds 7 && is 1 count_of one && is 1 count_of one $own-2/trace &&
		rmdir $own-2 && becomes on kinds && writes_kinds 8 two && is '1 1' counts
}
check 'two instances record the event, and then one' scene two_instances
take_records
if [ $abi = enable-address ]; then
	check 'ftrace prints the fields' says \
		': interop_kinds: .* number=0x7 \(7\) wide=0x[f7]{16} \(-9\) word=abc .* text=a "string" of ours other=another$' \
		"$scratch/text"
else
	check 'ftrace prints the bytes' says '^00000020: .*a "stri$' "$scratch/text"
fi
check 'the event is disabled' takes $own/events/user_events/interop_kinds/enable 0
check 'the event is off' becomes off kinds

# --- filters and histograms, set while programs hold the event ---

request=$own/events/user_events/interop_request
filter_by_number()
{
	takes $request/filter 'status >= 500' && becomes off request && takes $request/enable 1 && becomes on request &&
		writes_requests 2 500 50 /a && writes_requests 3 499 5 /a && writes_requests 1 501 50 /b two && is '2 1' counts
}
check 'a filter by a number selects records of both tenants' scene filter_by_number
take_records
filter_by_string()
{
	takes $request/filter 'path == "/a" && status < 500' && writes_requests 2 200 5 /a && writes_requests 3 200 5 /ab && is '2 0' counts
}
if [ $abi = enable-address ]; then
	check 'a filter by a string selects records' scene filter_by_string
else
	# Each field is a number for this kernel.
	check 'a filter by a string is refused' eval '! takes $request/filter "path == \"/a\" && status < 500"'
fi
filter_is_removed()
{
	takes $request/filter 0 && takes $request/enable 0 && becomes off request
}
check 'without filter and switch the event is off' scene filter_is_removed
take_records

by_number='hist:keys=status:vals=ns'
histogram_by_number()
{
	takes $request/trigger $by_number && becomes on request &&
		writes_requests 3 200 5 /a && writes_requests 2 500 50 /a && writes_requests 4 500 1000 /b two && is '{ status: 200 } hitcount: 3 ns: 15
{ status: 500 } hitcount: 6 ns: 4100' in_histogram request && takes $request/trigger "!$by_number" && becomes off request
}
check 'a histogram counts records of both tenants' scene histogram_by_number
by_program='hist:keys=common_pid.execname if status >= 500'
histogram_by_program()
{
	takes $request/trigger "$by_program" &&
		writes_requests 3 200 5 /a && writes_requests 2 500 50 /a && writes_requests 1 500 50 /b two && is "$(for name in one two; do
	printf '{ common_pid: emitter [ %d] } hitcount: %d\n' "${client[$name]}" "$([ $name = one ] && echo 2 || echo 1)"
done)" in_histogram request && takes $request/trigger "!$by_program"
}
check 'a histogram with a filter counts records of each program' scene histogram_by_program
by_string='hist:keys=path:vals=ns'
if [ $abi = enable-address ]; then
	rows='{ path: /a } hitcount: 3 ns: 15
{ path: /b } hitcount: 2 ns: 100'
else
	# Instead of the string its location, 3 << 16.
	rows='{ path: 196608 } hitcount: 5 ns: 115'
fi
histogram_by_string()
{
	takes $request/trigger $by_string && writes_requests 3 200 5 /a && writes_requests 2 500 50 /b two &&
		is "$rows" in_histogram request && takes $request/trigger "!$by_string" && becomes off request
}
check 'a histogram counts records by a string' scene histogram_by_string

# --- probes on events ---

# shellcheck disable=SC2016 # the kernel's variables
probes()
{
	# +4: the kernel ignores that the offset of a __rel_loc counts from the end of its own four bytes. +0 would find those.
	takes $tracing/dynamic_events 'e:interop/numbers user_events.interop_request status=$status:u32 ns=$ns:u64' &&
		takes $tracing/dynamic_events 'e:interop/text user_events.interop_request path=+4($path):string' &&
		takes $tracing/dynamic_events \
			'e:interop/kinds user_events.interop_kinds word=+0($word):string other=+0($other):string wide=$wide:s64' &&
		becomes off request && takes $own/events/interop/enable 1 && becomes on request kinds &&
		writes_requests 1 404 7 /somewhere && writes_kinds 9 two
}
check 'probes enable their events' scene probes
take_records
check 'a probe prints numbers and the pid' \
	says "^ *emitter-${client[one]} .*: numbers: \(user_events.interop_request\) status=404 ns=7$" "$scratch/text"
if [ $abi = enable-address ]; then
	check 'a probe prints a dynamic string' says ': text: .* path="/somewhere"$' "$scratch/text"
	check 'a probe prints other strings' says "^ *emitter-${client[two]} .*: kinds: .* word=\"abc\" other=\"another\" wide=-9$" "$scratch/text"
else
	# This kernel takes a string's field for an address.
	check 'a probe prints no dynamic string' says ': text: .* path=\(fault\)$' "$scratch/text"
	check 'a probe prints no other strings' \
		says "^ *emitter-${client[two]} .*: kinds: .* word=\(fault\) other=\(fault\) wide=-9$" "$scratch/text"
fi
check 'the probes are disabled' takes $own/events/interop/enable 0
check 'the events of the probes are off' becomes off request kinds
remove_definitions

# --- triggers ---

synthetic_event()
{
	takes $tracing/synthetic_events 'interop_latency u64 key; u64 ns' && takes $own/events/user_events/interop_begin/trigger "$start" &&
		takes $own/events/user_events/interop_end/trigger "$latency" && takes $own/events/synthetic/interop_latency/enable 1 &&
		becomes on begin end && writes_key begin 5 && writes_key begin 6 && writes_key end 5 two && writes_key end 7 two
}
check 'a synthetic event enables its two events' scene synthetic_event
take_records
check 'the latency between two programs is recorded' says "^ *emitter-${client[two]} .*: interop_latency: key=5 ns=[1-9][0-9]*$" "$scratch/text"
check 'no other latency is recorded' is 1 grep -c interop_latency "$scratch/text"
triggers_are_removed()
{
	takes $own/events/synthetic/interop_latency/enable 0 && remove_triggers && becomes off begin end
}
check 'without triggers both events are off' scene triggers_are_removed
remove_definitions

one_event_enables_another()
{
	# The second event is on at once, since the kernel has to see each record of it.
	takes $request/trigger 'enable_event:user_events:interop_end:1 if status == 503' && becomes on end && writes_key end 1 two &&
		writes_requests 1 503 7 /a && writes_key end 2 two && is '0 1' counts &&
		takes $request/trigger '!enable_event:user_events:interop_end:1' && takes $own/events/user_events/interop_end/enable 0 &&
		becomes off end request
}
check 'a record of one event starts the recording of another' scene one_event_enables_another
take_records

snapshot()
{
	takes $request/trigger 'snapshot:1 if status == 503' && takes $request/enable 1 && writes_requests 2 200 7 /a &&
		writes_requests 1 503 7 /a && writes_requests 1 200 7 /a && is 3 count_of one $own/snapshot && is '1 0' counts &&
		takes $request/trigger '!snapshot:1'
}
check 'a record takes a snapshot of the earlier ones' scene snapshot
traceoff()
{
	takes $request/trigger 'traceoff:1 if status == 503' && writes_requests 1 200 7 /a && is 1 cat $own/tracing_on &&
		writes_requests 1 503 7 /a && is 0 cat $own/tracing_on && takes $request/trigger '!traceoff:1' &&
		takes $request/enable 0 && becomes off request
}
check 'a record stops the recording' scene traceoff

# --- programs that come and go while an event is traced ---

released_and_registered_again()
{
	takes $own/events/user_events/interop_big/enable 1 && becomes on big && is ok tell one release interop_big &&
		registers one 'interop_big u32 n; __rel_loc char[] text' && becomes on big && take_records && takes $own/tracing_on 1 &&
		is 10 tell one write interop_big 1 n=1 text=x && is '1 0' counts && rmdir $own && becomes off big
}
check 'a traced event is on again after a release' scene released_and_registered_again

for event in kinds request begin end big; do
	check "at the end $event has no tracer" is '' used_by $event
done
check 'the daemon has logged nothing unexpected' is "userevd: $abi backend, listening on $scratch/socket" \
	sed '/no guard/d' "$scratch/log"
sum_up
