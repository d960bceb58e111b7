#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# userevctl record and report, beside trace-cmd: numbered records come back as they were emitted, and what is lost is counted. With a
# COMMAND, and of a daemon that is the tracer; test_recording_tracefs.sh has tracefs.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
. tests/integration/recordings.sh

echo '# with a COMMAND'
numbered='for i in $(seq 0 99); do echo "n=$i"; done | "$0" emit --stdin "counted u32 n"'
check 'a command is recorded' exits 0 "$ctl" record -o "$file" -- sh -c "$numbered" "$ctl"
check '… from its first record to its last' are_all 100
check '… with its tenant' json 'len(it) == 100 and all(one["tenant"].startswith("/") and one["comm"] == "userevctl" and one["event"] == "counted" for one in it)' \
	"$ctl" report --json "$file"
check '… and its exit status' exits 7 "$ctl" record -o "$file" -- sh -c 'exit 7'
check '… also if a signal ended it' exits 143 "$ctl" record -o "$file" -- sh -c 'kill $$'
check '… a file without records is a recording' says_nothing "$ctl" report "$file"
check '… indeed' exits 0 "$ctl" report "$file"
check 'a command that does not exist' exits 127 "$ctl" record -o "$file" -- /no/such/command
check 'a command is missing' exits 2 "$ctl" record -o "$file" --
check 'a command and a filter' exits 2 "$ctl" record -o "$file" --filter='n > 1' -- true
check 'only the named events of a command' exits 0 "$ctl" record -o "$file" 'oth*' -- sh -c "$numbered; \"\$0\" emit 'other u32 n' n=5" "$ctl"
check '… are recorded' json '[one["event"] for one in [it]] == ["other"]' "$ctl" report --json "$file"
check 'the number at its end' says '^userevctl: 100 records, 0 lost, 0.0 MB in ' "$ctl" record -o "$file" -- sh -c "$numbered" "$ctl"
check '… as JSON' json 'it["records"] == 100 and it["lost"] == 0 and it["bytes"] == 4096' \
	sh -c '"$0" record --json -o "$1" -- sh -c "$2" "$0" 2>&1' "$ctl" "$file" "$numbered"
check '--count ends a recording' says '^userevctl: 10 records, 0 lost' "$ctl" record --count=10 -o "$file" -- sh -c "$numbered" "$ctl"

check 'a compressed recording' exits 0 "$ctl" record --compress -o "$file" -- sh -c "$numbered" "$ctl"
check '… has all records, for trace-cmd, too' are_all 100

numbers_of()
{
	"$ctl" record -o "$file" --max-size=64K --keep="$1" -- sh -c 'seq 0 249 | sed s/^/n=/ | "$0" emit --stdin "counted u32 n; struct blob b 1000"' "$ctl" 2>"$scratch/record.error" &&
		said 250 0 &&
		for one in $(ls "$file".* | sort -t. -k3 -n -r) "$file"; do
			numbers "$one"
		done >"$scratch/numbers"
}
rotated_files_have_all_records()
{
	numbers_of 9 && diff "$scratch/numbers" <(seq 0 249) && [ -e "$file.2" ]
}
rotated_files_are_kept()
{
	rm -f "$file".*
	numbers_of 1 && [ "$(ls "$file"* | wc -l)" -eq 2 ] &&
		diff "$scratch/numbers" <(seq $((250 - $(wc -l <"$scratch/numbers"))) 249)
}
check 'files of the same size have all records' rotated_files_have_all_records
check '… of which the last ones are kept' rotated_files_are_kept
check '… and which need a size' exits 2 "$ctl" record -o "$file" --keep=1 -- true
rm -f "$file".*

echo '# report'
"$ctl" record -o "$file" -- sh -c "$numbered; \"\$0\" emit 'other u32 n' n=5" "$ctl" 2>/dev/null
check 'events are selected' json 'it["event"] == "other"' "$ctl" report --json "$file" other
check '… also by patterns' json 'len(it) == 101' "$ctl" report --json "$file" 'c*' '?ther'
check 'tenants are selected' says_nothing "$ctl" report --tenant=nobody "$file"
check '… indeed' json 'len(it) == 101' "$ctl" report --tenant='*' --json "$file"
check 'records are selected by a filter' json '[one["fields"]["n"] for one in it] == [97, 98, 99]' "$ctl" report --json --filter='n > 96' "$file"
check '… of several comparisons' json '[one["fields"]["n"] for one in it] == [2, 5, 98, 5]' \
	"$ctl" report --json --filter='n < 10 && (n == 2 || n==0x5) && !(n & 8) || n >= 98 && n != 99' "$file"
check '… with a wrong comparison of another sign' json 'len(it) == 101' "$ctl" report --json --filter='n > -1 && comm ~ "user*"' "$file"
check '… which no record has' says 'no record has all the fields of the filter' "$ctl" report --filter='m == 1' "$file"
check '… for another type' says 'no record has all the fields of the filter' "$ctl" report --filter='n == "1"' "$file"
for filter in '' n 'n >' 'n > 1 &&' 'n > 1 n' 'n ~ 5' 'n > "a"' 'n == "a' '(n > 1' '> 1' 'n > 1 || || n > 2' 'n && n' 'n > 1x' '!' '"' "$(printf '%0100d' 0 | tr 0 '(')"; do
	check "no filter: $filter" exits 2 "$ctl" report --filter="$filter" "$file"
done
# nested N: a filter in so many parentheses.
nested()
{
	printf '%s n > 96 %s' "$(printf '%0*d' "$1" 0 | tr 0 '(')" "$(printf '%0*d' "$1" 0 | tr 0 ')')"
}
check 'a filter in 63 parentheses' json 'len(it) == 3' "$ctl" report --json --filter="$(nested 63)" "$file"
check '… and in 64' says "the filter needs less of '!' and '\('" "$ctl" report --filter="$(nested 64)" "$file"
check '… with the place of the mistake' says "needs an integer, or a text in quotes at '&& n > 2'" "$ctl" report --filter='n > && n > 2' "$file"
check 'records since a time' json 'len(it) == 101' "$ctl" report --json --since=1h "$file"
check '… which none is' says_nothing "$ctl" report --since="$(date -d '+1 hour' '+%F %T')" "$file"
check '… and no time' exits 2 "$ctl" report --since=yesterday "$file"
check '--count ends it' json 'len(it) == 3' "$ctl" report --count=3 --json "$file"
check 'a timeline for viewers' json '(lambda events: len([e for e in events if e["ph"] == "i"]) == 101 and
	{e["name"] for e in events if e["ph"] == "M"} == {"process_name", "thread_name"} and
	all(e["args"]["n"] == i for i, e in enumerate(e for e in events if e["name"] == "counted")))(it["traceEvents"])' \
	"$ctl" report --format=perfetto "$file"
# ctf EXPRESSION: what babeltrace2 prints of the file matches it, in a line of its own.
ctf()
{
	rm -rf "$scratch/ctf"
	"$ctl" report --format=ctf --output="$scratch/ctf" "$file" && babeltrace2 "$scratch/ctf" >"$scratch/babel" 2>"$scratch/babel.error"
	[ ! -s "$scratch/babel.error" ] || { cat "$scratch/babel.error"; return 1; }
	grep -E "$1" "$scratch/babel" || { head -3 "$scratch/babel"; return 1; }
}
ctf_has_all_records()
{
	ctf 'counted: .* procname = "userevctl", tenant = "/.* { n = 0 }$' && diff <(sed -n 's/.* counted: .*{ n = \([0-9]*\) }$/\1/p' "$scratch/babel") <(seq 0 99)
}
if command -v babeltrace2 >/dev/null; then
	check 'a trace for babeltrace2' ctf_has_all_records
	"$ctl" record -o "$file" -- "$ctl" emit 'types u8 a; s16 b; s8 small; u64 c; char[6] d; struct blob e 3; __rel_loc char[] f; __rel_loc u16[] g; s32 event' \
		a=255 b=-2 small=-3 c=18446744073709551615 d=chars e=c0ffee 'f=a "string" /é' g='[1,2,65535]' event=-1 2>/dev/null
	check '… has every type' ctf '\{ a = 255, b = -2, small = -3, c = 18446744073709551615, d = "chars", e = \[ \[0\] = 192, \[1\] = 255, \[2\] = 238 \], f = "a \\"string\\" /é", .*g = \[ \[0\] = 1, \[1\] = 2, \[2\] = 65535 \], event = -1 \}$'
	[ "$without_trace_cmd" ] || check '… which trace-cmd reads, too' says ' types: +a=255 b=-2 small=-3 c=18446744073709551615 d=chars e=c0ffee f=a "string" /é event=-1$' trace-cmd report "$file"
	"$ctl" record -o "$file" -- "$B/examples/activity" 2>/dev/null
	check '… and of a record that describes itself the text' ctf \
		'web_L4K1: .* level = 4, decoded = "request\(level=information opcode=start activity=[0-9a-f-]{36}\) path=\\"/cart\\" status=0" \}$'
	check '… as a report shows it' says 'web_L4K1	request\(level=information opcode=start activity=[0-9a-f-]{36}\) path="/cart" status=0$' "$ctl" report "$file"
	check '… and a timeline' json 'any(one.get("args", {}).get("event_header", {}).get("name") == "request" and one["args"]["path"] == "/cart" for one in it["traceEvents"])' \
		"$ctl" report --format=perfetto "$file"
	check '… and a directory is needed' exits 2 "$ctl" report --format=ctf "$file"
	check '… that can be written' exits 1 "$ctl" report --format=ctf --output=/no/such "$file"
fi
check 'a reader that goes' says_nothing sh -c '"$0" report "$1" | head -1 >/dev/null' "$ctl" "$file"
check 'no file' exits 1 "$ctl" report "$scratch/nothing"
: >"$scratch/empty"
check 'an empty file' says 'nothing has been recorded' "$ctl" report "$scratch/empty"
check '… is an error' exits 1 "$ctl" report "$scratch/empty"
head -c 100000 /dev/urandom >"$scratch/random"
check 'random bytes' exits 1 "$ctl" report "$scratch/random"
check '… with a message' says 'this is no recording' "$ctl" report "$scratch/random"
check 'a directory' exits 1 "$ctl" report "$scratch"

each_truncation_is_readable()
{
	local size=$(($(stat -c %s "$file"))) status
	cp --sparse=always "$file" "$scratch/truncated"
	while [ "$size" -ge 1024 ]; do
		size=$(((size - 1) / 1024 * 1024))
		truncate -s $size "$scratch/truncated"
		"$ctl" report "$scratch/truncated" >"$scratch/out" 2>&1
		status=$?
		[ $status -eq 1 ] || { echo "$size bytes: exit status $status"; return 1; }
		[ -s "$scratch/out" ] || { echo "$size bytes: silent"; return 1; }
		# The halves of the texts are hardly filled.
		[ $size -lt 20000 ] || [ $size -gt 2101248 ] || size=20000
	done
}
check 'a file that was truncated anywhere' each_truncation_is_readable
check 'a file that is none' says 'is no file' "$ctl" record -o /dev/null -- true
check '… for report, too' exits 1 "$ctl" report /dev/null
check 'a file in no directory' says 'cannot write to' "$ctl" record -o "$scratch/no/such" -- true

if [ "$(id -u)" = 0 ]; then
	mkdir "$scratch/disk"
	mount -t tmpfs -o size=64k none "$scratch/disk" 2>/dev/null && {
		ours=$file file=$scratch/disk/trace.dat
		many='seq 0 99999 | sed s/^/n=/ | "$0" emit --stdin "counted u32 n"; true'
		check 'a full disk is an error' exits 125 "$ctl" record -o "$file" -- sh -c "$many" "$ctl"
		"$ctl" record -o "$file" -- sh -c "$many" "$ctl" 2>"$scratch/record.error"
		check '… with a message' grep 'cannot write to .*: No space left on device' "$scratch/record.error"
		check '… and what was recorded, and what was lost, is everything' add_up 100000
		check '… and a full disk from the beginning' says 'No space left' "$ctl" record -o "$scratch/disk/more" -- true
		umount "$scratch/disk"
		file=$ours
	}
fi

echo '# of a daemon that is the tracer'
recorded_from_the_daemon()
{
	env --default-signal=INT "$ctl" record -o "$file" --wait counted 2>"$scratch/record.error" &
	recorder=$!
	within json 'any(one["event"] == "counted" and one["on"] for one in it)' "$ctl" events --json counted
	seq 0 99 | sed 's/^/n=/' >&7
	within eval '[ "$(numbers "$file" | wc -l)" -eq 100 ]'
	ends 0 && are_all 100 && said 100 0
}
start_daemon --backend=embedded
mkfifo "$scratch/fifo"
exec 7<>"$scratch/fifo"
start "$scratch/program" sh -c 'exec "$0" emit --stdin "counted u32 n" <"$1"' "$ctl" "$scratch/fifo"
within says '^counted' "$ctl" events
check 'records of the daemon' recorded_from_the_daemon
exec 7>&-
check 'the progress on a terminal' says '0 records, 0 lost, 0.0 MB, [0-9] s left.*0 records, 0 lost, 0.0 MB in' \
	script -qec "'$ctl' record -o '$file' --max-time=2 counted" /dev/null
check '… and nowhere else' says_not ' left' "$ctl" record -o "$file" --max-time=1 counted
end_all
end $daemon 2>/dev/null
daemon=
sum_up
