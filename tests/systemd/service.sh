# SPDX-License-Identifier: GPL-2.0-or-later
#
# For tests of the services, in a guest where systemd is the first process: installs them, and asks what has become of them. To be
# sourced behind checks.sh, in the project's folder.

[ -d /run/guest ] && [ -d /run/systemd/system ] || { echo 'this installs into /usr: it is for a guest with systemd'; exit 1; }
unset LD_LIBRARY_PATH USEREV_SOCKET USEREV_CONTROL_SOCKET

sockets=(userevd.socket userevd-control.socket userevd-keeper.socket)

make_target()
{
	make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR=/ PREFIX=/usr "$1"
}

# What a package does behind the files.
install_it()
{
	make_target install && systemd-sysusers userevd.conf && systemd-tmpfiles --create userevd.conf &&
		systemctl daemon-reload && systemctl preset "${sockets[@]}"
}

# And what tests have changed of it.
uninstall_it()
{
	rm -rf /run/systemd/system/userevd{,-keeper}.service.d
	systemctl disable "${sockets[@]}" && make_target uninstall && systemctl daemon-reload
}

property()
{
	systemctl show --property="$2" --value "$1"
}

# within SECONDS COMMAND…: becomes true in that time; if not, what it said last is shown.
within()
{
	local deadline=$((SECONDS + $1)) output
	shift
	until output=$("$@" 2>&1); do
		[ $SECONDS -lt $deadline ] || { printf '%s\n' "$output" && return 1; }
		sleep 0.2
	done
}

# says PATTERN COMMAND…
says()
{
	local pattern=$1 output
	shift
	output=$("$@" 2>&1)
	printf '%s\n' "$output"
	grep -qE -- "$pattern" <<<"$output"
}

says_nothing()
{
	local output
	output=$("$@" 2>/dev/null)
	printf '%s\n' "$output"
	[ -z "$output" ]
}

# is_another UNIT PID: it runs, and is not that process.
is_another()
{
	local now
	now=$(property "$1" MainPID)
	echo "$now"
	[ "$now" != 0 ] && [ "$now" != "$2" ] && systemctl is-active "$1"
}

# survives_that UNIT COMMAND…: after it there is another one of the unit, and what is asked is answered.
survives_that()
{
	local unit=$1 before
	before=$(property "$1" MainPID)
	shift
	"$@" && within 120 is_another "$unit" "$before" && within 120 userevctl status
}

fails()
{
	! "$@"
}

kill_of()
{
	kill "-$2" "$(property "$1" MainPID)"
}

# has_backend NAME GUARD
has_backend()
{
	says "\"backend\":\"$1\".*\"guard\":\"$2\"" userevctl status --json
}
