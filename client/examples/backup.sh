#!/bin/sh
# SPDX-License-Identifier: CC0-1.0
#
# Copies files to a directory, and emits an event for each. One userevctl process writes all records.
#
#	backup.sh DIRECTORY FILE…

directory=${1:?usage: backup.sh DIRECTORY FILE…}
shift
for file in "$@"; do
	cp -- "$file" "$directory/"
	status=$?
	printf 'status=%d bytes=%d name="%s"\n' "$status" "$(wc -c <"$file")" "${file##*/}"
done | userevctl emit --stdin 'backup_file u32 status; u64 bytes; __rel_loc char[] name'
