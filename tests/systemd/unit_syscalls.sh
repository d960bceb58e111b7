#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# unit_syscalls.sh UNIT: prints, for confine.h, the system calls that SystemCallFilter= of a unit allows, by this machine's systemd.

set -euo pipefail
unit=$1

# confine.c has the filters of these other keys. The calls that Protect… forbids are not allowed anyway.
while read -r line; do
	grep -qx -- "$line" "$unit" || { echo "$unit has no $line, but confine.c does" >&2 && exit 1; }
done <<-END
	RestrictAddressFamilies=AF_UNIX
	RestrictNamespaces=yes
	RestrictRealtime=yes
	RestrictSUIDSGID=yes
	LockPersonality=yes
	MemoryDenyWriteExecute=yes
	SystemCallArchitectures=native
END

# names NAME…: a group is replaced by its members.
names()
{
	local name members
	for name; do
		if [[ $name = @* ]]; then
			members=$(systemd-analyze syscall-filter "$name" | sed '1d; s/#.*//')
			# shellcheck disable=SC2086 # words
			names $members
		else
			echo "$name"
		fi
	done
}

allowed=$(sed -n 's/^SystemCallFilter=\([^~]\)/\1/p' "$unit")
forbidden=$(sed -n 's/^SystemCallFilter=~//p' "$unit")
# shellcheck disable=SC2086 # words
comm -23 <(names @default $allowed | sort -u) <(names $forbidden | sort -u) |
	sed 's/.*/#ifdef SYS_&\nALLOW(SYS_&),\n#endif/'
