# SPDX-License-Identifier: GPL-2.0-or-later
#
# For tests of the services, in a guest where systemd is the first process. To be sourced after checks.sh, in the project's folder.

[ -d /run/guest ] && [ -d /run/systemd/system ] || { echo 'this installs into /usr: it is for a guest with systemd'; exit 1; }
unset LD_LIBRARY_PATH USEREV_SOCKET USEREV_CONTROL_SOCKET

sockets=(userevd.socket userevd-control.socket userevd-keeper.socket)

# The files, and a package's other steps.
install_it()
{
	cp -a "$B/installed/." / && systemd-sysusers userevd.conf && systemd-tmpfiles --create userevd.conf &&
		systemctl daemon-reload && systemctl preset "${sockets[@]}"
}

# Also removes the changes of tests.
uninstall_it()
{
	rm -rf /run/systemd/system/userevd{,-keeper}.service.d
	systemctl disable "${sockets[@]}" && make --no-print-directory B="$B" DEPENDENCIES=skip DESTDIR=/ PREFIX=/usr uninstall &&
		systemctl daemon-reload
}

property()
{
	systemctl show --property="$2" --value "$1"
}

# are_active UNIT…: all of them.
are_active()
{
	says_nothing grep -v '^active$' <(systemctl is-active "$@")
}

# is_running UNIT PID: with another main process than that.
is_running()
{
	local now
	now=$(property "$1" MainPID)
	echo "$now"
	[ "$now" != 0 ] && [ "$now" != "$2" ] && systemctl is-active "$1"
}

# is_replaced UNIT COMMAND…: after the command the unit has another process, and the daemon answers.
is_replaced()
{
	local unit=$1 before
	before=$(property "$1" MainPID)
	shift
	"$@" && within 120 is_running "$unit" "$before" && within 120 userevctl status
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

# kill_all UNIT…: kills all processes of their cgroups, and waits for new ones.
kill_all()
{
	local unit before=()
	for unit; do before+=("$(property "$unit" MainPID)"); done
	systemctl kill --signal=KILL "$@" || return 1
	for unit; do
		within 120 is_running "$unit" "${before[0]}" || return 1
		before=("${before[@]:1}")
	done
}

# reload_with LINE…: with these lines as the policy.
reload_with()
{
	mkdir -p /etc/userevd/policy.d
	printf '%s\n' "$@" >/etc/userevd/policy.d/50-test.conf
	systemctl reload userevd
}
