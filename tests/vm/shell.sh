#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What `make vm` runs in the guest: the daemon, started by hand as root, and a shell. `exit` switches the guest off.

B=$(cd "${B:-build}" && pwd) || exit 1
log=/var/log/userevd.log
export PATH=$B:$B/examples:$PATH

# The terminal is a serial line, which cannot tell its size: the host leaves it in a file, when it changes, too.
fit()
{
	local size
	read -r -a size </run/guest/size && [ "${#size[@]}" = 2 ] && [ "${size[0]}" != 0 ] && stty rows "${size[0]}" cols "${size[1]}"
} 2>/dev/null
export -f fit

fit
mkfifo /run/ready
"$B/userevd" --foreground --ready-fd=3 >"$log" 2>&1 3>/run/ready </dev/null &
if read -r -t 60 </run/ready; then
	state="userevd is running as process $! ($log)"
else
	state="userevd could not be started, see $log"
fi
rm /run/ready

cat <<END

This is Linux $(uname -r), a guest without network. You are root; the files are this host's, and changes are gone at the end.
$state. Some things to try:

  userevctl status
  hello &  # says so once a second, for a minute
  userevctl tail --wait --count=3 hello_said
  trace-cmd record -e user_events:hello_said sleep 3; trace-cmd report  # or: perf record -a -e user_events:hello_said sleep 3; perf script
  cat /sys/kernel/tracing/user_events_status

\`exit\` (or Ctrl-D) switches the guest off; Ctrl-] and then x kills it when it hangs.

END
cat >/run/bashrc <<'END'
PS1='\[\e[1m\]guest \w #\[\e[0m\] '
PROMPT_COMMAND=fit
HISTFILE=
END
[ -t 0 ] || exec bash
exec bash --rcfile /run/bashrc -i
