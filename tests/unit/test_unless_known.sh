#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What has succeeded is not done again; what has failed, or is about another text, is.

. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# With that on its stdin a command that ends with what is in the file.
try()
{
	rm -f "$scratch/ran"
	printf '%s' "$1" | USEREVD_CACHE=$scratch tests/unless-known.sh sh -c "touch $scratch/ran; exit \$(cat $scratch/status)"
}

# fails TEXT, succeeds TEXT: and was run.
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
check 'what fails fails' fails text
check '… each time' fails text
echo 0 >"$scratch/status"
check 'what succeeds is done' succeeds text
check '… is not done again' is_known text
check 'but with another text' succeeds another
touch -d '70 days ago' "$scratch"/known/*
check '… and once more' succeeds a-third
check 'after two months it is forgotten' succeeds text
sum_up
