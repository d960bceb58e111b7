#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Daemon and keeper are killed repeatedly, at random moments, under programs that register and write all the time: no program is
# affected, each record is in the trace, and all charges end. CLIENTS, DAEMON_KILLS and KEEPER_KILLS are the numbers of each.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh

clients=${CLIENTS:-20} daemon_kills=${DAEMON_KILLS:-5} keeper_kills=${KEEPER_KILLS:-2}
instance=/sys/kernel/tracing/instances/load
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Restarts at once and without limit.
hurry_restarts()
{
	local unit
	for unit in userevd userevd-keeper; do
		mkdir -p "/run/systemd/system/$unit.service.d"
		printf '[Service]\nRestart=always\nRestartSec=0\n' >"/run/systemd/system/$unit.service.d/hurry.conf"
	done
	systemctl daemon-reload
}

# As a service, so that it is a tenant.
start_load()
{
	systemd-run --quiet --unit=load --property=Type=exec --property=KillMode=mixed --property=SuccessExitStatus=0 \
		"$B/tests/restart_load" "$clients" "$scratch/accounts"
}

own_events()
{
	printf '/events/user_events/load_%s\n' $(seq 0 $((clients - 1)))
}

all_are_registered()
{
	local event
	for event in $(own_events); do
		[ -d "$instance$event" ] || { echo "no $event"; return 1; }
	done
}

# In an instance whose buffer is read all the time.
trace_all()
{
	local event
	echo 16384 >$instance/buffer_size_kb
	cat $instance/trace_pipe >"$scratch/trace" 2>&1 &
	echo $! >"$scratch/reader"
	for event in $(own_events); do
		echo 1 >"$instance$event/enable" || return 1
	done
}

load_runs()
{
	systemctl is-active load && says_nothing journalctl --unit=load --grep=': process [0-9]+: ' --output=cat
}

# kill_many UNIT TIMES: at random moments.
kill_many()
{
	local unit=$1 times=$2 i before
	for i in $(seq "$times"); do
		before=$(property "$unit" MainPID)
		sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
		kill -KILL "$before" 2>/dev/null
		within 120 is_running "$unit" "$before" >/dev/null || { echo "no $unit after kill $i"; return 1; }
		load_runs >/dev/null || { echo "after kill $i of $unit:"; load_runs; return 1; }
	done
}

ended_well()
{
	systemctl stop load
	says '^success$' property load Result && [ -s "$scratch/accounts" ]
}

trace_is_whole()
{
	local size=0 now
	until now=$(stat --format=%s "$scratch/trace") && [ "$now" = "$size" ]; do
		size=$now
		sleep 2
	done
	kill "$(cat "$scratch/reader")"
	says_nothing grep -hE '^(overrun|dropped events): [1-9]' $instance/per_cpu/cpu*/stats
}

# Compares the records of each program with those in the trace.
every_record_is_there()
{
	awk 'NR == FNR { written[$1] = $2; sum[$1] = $3; next }
		match($0, / load_[0-9]+: x=0x[0-9a-f]+ \([0-9]+/) {
			split(substr($0, RSTART + 1, RLENGTH - 1), part, /: x=0x[0-9a-f]+ \(/)
			seen[part[1]]++
			total[part[1]] += part[2]
		}
		END {
			for (name in written) {
				all += written[name]
				if (seen[name] != written[name] || total[name] != sum[name]) {
					print name ": " written[name] " written (" sum[name] "), in the trace " seen[name] + 0 " (" total[name] + 0 ")"
					bad++
				}
			}
			print all " records"
			exit bad > 0 || all == 0
		}' "$scratch/accounts" "$scratch/trace"
}

fds_of()
{
	find "/proc/$(property "$1" MainPID)/fd" -mindepth 1 | wc -l
}

check 'userevd is installed' install_it
check 'the sockets start' systemctl start "${sockets[@]}"
hurry_restarts
check 'daemon and keeper start' within 120 has_backend enable-address on
daemon_fds=$(fds_of userevd) keeper_fds=$(fds_of userevd-keeper)
mkdir $instance
check "$clients programs start" start_load
check 'the programs have their events' within 300 all_are_registered
check 'the events are enabled' trace_all
check "the programs run on while the daemon is killed $daemon_kills times" kill_many userevd "$daemon_kills"
check 'the daemon has all clients' within 120 says "\"connections\": ?$clients\b" userevctl status --json
check "the programs run on while the keeper is killed $keeper_kills times" kill_many userevd-keeper "$keeper_kills"
check 'the programs run on while the daemon is killed twice' kill_many userevd 2
check 'the daemon still has all clients' within 120 says "\"connections\": ?$clients\b" userevctl status --json
check 'the guard is in force' within 120 has_backend enable-address on
check 'the programs end without errors' ended_well
check 'the trace has lost no record' trace_is_whole
check 'every record is in the trace' every_record_is_there
find $instance/events/user_events -mindepth 1 -maxdepth 1 -name 'load_*' -exec sh -c 'echo 0 >"$1/enable"' - {} \;
rmdir $instance
check 'no charge is left' within 120 says '"charges": ?0\b' userevctl status --json
check 'the daemon has as many fds as before' within 120 says "^$daemon_fds\$" fds_of userevd
check 'the keeper has as many fds as before' within 120 says "^$keeper_fds\$" fds_of userevd-keeper
check 'no system call was refused' says_nothing journalctl --grep='type=1326|SIGSYS' --output=cat
check 'the kernel has no event left' within 60 says_nothing find /sys/kernel/tracing/events/user_events -name 'load_*'
check 'sockets, daemon and keeper stop' systemctl stop "${sockets[@]}" userevd userevd-keeper
sum_up
