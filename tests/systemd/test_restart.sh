#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Daemon and keeper are killed again and again, at any moment, under programs that register and write all the time: none of them
# notices, every record that they wrote is in the trace, and at the end nothing is left. CLIENTS, DAEMON_KILLS and KEEPER_KILLS say
# how many.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh

clients=${CLIENTS:-20} daemon_kills=${DAEMON_KILLS:-10} keeper_kills=${KEEPER_KILLS:-3}
instance=/sys/kernel/tracing/instances/load
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Started again at once, and as often as it takes.
hurry_restarts()
{
	local unit
	for unit in userevd userevd-keeper; do
		mkdir -p "/run/systemd/system/$unit.service.d"
		printf '[Service]\nRestart=always\nRestartSec=0\n' >"/run/systemd/system/$unit.service.d/hurry.conf"
	done
	systemctl daemon-reload
}

# In a service of its own, so that it is a tenant.
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
		[ -d "$instance$event" ] || { echo "there is no $event"; return 1; }
	done
}

# In a buffer of its own, which is emptied all the time.
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
	systemctl is-active load && says_nothing journalctl --unit=load --grep='^program ' --output=cat
}

# kill_many UNIT TIMES: each time at another moment of what it does.
kill_many()
{
	local unit=$1 times=$2 i before
	for i in $(seq "$times"); do
		before=$(property "$unit" MainPID)
		sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
		kill -KILL "$before" 2>/dev/null
		within 120 is_another "$unit" "$before" >/dev/null || { echo "no $unit after kill $i"; return 1; }
		load_runs >/dev/null || { echo "after kill $i of $unit:"; load_runs; return 1; }
	done
}

# Both answer, so they have taken over what the last ones had.
has_all_clients()
{
	says "\"connections\": ?$clients\b" userevctl status --json
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

# What each has written, and what of it is there; alike, or it is shown.
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

has_fds()
{
	says "^$2\$" fds_of "$1"
}

nothing_is_charged()
{
	says '"charges": ?0\b' userevctl status --json
}

check 'what a package installs' install_it
check 'the sockets start' systemctl start "${sockets[@]}"
hurry_restarts
check 'daemon and keeper start' within 120 has_backend enable-address on
daemon_fds=$(fds_of userevd) keeper_fds=$(fds_of userevd-keeper)
mkdir $instance
check "$clients programs" start_load
check '… have their events' within 300 all_are_registered
check '… which are switched on' trace_all
check "the daemon is killed $daemon_kills times, and nobody notices" kill_many userevd "$daemon_kills"
check '… and has all of them' within 120 has_all_clients
check "the keeper is killed $keeper_kills times, and nobody notices" kill_many userevd-keeper "$keeper_kills"
check '… and the daemon a few times more' kill_many userevd 5
check 'all are there' within 120 has_all_clients
check 'the guard holds' within 120 has_backend enable-address on
check 'they end, content' ended_well
check 'nothing was too much for the trace' trace_is_whole
check 'every record that was written is there' every_record_is_there
find $instance/events/user_events -mindepth 1 -maxdepth 1 -name 'load_*' -exec sh -c 'echo 0 >"$1/enable"' - {} \;
rmdir $instance
check 'nothing is charged any more' within 120 nothing_is_charged
check 'the daemon has no file too many' within 120 has_fds userevd "$daemon_fds"
check '… nor has the keeper' within 120 has_fds userevd-keeper "$keeper_fds"
check 'nobody called what it may not' says_nothing journalctl --grep='type=1326|SIGSYS' --output=cat
check 'the kernel has none of their events' within 60 says_nothing find /sys/kernel/tracing/events/user_events -name 'load_*'
check 'all is stopped' systemctl stop "${sockets[@]}" userevd userevd-keeper
check 'it is uninstalled' uninstall_it
sum_up
