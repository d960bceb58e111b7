#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The demo as a user sees it, with and without the right to make cgroups, and that it fails when something is not seen.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
export B
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

sees_everything()
{
	"$@" | tee /dev/stderr | grep -q 'All of it was really seen'
}

# A build in which one thing is wrong.
broken_build()
{
	mkdir "$scratch/broken"
	ln -s "$B"/* "$scratch/broken/"
	rm "$scratch/broken/userevctl"
	printf '#!/bin/sh\n[ "$1" != enable ] || exit 0\nexec %s/userevctl "$@"\n' "$B" >"$scratch/broken/userevctl"
	chmod +x "$scratch/broken/userevctl"
}

fails_with_broken_build()
{
	broken_build
	! B=$scratch/broken tests/demo.sh
}

as_nobody()
{
	if [ "$(id -u)" = 0 ]; then
		# A checkout may lie where nobody may look.
		cp -rL "$B/userevd" "$B/userevctl" "$B/examples" tests/demo.sh "$scratch/"
		chmod -R a+rX "$scratch"
		mkdir -m 1777 "$scratch/tmp"
		B=$scratch TMPDIR=$scratch/tmp HOME=/ setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/demo.sh"
	else
		tests/demo.sh
	fi
}

check 'the demo shows everything' sees_everything tests/demo.sh
check 'and so it does without any privilege' sees_everything as_nobody
check 'it fails when an event is not really switched on' fails_with_broken_build
sum_up
