#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# `make run`: the daemon in the foreground. The directory is always the same, so that programs find the next daemon, too.

set -eu
B=${B:-build}
here=$(cd "$B" && pwd)
# Clients of all users may connect; only the daemon's user may use the control socket and enable events.
directory=${TMPDIR:-/tmp}/userevd-run-$(id -u)
[ -d "$directory" ] || mkdir -m 755 "$directory"
if [ -L "$directory" ] || [ ! -O "$directory" ]; then
	echo "make run: $directory belongs to another user" >&2
	exit 1
fi
chmod 755 "$directory"
trap 'rmdir "$directory" 2>/dev/null || true' EXIT
trap : INT TERM
clients=--socket=$directory/userevd.sock
admins=--control-socket=$directory/control.sock

cat <<END
userevd runs until you press Ctrl-C. From other terminals:

  $here/userevctl $admins tail 'hello*'
  $here/userevctl $clients emit 'hello u32 count; __rel_loc char[] whom' count=1 whom=world
  $here/userevctl $admins status

(The first prints the records of the second: start it first.) Your own programs find this daemon, and later ones, with

  export USEREV_SOCKET=$directory/userevd.sock

END
"$here/userevd" --foreground --backend=auto "$clients" "$admins" || status=$?
exit "${status:-0}"
