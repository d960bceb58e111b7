# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# For tests of userevctl, besides checks.sh: a scratch directory, sockets of the test's own, and programs in the background, which
# end with the test.

. tests/checks.sh
scratch=$(mktemp -d)
chmod 755 "$scratch"
export USEREV_SOCKET=$scratch/socket USEREV_CONTROL_SOCKET=$scratch/control TMPDIR=$scratch
unset USEREVCTL_WIDTH NO_COLOR
ctl=$B/userevctl daemon=''
started=()
trap 'end_all 2>/dev/null; [ -z "$daemon" ] || end $daemon 2>/dev/null; rm -rf "$scratch"' EXIT

# start OUTPUT COMMAND…: in the background; its pid is in $!.
start()
{
	local output=$1
	shift
	# Not by the program's start alone, which may come after a first look into it.
	: >"$output"
	"$@" >"$output" 2>"$output.error" &
	started+=($!)
}

# end PID…: after a SIGCONT for programs that are stopped.
end()
{
	kill -CONT "$@"
	kill "$@"
	wait "$@"
}

end_all()
{
	[ ${#started[@]} -eq 0 ] || end "${started[@]}" 2>/dev/null
	started=()
}

# within COMMAND…: becomes true in time. Otherwise it fails, and so does the test: see sum_up().
within()
{
	local deadline=$((SECONDS + 120)) pause=${IN_GUEST:+0.2}
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || { echo "$*" >>"$scratch/late"; "$@"; return; }
		# In a guest each look takes as long as this.
		sleep "${pause:-0.05}"
	done
}

# file_has WORD FILE: without a process, which in a guest takes longer than the look.
file_has()
{
	local text
	read -rd '' text <"$2"
	[[ $text = *"$1"* ]]
}

# start_daemon OPTION…: its pid is in $daemon.
start_daemon()
{
	"$B/userevd" --foreground --socket="$USEREV_SOCKET" --control-socket="$USEREV_CONTROL_SOCKET" "$@" >"$scratch/log" 2>&1 &
	daemon=$!
	within "$ctl" status
}

# start_program NAME SECONDS: an example that holds the event NAME_request.
start_program()
{
	start "$scratch/$1.out" "$B/examples/requests" "$@"
	within says "^$1_request" "$ctl" events
}
