#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `make run` runs: the daemon in the foreground, in a directory that is always the same, so that programs find it again, and what
# to try from another terminal.

set -eu
B=${B:-build}
here=$(cd "$B" && pwd)
# Clients of other users may come in; only the user who started this may switch events on, as nobody else may use the other socket.
directory=${TMPDIR:-/tmp}/userevd-run-$(id -u)
[ -d "$directory" ] || mkdir -m 755 "$directory"
if [ -L "$directory" ] || [ ! -O "$directory" ]; then
	echo "make run: $directory is somebody else's" >&2
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

(The first shows what the second writes: start it before.) A program of your own finds this daemon, and the next one, with

  export USEREV_SOCKET=$directory/userevd.sock

END
"$here/userevd" --foreground --backend=auto "$clients" "$admins" || status=$?
exit "${status:-0}"
