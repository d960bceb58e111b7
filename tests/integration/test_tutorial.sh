#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# client/TUTORIAL.md, to the letter: builds its program and runs its commands. The chapters with a virtual machine run in a guest.

cd "$(dirname "$0")/../.." || exit 1
. tests/integration/tool.sh
tutorial=$PWD/client/TUTORIAL.md tree=$PWD

# The commands of the chapter with that number.
commands()
{
	awk -v chapter="## $1." 'index($0, "## ") == 1 { on = index($0, chapter) == 1 } on' "$tutorial" | sed -n 's/^    \$ //p'
}

# The chapter's command with that beginning, with this build directory, and with more time for slow machines.
command_of()
{
	commands "$1" | grep -F -m1 -- "$2" | sed "s|build/|$B/|g; s|-I client|-I $tree/client|; s|^cc |${CC:-cc} |; s|timeout 3 |timeout 15 |"
}

program()
{
	sed -n '/^```c$/,/^```$/p' "$tutorial" | sed '1d;$d' >"$scratch/shop.c"
	[ -s "$scratch/shop.c" ]
}

built()
{
	cd "$scratch" && eval "$(command_of 1 'cc ') -Wall -Wextra -Werror"
}

# typed CHAPTER BEGINNING PATTERN: runs the command; its output must contain the pattern.
typed()
{
	local line
	line=$(command_of "$1" "$2")
	[ -n "$line" ] || { echo "chapter $1 has no such command"; return 1; }
	(cd "$scratch" && PATH=$B:$PATH && eval "$line") >"$scratch/out" 2>&1 </dev/null
	cat "$scratch/out"
	[ -z "$3" ] || grep -qE -- "$3" "$scratch/out"
}

# The command as written. It uses the socket of this test's daemon.
program_starts()
{
	local line
	line=$(command_of 3 setpriv)
	start "$scratch/shop.log" bash -c "cd '$scratch' && exec ${line% &}"
}

check 'the tutorial has a program' program
check '… that its own command builds' built
check '… and says what it does, alone at a desk' typed 2 'userevctl run' 'shop_request\s.*status=[0-9]+ us=[0-9]+ path="/'
if [ -e /sys/kernel/tracing/user_events_data ] && [ "$(id -u)" = 0 ]; then
	# Not in a command substitution, which would wait for their end.
	start_daemon --policy=
	check 'a daemon is there' "$ctl" status
	# Not in a check, which is a subshell: the program would outlive this test.
	program_starts
	check '… and the program, as an ordinary user' within says '^shop_request' "$ctl" events
	check 'its events can be seen' typed 3 'userevctl events' 'shop_restocked\s+off'
	check '… and its records' typed 3 'userevctl tail' 'shop_request\s.*path="/'
	check 'the histogram counts in powers of two' typed 4 'userevctl hist --key=us' '^shop_request\s<= (1024|2048|4096|8192|16384)\s[0-9]+$'
	check '… and which paths are slow' typed 4 'userevctl hist --key=path' '^shop_request\s/\S*\s[0-9]+$'
	check '… and the event is off again' typed 4 'userevctl events' 'shop_request\s+off'
fi
sum_up
