#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The image of `make image`, in a guest where systemd is the first process, with the files of systemd/containers: a pod with the daemon, a pod
# with programs, and updates of the first under the second. Podman 4.3 knows no DaemonSet, so its template is played as a pod; takes
# hostPID from its own configuration; and makes a line for a shell of livenessProbe, so the probes' command is run here instead. It
# ignores what is for schedulers: updateStrategy, tolerations, priorityClassName, nodeSelector, readinessProbe.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
. tests/containers/image.sh
pod=userevd-userevd # of podman: the pod's name and the container's
keeper_pod=userevd-keeper-keeper
instance=/sys/kernel/tracing/instances/load

# The program has the image that kubernetes-pod.yaml names.
prepare_node()
{
	prepare_programs && storage_of /var/lib/containers && loaded=$(podman load --quiet --input "$archive") &&
		podman tag "${loaded#Loaded image: }" "registry.example.org/userevd:$version" "registry.example.org/userevd-keeper:$version" &&
		image | podman import --quiet --change USER=1000 --change ENV=PATH=/usr/bin --change CMD='["shop-requests","shop","3600"]' - registry.example.org/shop:1
}

# play OPTION… FILE
play()
{
	podman play kube --quiet --network=none "$@"
}

# play_ours POD OPTION…: userevd or userevd-keeper.
play_ours()
{
	local name=$1
	shift
	CONTAINERS_CONF=$scratch/containers.conf play "$@" "$scratch/$name.yaml"
}

# in_pod COMMAND…
in_pod()
{
	podman exec $pod "$@"
}

have_this_version()
{
	local program
	for program in userevd userevctl /usr/lib/userevd/userevd-{keeper,guard}; do
		says "^${program##*/} $version\$" in_pod "$program" --version || return 1
	done
}

# pid_of CONTAINER
pid_of()
{
	podman inspect --format='{{.State.Pid}}' "$1"
}

# In container NAME of the pod with programs.
in_shop()
{
	podman exec shop-shop "$@"
}

# Its cgroup, which the runtime may have divided.
tenant()
{
	sed -n 's#^0::\(.*\.scope\).*#\1#p' "/proc/$(podman inspect --format='{{.State.Pid}}' shop-shop)/cgroup"
}

# By the name of its container.
is_a_named_tenant()
{
	says "^shop-shop \(podman\)"$'\t'"$(tenant)"$'\t' userevctl tenants 'shop-shop'
}

is_tailed()
{
	userevctl enable shop_request && says 'shop-shop \(podman\).shop_request' timeout 60 userevctl tail --count=1 --tenant=shop-shop shop_request &&
		userevctl disable shop_request
}

# Beside shop_request: three programs whose events are off, and one after the other that registers, emits and ends.
start_load()
{
	local i
	for i in 1 2 3; do
		podman exec --detach shop-shop shop-requests "quiet$i" 3600 || return 1
	done
	podman exec --detach shop-shop sh -c 'while [ ! -e /tmp/end ]; do userevctl emit "short u32 x" x=1; done'
}

# All four are there, with one charge each.
has_its_events()
{
	local name
	userevctl events
	for name in shop quiet{1..3}; do
		says "^${name}_request\b" userevctl events || return 1
	done
}

nothing_is_charged_twice()
{
	# An event of a program that has ended lingers as long as others use the data file.
	json 'len(it) == 1 and it[0]["events"] - it[0]["lingering"] == 4' userevctl --json tenants
}

trace()
{
	mkdir $instance && echo 8192 >$instance/buffer_size_kb && echo 1 >$instance/events/user_events/shop_request/enable || return 1
	cat $instance/trace_pipe >"$scratch/trace" 2>&1 &
	echo $! >"$scratch/reader"
}

# Records are numbered: `ns` is thousand times the number. Only where daemon and keeper were killed together some may be missing, while
# the program connects again.
records_are_missing_once_at_most()
{
	echo 0 >$instance/events/user_events/shop_request/enable
	sleep 2
	kill "$(cat "$scratch/reader")"
	rmdir $instance
	tail -3 "$scratch/trace"
	awk -v killed="$(cat "$scratch/killed")" 'match($0, /ns=(0x[0-9a-f]+ \()?[0-9]+/) {
			ns = substr($0, RSTART, RLENGTH)
			sub(/.*[=(]/, "", ns)
			ns += 0
			if (last && ns != last + 1000) { print "after " last ": " ns; if (last < killed) bad++ }
			last = ns
			n++
		}
		END { print n " records, killed after " killed; exit bad > 0 || last <= killed || n < 100 }' "$scratch/trace"
}

# The number of the last record that was traced, before daemon and keeper are killed.
note_last_record()
{
	sed -n 's/.*ns=\(0x[0-9a-f]* (\)\?\([0-9]*\).*/\2/p' "$scratch/trace" | tail -1 >"$scratch/killed" && [ -s "$scratch/killed" ]
}

# replace POD TAG: the old pod ends, then the new one starts, with a new cgroup and another name of the same image.
replace()
{
	podman tag "registry.example.org/userevd:$version" "registry.example.org/$1:$2" &&
		sed -i "s#\(registry.example.org/$1\):.*#\1:$2#" "$scratch/$1.yaml" && play_ours "$1" --replace
}

# Daemon, keeper and their helpers, at the same moment. Podman, as a kubelet, starts the container again.
kill_all_at_once()
{
	local name pid before cgroups=()
	for name in $pod $keeper_pod; do
		# The keeper has a cgroup of its own in that of its container.
		pid=$(pid_of "$name") && cgroups+=("/sys/fs/cgroup$(sed -n 's/^0:://p; T; q' "/proc/$pid/cgroup" | sed 's#/userevd-keeper-[^/]*$##')/cgroup.kill") || return 1
	done
	before=$(pid_of $pod) && echo 1 | tee "${cgroups[@]}" && within 60 eval "is_ready && [ \$(pid_of $pod) != $before ]"
}

# renew_policy LINE…: as a kubelet renews a ConfigMap: a new directory, and a link to it that is replaced.
renew_policy()
{
	local files new=..$RANDOM
	files=$(podman volume inspect --format='{{.Mountpoint}}' userevd-policy) && mkdir "$files/$new" &&
		printf '%s\n' "$@" >"$files/$new/30-kubernetes.conf" && ln -s $new "$files/..next" && mv -T "$files/..next" "$files/..data" &&
		ln -sf ..data/30-kubernetes.conf "$files/30-kubernetes.conf"
}

# In the ConfigMap, since podman writes its files again for each pod.
break_policy()
{
	/usr/bin/python3 - "$scratch/userevd.yaml" <<-'END'
		import sys, yaml
		policy, pod = yaml.safe_load_all(open(sys.argv[1]))
		policy["data"] = dict.fromkeys(policy["data"], "[/x]\nMaxEvents=many\n")
		open(sys.argv[1], "w").write(yaml.dump_all([policy, pod]))
	END
}

emits()
{
	in_shop userevctl emit --require 'another u32 x' x=1
}

check 'the manifests are as the test expects' take_manifests
printf '[containers]\npidns = "host"\n' >"$scratch/containers.conf"
check 'the node is prepared' prepare_node
check 'the image is small' json 'it[0]["Size"] < 8e6' podman image inspect "registry.example.org/userevd:$version"
check '… and has the usual labels' json '{"title", "description", "version", "licenses", "revision"} <= {name.split(".")[-1] for name in it[0]["Labels"]}' \
	podman image inspect "registry.example.org/userevd:$version"
check 'the pod of the daemon starts' play_ours userevd
check '… and waits for the keeper' eval '! is_ready'
check 'the pod of the keeper starts' play_ours userevd-keeper
check 'it is ready, as the probes find' within 60 is_ready
check 'all programs have this version' have_this_version
check 'the kernel has the guard' within 10 has_backend enable-address on
check 'daemon and keeper have given up their rights' rights_are_given_up
check 'the pod of the program starts' play systemd/containers/kubernetes-pod.yaml
check 'the program is a tenant with a name' within 60 is_a_named_tenant
check 'its record is tailed on the host' is_tailed
check 'more programs start' start_load
check 'all programs have their events' within 60 has_its_events
check 'one is traced' trace
check 'the policy is one that a kubelet renews' eval 'renew_policy "$(cat systemd/containers/30-kubernetes.conf)"'
connections >"$scratch/connections"
check 'four programs are connected' [ "$(wc -l <"$scratch/connections")" -eq 4 ]
for i in next last; do
	for one in userevd userevd-keeper; do
		check "a pod of version $i replaces $one" replace $one $i
		check "version $i is ready" within 60 is_ready
		check "all programs have their events from version $i at once" has_its_events
		check "… on the same connections" are_still_connected
		check "the guard is in force with version $i" within 20 has_backend enable-address on
	done
done
check 'the last record until now' note_last_record
check 'daemon and keeper are killed at once, and start again' kill_all_at_once
check 'all programs have their events again' within 20 has_its_events
check 'no record is missing, but while the program connects again' records_are_missing_once_at_most
in_shop touch /tmp/end
check 'nothing is charged twice' within 30 nothing_is_charged_twice
check 'a tenant has its name in the pod, too' says '^shop-shop \(podman\)' in_pod userevctl tenants shop-shop
check 'the policy is changed' renew_policy "[$(tenant)]" MaxEvents=4
check '… and is in force soon' within 20 says 'MaxEvents=4' emits
check 'an error in the policy is shown' eval 'renew_policy "[/x]" MaxEvents=many && within 20 says "the policy files have errors" in_pod userevctl status --brief'
check '… where it is' says '30-kubernetes.conf:2' podman logs $pod
check '… and leaves the policy in force' says 'MaxEvents=4' emits
check 'the next pod starts' eval 'break_policy && replace userevd other'
check '… with the policy before' within 60 says 'policy files have errors' in_pod userevctl status --brief
check '… is ready in spite of the error' eval 'within 60 is_ready || { podman logs $pod; false; }'
check '… has all events' within 20 has_its_events
check '… and no more than that allows' says 'MaxEvents=4' emits
check 'the pods of daemon and keeper are taken away' eval 'podman play kube --down "$scratch/userevd.yaml" && podman play kube --down "$scratch/userevd-keeper.yaml"'
check '… with its sockets' exits 3 userevctl status
check '… and its programs run on' pgrep shop-requests
check '… and the guard is in force' says '"loaded":true' "$B/userevd-guard" --status
check 'the pod of the program is taken away' podman play kube --down systemd/containers/kubernetes-pod.yaml
sum_up
