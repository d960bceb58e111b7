#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Privileges of kubernetes-daemonset.yaml: both pods start on a clean node without exactly one of them, and an admin then sees the text in the
# table. In a guest where systemd is the first process. (Its kernel has neither AppArmor nor SELinux, and is not preemptible: without
# sched/preempt the guard works there, too.)

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^VERSION := //p' Makefile)

# POD  what it lacks  what is seen
table=$(
	cat <<'END'
keeper	SYS_ADMIN	nsenter: reassociate to namespace 'ns/cgroup' failed: Operation not permitted
keeper	SYS_RESOURCE	can't use user_events: Too many references: cannot splice
keeper	SYS_PTRACE	nsenter: cannot open /proc/1/ns/cgroup: Permission denied
keeper	SETPCAP	can't use user_events: Operation not permitted
keeper	CHOWN	can't listen on /run/userevd-keeper/keeper.sock: Operation not permitted
keeper	root	can't listen on /run/userevd-keeper/keeper.sock: Permission denied
keeper	hostPID	can't make a cgroup for the keeper: Permission denied
keeper	mount keeper	can't listen on /run/userevd-keeper/keeper.sock: No such file or directory
keeper	mount cgroup	no guard \(there is no cgroup v2\)
keeper	mount tracing	can't use user_events: Read-only file system
keeper	mount bpf	no guard is pinned on the node
keeper	mount debug	keeper sees no sched
userevd	SYS_ADMIN	nsenter: reassociate to namespace 'ns/cgroup' failed: Operation not permitted
userevd	SYS_PTRACE	nsenter: cannot open /proc/1/ns/cgroup: Permission denied
userevd	SETUID	can't give up root's privileges: Operation not permitted
userevd	SETGID	can't give up root's privileges: Operation not permitted
userevd	SETPCAP	can't give up root's privileges: Operation not permitted
userevd	CHOWN	can't keep the policy in /var/lib/userevd/state for the next start: Permission denied
userevd	DAC_OVERRIDE	can't talk to the keeper at /run/userevd-keeper/keeper.sock: Permission denied
userevd	hostPID	can't see your process: it is outside of the daemon's pid namespace
userevd	mount run	can't listen on /run/userevd/client/userevd.sock: No such file or directory
userevd	mount keeper	waiting for the keeper at /run/userevd-keeper/keeper.sock: No such file or directory
userevd	mount state	can't keep the policy in /var/lib/userevd/state for the next start: No such file or directory
userevd	mount policy	poor has an event
userevd	mount cgroup	^outer-inner.slice
userevd	root	user 58117 may not (read|mount) tracefs
END
)

# manifest [POD WHAT]: both pods, without that. `allow persist`: as the manifest's comment says, with the option and the capability.
manifest()
{
	/usr/bin/python3 - "$scratch" "$@" <<-'END'
		import sys, yaml
		target, pod, what = (sys.argv[1:] + ["", ""])[:3]
		name_of = {"userevd-keeper": "keeper", "userevd": "userevd"}
		for one in yaml.safe_load_all(open("systemd/containers/kubernetes-daemonset.yaml")):
		    name, template = one["metadata"]["name"], one["spec"]["template"]
		    spec = template["spec"]
		    container, = spec["containers"]
		    context = container["securityContext"]
		    container.pop("livenessProbe", None)
		    if pod == "allow" and name == "userevd-keeper":
		        container["args"].append("--allow-persist")
		        context["capabilities"]["add"].append("PERFMON")
		    if name_of[name] == pod:
		        if what == "root":
		            context["runAsUser"] = 58117
		        elif what == "hostPID":
		            del spec["hostPID"]
		        elif what.startswith("mount "):
		            size = len(container["volumeMounts"])
		            container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] != what[6:]]
		            spec["volumes"] = [volume for volume in spec["volumes"] if volume["name"] != what[6:]]
		            assert len(container["volumeMounts"]) == size - 1
		        else:
		            context["capabilities"]["add"].remove(what)
		    documents = [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **template["metadata"]}, "spec": spec}]
		    if name == "userevd":
		        documents[:0] = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "userevd-policy"},
		                          "data": {"30-test.conf": "[/system.slice/poor.service]\nMaxEvents=0\n" +
		                                   ("[/system.slice/lasting.service]\nAllowPersist=yes\n" if pod == "allow" else "")}}]
		    # Podman takes the PID namespace from its configuration.
		    open(f"{target}/{name}.conf", "w").write('[containers]\ndefault_ulimits = ["nofile=4096:4096", "memlock=8388608:8388608"]\n' +
		                                             ('pidns = "host"\n' if spec.get("hostPID") else ""))
		    open(f"{target}/{name}.yaml", "w").write(yaml.dump_all(documents))
	END
}

# All of the manifest's.
listed()
{
	/usr/bin/python3 - <<-'END'
		import yaml
		for one in yaml.safe_load_all(open("systemd/containers/kubernetes-daemonset.yaml")):
		    spec = one["spec"]["template"]["spec"]
		    container, = spec["containers"]
		    pod = container["name"]
		    for what in container["securityContext"]["capabilities"]["add"] + ["root", "hostPID"] + ["mount " + mount["name"] for mount in container["volumeMounts"]]:
		        print(pod, what, sep="\t")
	END
}

# What the manifest lists, and the table does not yet.
missing()
{
	comm -13 <(cut -f1,2 <<<"$table" | sort) <(listed | sort) | tr '\t' ' '
}

rows_are_in_the_manifest()
{
	says_nothing comm -23 <(cut -f1,2 <<<"$table" | sort) <(listed | sort)
}

prepare_node()
{
	mountpoint --quiet /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	install "$B/userevctl" /usr/bin/userevctl && systemctl start dbus.socket && { mountpoint --quiet /var/lib/containers || storage_of /var/lib/containers; } &&
		loaded=$(podman load --quiet --input "$B/image/userevd-$version.tar") &&
		podman tag "${loaded#Loaded image: }" "registry.example.org/userevd:$version" "registry.example.org/userevd-keeper:$version"
}

# Another process of root's, as in any container, has more files in flight than the keeper may have without SYS_RESOURCE.
hold_files()
{
	cat >"$scratch/hold" <<-'END'
		import array, os, socket, sys, time
		pairs = [socket.socketpair() for _ in range(20)]
		for sender, _ in pairs:
		    sender.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 250))])
		open(sys.argv[1], "w")
		time.sleep(7200)
	END
	systemd-run --quiet --unit=hold --collect /usr/bin/python3 "$scratch/hold" "$scratch/held" && within 60 test -e "$scratch/held"
}

# The daemon finds in a cgroup's directory that it has been delegated, and is a tenant. Otherwise the second level from the root is.
hold_parted_service()
{
	systemd-run --quiet --unit=parted --slice=outer-inner.slice --collect --property=Delegate=yes sh -c 'cd /sys/fs/cgroup/outer.slice/outer-inner.slice/parted.service &&
		mkdir part && echo 0 >part/cgroup.procs && cd / && exec setpriv --reuid=nobody "$@"' sh "$(realpath "$B/examples/requests")" parted 7200
}

# As on a node that has just booted.
clean()
{
	systemctl stop parted
	podman pod rm --force --time=2 userevd userevd-keeper
	rm -rf /run/userevd /run/userevd-keeper /var/lib/userevd /sys/fs/bpf/userevd*
}

start_pods()
{
	local name
	for name in userevd-keeper userevd; do
		CONTAINERS_CONF=$scratch/$name.conf podman play kube --quiet --network=none "$scratch/$name.yaml" || return 1
	done >"$scratch/played" 2>&1
	hold_parted_service
}

# emit_as UNIT: of the policy.
emit_as()
{
	if systemd-run --quiet --collect --wait --pipe --unit="$1" --uid=nobody timeout 20 userevctl emit --require "$1 u32 x" x=1 </dev/null; then
		echo "$1 has an event"
	fi
}

# What an admin sees of both pods.
seen()
{
	local keeper
	cat "$scratch/played"
	podman logs userevd-keeper-keeper | tail -5
	podman logs userevd-userevd | tail -5
	keeper=$(podman inspect --format='{{.State.Pid}}' userevd-keeper-keeper) && [ "$keeper" -gt 0 ] && {
		[ -d "/proc/$keeper/root/sys/kernel/debug/sched" ] || echo 'keeper sees no sched'
	}
	ls -d /sys/fs/bpf/userevd* >/dev/null || echo 'no guard is pinned on the node'
	userevctl tenants --full
	userevctl status --brief --json && emit_as rich && emit_as poor && podman exec userevd-userevd userevctl status | tail -20
} 2>&1

is_seen()
{
	seen >"$scratch/seen"
	cat "$scratch/seen"
	grep -qE -- "$1" "$scratch/seen"
}

all_works()
{
	is_seen '"guard":"on"' && grep -q '^parted.service' "$scratch/seen" && grep -q 'rich has an event' "$scratch/seen" && grep -q 'MaxEvents=0' "$scratch/seen" && ! grep -q 'poor has an event' "$scratch/seen"
}

# The daemon's pod has no tracefs: userevctl mounts its own.
pod_switches_events()
{
	podman exec userevd-userevd userevctl enable 'parted*' && says '^1' cat /sys/kernel/tracing/events/user_events/parted_request/enable &&
		podman exec userevd-userevd userevctl disable 'parted*'
}

says_nothing_of_the_table()
{
	local text found=0
	while IFS=$'\t' read -r _ _ text; do
		! grep -E -- "$text" "$scratch/seen" || { echo "with all privileges: $text"; found=1; }
	done <<<"$table"
	return $found
}

without()
{
	clean
	manifest "$1" "$2" && { start_pods || true; } && within 60 is_seen "$3"
}

register_persistent()
{
	systemd-run --quiet --collect --wait --pipe --unit=lasting --uid=nobody --setenv=PYTHONPATH="$scratch" timeout 30 /usr/bin/python3 -c 'if 1:
		import time, userev
		event = userev.event("lasting u32 x", persist=True)
		while not (event.enabled or event.is_registered):
			time.sleep(0.1)'
}

has_outlived_its_program()
{
	within 20 says '^lasting	off	-	persistent	' userevctl events && userevctl delete lasting
}

check 'the manifest lists the privileges of the table' rows_are_in_the_manifest
check 'the node is prepared' prepare_node
check 'a process of root has many files in flight' hold_files
clean
manifest
check 'the pods start' start_pods
check 'with all privileges they work' within 60 all_works
check 'userevctl in the pod switches events on' pod_switches_events
check 'none of the texts is seen then' says_nothing_of_the_table
clean
manifest allow persist
check 'the pods start with PERFMON and --allow-persist' start_pods
check '… and work' within 60 is_seen 'rich has an event'
cp -r client/python/userev "$scratch" && chmod 755 "$scratch"
check '… a program registers a persistent event' register_persistent
check '… which outlives it' has_outlived_its_program
while IFS=$'\t' read -r -u 3 one what text; do
	check "$one without $what fails as the table says" without "$one" "$what" "$text"
	echo "      $(grep -m1 -E -- "$text" "$scratch/seen")"
done 3<<<"$table"
clean
systemctl stop hold
left=$(missing | paste -sd ,)
sum_up "${left:+$(missing | wc -l) skipped: no row yet for $left}"
