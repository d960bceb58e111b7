#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# report --filter beside the filters of the kernel, each with a recorder of its own. As root, in a guest.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
tracefs=/sys/kernel/tracing

filters=('n > 3' 'n <= 3 || n == 7' 'below < 0' 'below >= -2 && !(n & 1)' 'text == "t2"' 'text != "t2" && n < 6' 'text ~ "t*"'
	'place ~ "*2"' 'place == "l3" || text == "t1"' 'big > 18446744073709551605' '(n < 3 || n > 6) && (text ~ "?3" || below & 1)'
	'comm == "userevctl"' 'common_pid > 0 && n == 0x5')
recorders=()

# recording NAME OPTION…: in the background, until all recorders end.
recording()
{
	local name=$1
	shift
	env --default-signal=INT "$ctl" record -o "$scratch/$name.dat" "$@" every 2>"$scratch/$name.error" &
	recorders+=($!)
}

# recording_or_gone PID: its event is on; or it has ended, because the kernel refused its filter.
recording_or_gone()
{
	grep -q every "$tracefs/instances/userevctl-$1/set_event" || ! kill -0 "$1"
}

# chosen NAME OPTION…: the records that report shows.
chosen()
{
	local name=$1
	shift
	"$ctl" report "$@" "$scratch/$name.dat" | grep -o 'n=.*'
}

chooses_as_the_kernel()
{
	# Before 6.4 the kernel's filters have no texts of user_events.
	case $(uname -r) in 6.1.*) ! grep 'Expecting numeric field' "$scratch/$1.error" || return 0 ;; esac
	chosen "$1" >"$scratch/kernel"
	chosen all --filter="${filters[$1]}" | diff - "$scratch/kernel" && [ -s "$scratch/kernel" ]
}

start_daemon
mkfifo "$scratch/fifo"
exec 7<>"$scratch/fifo"
start "$scratch/program" sh -c 'exec "$0" emit --stdin "every u32 n; s16 below; char[8] text; __rel_loc char[] place; u64 big" <"$1"' "$ctl" "$scratch/fifo"
within says '^every' "$ctl" events
recording all
for i in "${!filters[@]}"; do
	recording "$i" --filter="${filters[$i]}"
done
for recorder in "${recorders[@]}"; do
	within recording_or_gone "$recorder"
done
for i in 0 1 2 3 4 5 6 7 8 9; do
	echo "n=$i below=$((i - 5)) text=t$((i % 4)) place=l$((i % 5)) big=1844674407370955160$i"
done >&7
exec 7>&-
within eval '[ "$(chosen all | wc -l)" -eq 10 ]'
kill -INT "${recorders[@]}" 2>/dev/null
wait "${recorders[@]}"
for i in "${!filters[@]}"; do
	check "report chooses as the kernel: ${filters[$i]}" chooses_as_the_kernel "$i"
done
sum_up
