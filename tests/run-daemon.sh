#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `make run` runs: the daemon in the foreground, in a directory of its own, and what to try from another terminal.

set -eu
B=${B:-build}
here=$(cd "$B" && pwd)
# Clients of other users may come in; who may switch events on is who started this, since only he may use the other socket.
directory=$(mktemp -d /tmp/userevd-XXXXXX)
chmod 755 "$directory"
trap 'rm -rf "$directory"' EXIT
trap : INT TERM
clients=--socket=$directory/userevd.sock
admins=--control-socket=$directory/control.sock

cat <<END
userevd runs until you press Ctrl-C. From other terminals:

  $here/userevctl $admins tail 'hello*'
  $here/userevctl $clients emit 'hello u32 count; __rel_loc char[] whom' count=1 whom=world
  $here/userevctl $admins status

(The first shows what the second writes: start it before.)

END
"$here/userevd" --foreground --backend=auto "$clients" "$admins" || status=$?
exit "${status:-0}"
