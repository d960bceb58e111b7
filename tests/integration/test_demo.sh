#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The demo passes with and without the right to make cgroups, and fails if an expected output is missing.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
export B
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

passes()
{
	"$@" | tee /dev/stderr | grep -q 'The demo passed'
}

# With a build whose `userevctl enable` does nothing.
fails_with_broken_build()
{
	mkdir "$scratch/broken"
	ln -s "$B"/* "$scratch/broken/"
	rm "$scratch/broken/userevctl"
	printf '#!/bin/sh\n[ "$1" != enable ] || exit 0\nexec %s/userevctl "$@"\n' "$B" >"$scratch/broken/userevctl"
	chmod +x "$scratch/broken/userevctl"
	! B=$scratch/broken tests/demo.sh
}

as_nobody()
{
	if [ "$(id -u)" = 0 ]; then
		# The user nobody may not be able to read the checkout.
		cp -rL "$B/userevd" "$B/userevctl" "$B/examples" tests/demo.sh "$scratch/"
		chmod -R a+rX "$scratch"
		mkdir -m 1777 "$scratch/tmp"
		B=$scratch TMPDIR=$scratch/tmp HOME=/ setpriv --reuid=65534 --regid=65534 --clear-groups "$scratch/demo.sh"
	else
		tests/demo.sh
	fi
}

check 'the demo passes' passes tests/demo.sh
check 'the demo passes without privilege' passes as_nobody
check 'the demo fails if the event is not enabled' fails_with_broken_build
sum_up
