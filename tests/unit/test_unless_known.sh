#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A command that has succeeded is not run again for the same text.

. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# try TEXT: a command whose exit status is in a file.
try()
{
	rm -f "$scratch/ran"
	printf '%s' "$1" | USEREVD_CACHE=$scratch tests/unless-known.sh sh -c "touch $scratch/ran; exit \$(cat $scratch/status)"
}

# fails TEXT, succeeds TEXT: the command was run.
fails()
{
	! try "$1" && [ -e "$scratch/ran" ]
}

succeeds()
{
	try "$1" && [ -e "$scratch/ran" ]
}

is_known()
{
	try "$1" && [ ! -e "$scratch/ran" ]
}

echo 1 >"$scratch/status"
check 'a failing command is run each time' eval 'fails text && fails text'
echo 0 >"$scratch/status"
check 'a command that succeeded is not run again' eval 'succeeds text && is_known text'
check 'another text runs the command' succeeds another
touch -d '70 days ago' "$scratch"/known/*
check 'a success is forgotten after two months' eval 'succeeds third && succeeds text'
sum_up
