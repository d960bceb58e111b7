#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A command that has succeeded is not run again for the same texts.

. tests/checks.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/include"
printf '#include <stdio.h>\n#if NEVER\n  #  include "outer.h"\n#endif\n' >"$scratch/source.c"
echo '#include "inner.h"' >"$scratch/include/outer.h"
echo 'int inner;' >"$scratch/include/inner.h"

printf '#!/bin/sh\ntouch %q/ran\nexit "$(cat %q/status)"\n' "$scratch" "$scratch" >"$scratch/tool"
chmod +x "$scratch/tool"

# try [VERSION]: a command whose exit status is in a file.
try()
{
	rm -f "$scratch/ran"
	printf '%s\t%s\n' "$scratch/source.c" "$scratch/tool -I$scratch/include" | USEREVD_CACHE=$scratch tests/unless-known.py "${1-1}"
}

# fails, succeeds: the command was run.
fails()
{
	! try "$@" && [ -e "$scratch/ran" ]
}

succeeds()
{
	try "$@" && [ -e "$scratch/ran" ]
}

is_known()
{
	try "$@" && [ ! -e "$scratch/ran" ]
}

echo 1 >"$scratch/status"
check 'a failing command is run each time' eval 'fails && fails'
echo 0 >"$scratch/status"
check 'a command that succeeded is not run again' eval 'succeeds && is_known'
check 'another version runs it' succeeds 2
echo 'int other;' >>"$scratch/source.c"
check 'another source runs it' eval 'succeeds && is_known'
echo 'long inner;' >"$scratch/include/inner.h"
check 'so does a header that a header includes' eval 'succeeds && is_known'
touch "$scratch/stdio.h"
check 'so does a header of this name in a nearer folder' eval 'is_known; mv "$scratch/stdio.h" "$scratch/include" && succeeds && is_known'
touch -d '70 days ago' "$scratch"/known/*
check 'a success is forgotten after two months' eval 'succeeds 3 && succeeds'
sum_up
