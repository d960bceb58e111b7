#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Programs in containers, in a guest where systemd is the first process: for each engine the same tests, with the command that
# userevd-containers(7) names. $ENGINES are the engines, or "all".

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
. tests/containers/files.sh
. tests/containers/pods.sh
short='podman nspawn containerd'
long='podman_rootless podman_userns podman_cgroupfs podman_tenants podman_seccomp podman_unit podman_pod nspawn_file docker compose docker_userns docker_cgroupfs lxc service cri cri_pods'
read -ra engines <<<"${ENGINES:-$short}"
[ "${ENGINES-}" != all ] || read -ra engines <<<"$short $long"

# in_engine VERB NAME…: of the engine whose turn it is.
in_engine()
{
	"$1_$engine" "${@:2}"
}

# Sets its leader and its tenant.
has_started()
{
	leader[$1]=$(in_engine leader "$1") && [ "${leader[$1]}" -gt 0 ] && tenant[$1]=$(in_engine tenant "$1")
}

is_a_tenant()
{
	says "\"tenant\":\"${tenant[$1]}\"" userevctl tenants --json
}

# By the name that people know, alone.
is_named()
{
	local known name
	known=$(in_engine name "$1") && name=$(userevctl tenants "${known%% (*}" | cut -f1,2) && echo "$name" &&
		[ "$name" = "$known"$'\t'"${tenant[$1]}" ]
}

# shown NAME: where there is room for one thing.
shown()
{
	local known
	known=$(in_engine name "$1")
	[[ $known == *\) ]] && echo "$known" || echo "${tenant[$1]}"
}

# As lines of tail: nothing of the other one is among them. Its events are off again behind it.
is_traced()
{
	local known lines
	known=$(in_engine name "$1") && userevctl enable '*_request' &&
		lines=$(timeout 60 userevctl tail --count=2 --tenant="${known%% (*}" '*_request') && echo "$lines" && userevctl disable '*_request' &&
		[ "$(cut -f3,4 <<<"$lines" | sort -u)" = "$(shown "$1")"$'\t'"$1_request" ]
}

# reported OPTION… FILE: the tenants and the events in it.
reported()
{
	userevctl report "$@" | cut -f3,4 | sort -u
}

# By the name that people know, in a recording of both programs, in one of its own, and in numbers.
is_selected()
{
	local known only both=$storage/both.dat one=$storage/one.dat
	known=$(in_engine name "$1") && known=${known%% (*} && only="$(shown "$1")"$'\t'"$1_request" &&
		timeout 60 userevctl record --output=$both --count=100 '*_request' && reported $both && [ "$(reported $both | wc -l)" = 2 ] &&
		[ "$(reported --tenant="$known" $both)" = "$only" ] &&
		timeout 60 userevctl record --output=$one --count=5 --tenant="$known" '*_request' && [ "$(reported $one)" = "$only" ] &&
		userevctl stats --count=2 --tenant="$known" '*_request' | tee $storage/stats && [ "$(cut -f4 $storage/stats | sort -u)" = "$1_request" ]
}

# Any user in it, where the policy allows that: its own events, which are off for the machine, and not its neighbour's.
watches_itself()
{
	local result
	fails 4 'OwnTracing=yes' in_engine inside shop 1000 userevctl tail --count=1 || return 1
	reload_with '[/**]' OwnTracing=yes && in_engine inside shop 1000 userevctl tail --count=20 --timeout=60 >$storage/own
	result=$?
	rm /etc/userevd/policy.d/50-test.conf && systemctl reload userevd && cat $storage/own && [ $result = 0 ] && [ "$(cut -f4 $storage/own | sort -u)" = shop_request ]
}

# Root in the container, with the cgroups writable if it can, names itself as its neighbour, and the neighbour's cgroup, by its path on the
# host and from there, as mallory: setxattr() is system call 188.
keeps_its_name()
{
	# shellcheck disable=SC2016 # of Perl
	in_engine inside shop 0 sh -c 'mount -o remount,rw /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup
		for path in /sys/fs/cgroup "/sys/fs/cgroup$1" "/sys/fs/cgroup/../${1##*/}" "/proc/1/root/sys/fs/cgroup$1"; do
			for name in security.userevd.name user.userevd.name..; do
				perl -e '\''($name, $path, $value) = (@ARGV, $ARGV[1] eq "/sys/fs/cgroup" ? "podman bank" : "podman mallory");
					print "$name $path: ", syscall(188, $path, $name, $value, length $value, 0), " $!\n"'\'' $name "$path"
			done
		done' sh "${tenant[bank]}" && is_named shop && is_named bank
}

has_no_privilege()
{
	local status
	status=$(cat "/proc/${leader[shop]}/status") && printf '%s\n' "$status" &&
		grep -qE '^CapEff:\s0+$' <<<"$status" && grep -qE '^Seccomp:\s2$' <<<"$status" && ! grep -qE '^Uid:\s0\s' <<<"$status"
}

emit_in()
{
	in_engine inside "$1" "$2" userevctl emit --require "$3 u32 x" x=1
}

# A program that is started inside belongs to the container's tenant.
is_refused()
{
	says 'this tenant holds [0-9]+ of 1 events \(MaxEvents=1 of ' emit_in "$@"
}

listing()
{
	find /run/userevd/client -printf '%M %u:%g %s %i %p\n'
}

# As root in the container, which may be able to make its mount writable.
withstands_attacks()
{
	local before
	before=$(listing)
	in_engine inside shop 0 sh -c 'cd /run/userevd/client && test -S userevd.sock && {
		mount -o remount,bind,rw /run/userevd/client; rm -f userevd.sock; mv userevd.sock other; touch mine; ln -s / mine
		chmod 777 .; chmod 600 userevd.sock; chown 1000 .; true; }' && [ "$(listing)" = "$before" ]
}

returns_after_kill_of()
{
	kill_all "$@" && within 60 is_a_tenant shop && within 60 is_traced shop
}

stays_after_restart_of()
{
	systemctl restart "$@" && within 60 is_a_tenant shop && within 60 is_traced shop
}

is_the_same()
{
	[ "$(in_engine leader shop)" = "${leader[shop]}" ]
}

# Without it for a while; then the engine finds it again.
outlives_engine()
{
	in_engine outlive shop && is_a_tenant shop && is_named shop && is_traced shop && within 60 is_the_same
}

# The engine says its name all the same.
starts_without_daemon()
{
	local result
	systemctl stop "${sockets[@]}" userevd userevd-keeper && in_engine start shop && within 60 has_started shop && has_started shop
	result=$?
	systemctl start "${sockets[@]}" && [ $result = 0 ] && within 60 is_a_tenant shop && within 10 is_named shop
}

shares_user_namespace()
{
	[ "$(readlink "/proc/${leader[shop]}/ns/user")" = "$(readlink /proc/self/ns/user)" ]
}

gets_no_file_without_policy()
{
	local result
	rm $unguarded && systemctl reload userevd || return 1
	# A service's cgroup is not delegated: it is one of the host's own programs.
	if [ "$engine" != service ] && shares_user_namespace; then
		says 'AllowHostUserns=' emit_in shop 1000 third
	else
		emit_in shop 1000 third
	fi
	result=$?
	echo "exit status $result"
	userevctl status
	allow_without_guard && return $result
}

nothing_is_charged()
{
	says '"charges":0[,}]' userevctl status --json && says_nothing userevctl events
}

# The page's table has the row's name in a comment.
page_rows()
{
	sed -n 's/^\.It .* Ta \([0-9.]*\) Ta .* \\" row \(.*\)/\2 \1/p' "$page"
}

lists_all_rows()
{
	diff <(page_rows | cut -d' ' -f1 | sort) <(printf '%s\n' $short $long | sort)
}

is_version_of_page()
{
	says "\<$(page_rows | sed -n "s/^$engine //p")\>" in_engine version
}

row()
{
	local engine=$1 name root='root in the container' begun=$SECONDS
	local -A leader=() tenant=()
	! declare -F "root_$1" >/dev/null || root=$(in_engine root)
	check "$1: the engine starts" in_engine prepare
	check "$1: it is the page's version" is_version_of_page
	for name in shop bank; do
		check "$1: the container $name starts" in_engine start $name
		check "$1: $name is running" within 60 has_started $name
		# In this shell, for its variables.
		has_started $name || { in_engine kill $name; return; }
		check "$1: $name is a tenant of its own" within 60 is_a_tenant $name
		check "$1: $name has its name" within 10 is_named $name
	done
	check "$1: the program has no privilege and a seccomp filter" has_no_privilege
	check "$1: its records arrive under its name" within 60 is_traced shop
	check "$1: record, report and stats select it by its name" is_selected shop
	check "$1: any user in it sees its own events, and no others" watches_itself
	check "$1: $root may emit, too" emit_in shop 0 by_root
	check "$1: the policy gives it one event" reload_with "[${tenant[shop]}]" MaxEvents=1
	check "$1: the second event is refused" is_refused shop 1000 second
	check "$1: its neighbour gets the event" emit_in bank 1000 second
	rm /etc/userevd/policy.d/50-test.conf
	check "$1: without the policy it gets it, too" eval 'systemctl reload userevd && emit_in shop 1000 second'
	[ ! -e $unguarded ] || check "$1: without the guard a file is for user namespaces, or by the policy" gets_no_file_without_policy
	check "$1: the directory withstands $root" withstands_attacks
	check "$1: $root cannot choose another name, nor its neighbour's" keeps_its_name
	if [ -n "${ENGINES-}" ]; then
		check "$1: it stays when daemon and keeper are restarted" stays_after_restart_of userevd userevd-keeper
		check "$1: it returns after the daemon was killed" returns_after_kill_of userevd
		check "$1: it returns after the keeper was killed" returns_after_kill_of userevd-keeper
	fi
	check "$1: it returns after both were killed" returns_after_kill_of userevd userevd-keeper
	if [ -n "${ENGINES-}" ] && declare -F "outlive_$1" >/dev/null; then
		check "$1: it outlives its engine" outlives_engine
	fi
	! declare -F "own_$1" >/dev/null || check "$1: its own check" in_engine own shop
	check "$1: the container is killed" in_engine kill shop
	check "$1: its neighbour is traced" within 60 is_traced bank
	if [ -n "${ENGINES-}" ]; then
		check "$1: it starts without the daemon, which it finds later" starts_without_daemon
		check "$1: it is killed again" in_engine kill shop
	fi
	check "$1: the neighbour is killed" in_engine kill bank
	check "$1: all events are refunded" within 60 nothing_is_charged
	echo "$1: $((SECONDS - begun)) s"
}

check 'the page lists the rows that are tested' lists_all_rows
check 'daemon and files are there' prepare_files
has_guard || check 'without the guard the policy allows files' allow_without_guard
for one in "${engines[@]}"; do
	row "$one"
done
read -ra left_out <<<"$long"
left_out+=('native programs of C++, of Rust and with musl' 'all rows on Linux 6.1' 'daemon and keeper restarted and killed alone, without the daemon and without the engine, in each row'
	test_mounts.sh test_image.sh test_daemonset.sh test_privileges.sh test_upgrade.sh test_cgroup_versions.sh
	'test_old_cgroups.sh with hybrid cgroups' 'test_name.sh with a thousand processes')
printf -v skipped '%s, ' "${left_out[@]}"
skipped="${#left_out[@]} skipped: make check-containers also runs ${skipped%, }; make check-packages test_packages.sh"
[ -z "${ENGINES-}" ] || skipped=
sum_up "$skipped"
