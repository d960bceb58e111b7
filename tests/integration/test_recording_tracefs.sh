#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl record and report of tracefs, beside trace-cmd: numbered records come back as they were emitted, and what is lost is counted. As root,
# in a guest.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
. tests/integration/recordings.sh
tracefs=/sys/kernel/tracing
direct=$B/tests/direct
mkdir "$scratch/disk"
# Records at once: in each run as many as overrun the buffers.
many=$([ "${KILL_STEP-}" = 1 ] && echo 100000 || echo 25000)

# made OPTION… DESCRIPTION…: a program with a foreign event, which is registered when this returns.
made()
{
	rm -f "$scratch/go"
	start "$scratch/program" "$direct" --when="$scratch/go" "$@"
	program=${started[-1]}
	within file_has registered "$scratch/program"
}

# recording OPTION… EVENT: of that event, in the background. The instance of a recorder that was killed may be there, too.
recording()
{
	# A shell starts background programs with SIGINT ignored.
	env --default-signal=INT "$ctl" record "$@" >"$scratch/record" 2>"$scratch/record.error" &
	recorder=$!
	within file_has 1 "$tracefs/instances/userevctl-$recorder/events/user_events/${!#}/enable"
}

# used N: so many instances, and the event is on.
used()
{
	local instances=("$tracefs"/instances/userevctl-*)
	[ ${#instances[@]} -eq "$1" ] && [ -e "${instances[0]}" ] && grep -qE '(^|:)(counted|large) # Used by' $tracefs/user_events_status
}

no_instance()
{
	! ls $tracefs/instances | grep '^userevctl-'
}

emit()
{
	: >"$scratch/go"
	wait "$program"
}

ends_by_sigint()
{
	made --count=20000 --number=n 'counted u32 n; u64 more'
	recording -o "$file" --foreign counted
	says 'another userevctl records to' "$ctl" record -o "$file" --foreign counted
	exits 1 "$ctl" record -o "$file" --foreign counted || return 1
	emit
	ends 0
}
check 'SIGINT ends a recording, and a second recorder is refused' ends_by_sigint
check '… which has all records' are_all 20000
check '… and says how many' said 20000 0
check '… and leaves nothing behind' no_instance
check '… with the time of the wall clock' json 'abs(__import__("time").time() - it["time_ns"] / 1e9) < 300' "$ctl" report --json --count=1 "$file"
check '… and the tenant' json 'it["tenant"].startswith("/") and it["comm"] == "direct" and it["uid"] == 0' "$ctl" report --json --count=1 "$file"

two_recorders()
{
	made --count=5000 --number=n 'counted u32 n; u64 more'
	env --default-signal=INT "$ctl" record -o "$scratch/second.dat" --foreign counted 2>/dev/null &
	local second=$!
	within used 1
	env --default-signal=INT "$ctl" record -o "$file" --foreign --filter='n >= 1000' counted 2>"$scratch/record.error" &
	recorder=$!
	within used 2
	emit
	ends 0
	kill -INT $second
	wait $second
	diff <(numbers "$scratch/second.dat") <(seq 0 4999) && diff <(numbers "$file") <(seq 1000 4999)
}
check 'two recorders at once, one with a filter' two_recorders

killed_recording_is_readable()
{
	made --count=100000 --every=1 --number=n 'counted u32 n; u64 more'
	recording -o "$file" --foreign "$@" counted
	: >"$scratch/go"
	within eval '[ "$("$ctl" report "$file" | wc -l)" -gt 100 ]'
	kill -9 $recorder
	wait $recorder
	kill $program
	numbers "$file" >"$scratch/numbers"
	diff "$scratch/numbers" <(seq 0 $(($(wc -l <"$scratch/numbers") - 1))) && grep -q 'the recorder was killed' "$scratch/report.error"
}
check 'the file of a killed recorder has all until then' killed_recording_is_readable
check '… also a compressed one' killed_recording_is_readable --compress
check '… and the next recorder removes its instance' exits 0 "$ctl" record -o "$scratch/next.dat" --foreign --wait --max-time=1 counted
check '… indeed' no_instance

overrun_is_counted()
{
	made --count=$many --number=n 'counted u32 n; u64 more'
	recording -o "$file" --foreign counted
	echo 64 >$tracefs/instances/userevctl-$recorder/buffer_size_kb
	kill -STOP $recorder
	emit
	kill -CONT $recorder
	ends 0
	add_up $many && said '[0-9]+' '[1-9][0-9]*'
}
check 'overwritten records are counted' overrun_is_counted

many_records()
{
	made --count=$many --number=n 'counted u32 n; u64 more'
	recording -o "$file" --foreign "$@" counted
	emit
	ends 0
	add_up $many
}
check 'many records at once are written, or counted' many_records
check '… also compressed' many_records --compress

full_disk_of_tracefs()
{
	mount -t tmpfs -o size=100k none "$scratch/disk"
	made --count=$many --number=n 'counted u32 n; u64 more'
	recording -o "$scratch/disk/trace.dat" --foreign counted
	: >"$scratch/go"
	exits 1 wait $recorder && grep 'No space left' "$scratch/record.error"
	local ours=$file r
	file=$scratch/disk/trace.dat
	numbers "$file" >"$scratch/numbers"
	diff "$scratch/numbers" <(seq 0 $(($(wc -l <"$scratch/numbers") - 1))) && [ "$(wc -l <"$scratch/numbers")" -gt 1000 ]
	r=$?
	file=$ours
	kill "$program"
	umount "$scratch/disk"
	return $r
}
check 'a full disk' full_disk_of_tracefs

made --count=100 --number=n --every=20 --hold 'counted u32 n; u64 more'
check '--max-time ends a recording' exits 0 "$ctl" record -o "$file" --foreign --max-time=1 counted
check '--count, too' says '^userevctl: 3 records, 0 lost' sh -c 'touch "$2"; "$0" record -o "$1" --foreign --count=3 counted' "$ctl" "$file" "$scratch/go"
end_all
made --count=100000000 --number=n 'counted u32 n; u64 more'
touch "$scratch/go"
check '--max-size, too' exits 0 "$ctl" record -o "$file" --foreign --max-size=100K counted
check '… at this size' [ "$(stat -c %s "$file")" -le $((2101248 + 102400)) ]
end_all
large_record_comes_back()
{
	made 'large u32 n; struct blob b 1000' n=0
	recording -o "$file" --foreign large
	emit
	ends 0 && are_all 1
}
check 'a large record' large_record_comes_back
check 'an event that nobody holds' exits 1 "$ctl" record -o "$scratch/none.dat" nosuch
check '… makes no file' [ ! -e "$scratch/none.dat" ]
check 'and nothing is left' no_instance
[ "$many" = 100000 ] || skipped='1 skipped: a hundred thousand records at once (make check-vm)'
sum_up "${skipped-}"
