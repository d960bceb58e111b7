#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The image of `make image`, in a guest where systemd is the first process, with the files of systemd/containers: a pod with the daemon, a
# pod with a program, and updates of the first under the second. Podman 4.3 knows no DaemonSet, so its template is played as a pod; takes
# hostPID from its own configuration; and makes a line for a shell of livenessProbe, so the probes' command is run here instead. It
# ignores what is for schedulers: updateStrategy, tolerations, priorityClassName, nodeSelector, readinessProbe.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^VERSION := //p' Makefile)
archive=$B/image/userevd-$version.tar
pod=userevd-userevd # of podman: the pod's name and the container's
instance=/sys/kernel/tracing/instances/load
control=/run/userevd/control.sock
user=58117
pages=$control.keeper-pages

# The template as a pod, and the ConfigMap of kustomization.yaml, into $scratch; and the probes' command, if both have the same.
take_manifests()
{
	/usr/bin/python3 - "$B/image" "$scratch" <<-'END'
		import sys, yaml
		source, target = sys.argv[1:]
		load = lambda name: yaml.safe_load(open(f"{source}/{name}"))
		template = load("kubernetes-daemonset.yaml")["spec"]["template"]
		container, = template["spec"]["containers"]
		generator, = load("kustomization.yaml")["configMapGenerator"]
		probe = container.pop("livenessProbe")["exec"]["command"]
		assert probe == container["readinessProbe"]["exec"]["command"]
		pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "userevd", **template["metadata"]}, "spec": template["spec"]}
		policy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]},
		          "data": {name: open(f"{source}/{name}").read() for name in generator["files"]}}
		open(f"{target}/pod.yaml", "w").write(yaml.dump_all([policy, pod]))
		open(f"{target}/probe", "w").write(" ".join(probe))
	END
}

# The node has no package; the hook for names is the only file of ours. The program has the image that kubernetes-pod.yaml names.
prepare_node()
{
	mountpoint --quiet /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	install "$B/examples/requests" /usr/bin/shop-requests && install "$B/userevctl" /usr/bin/userevctl &&
		install -D systemd/containers/podman-hook.json /usr/share/containers/oci/hooks.d/userevd.json &&
		storage_of $storage && tests/containers/rootfs.sh $storage/files userevctl shop-requests && systemctl start dbus.socket &&
		storage_of /var/lib/containers && podman load --quiet --input "$archive" &&
		image | podman import --quiet --change USER=1000 --change CMD='["shop-requests","shop","3600"]' - registry.example.org/shop
}

# play OPTION… FILE
play()
{
	podman play kube --quiet --network=none "$@"
}

play_daemon()
{
	CONTAINERS_CONF=$scratch/containers.conf play "$@" "$scratch/pod.yaml"
}

# in_pod COMMAND…
in_pod()
{
	podman exec $pod "$@"
}

# With the probe's words.
is_ready()
{
	# shellcheck disable=SC2046 # words
	in_pod $(cat "$scratch/probe")
}

daemon_pid()
{
	podman inspect --format='{{.State.Pid}}' $pod
}

# status_of PID FIELD VALUE: of the processes' /proc/PID/status.
has_status()
{
	says "^$2:\s+$3" cat "/proc/$1/status"
}

# The daemon has no privilege, and the keeper one capability, SYS_RESOURCE.
rights_are_given_up()
{
	local daemon keeper
	daemon=$(daemon_pid) && keeper=$(pgrep --parent "$daemon" userevd-keeper) &&
		has_status "$daemon" Uid "$user\s+$user\s+$user" && has_status "$daemon" CapPrm 0+$ && has_status "$daemon" CapBnd 0+$ &&
		has_status "$keeper" CapPrm 0+1000000$ && has_status "$keeper" CapBnd 0+1000000$ && has_status "$keeper" Seccomp 2 &&
		has_status "$daemon" Seccomp 2
}

tenant_of()
{
	echo "/machine.slice/libpod-$(podman inspect --format='{{.Id}}' "$1").scope"
}

# As the cgroup of Podman's pods has it, and by the name of the container.
is_a_named_tenant()
{
	local leader
	leader=$(podman inspect --format='{{.State.Pid}}' "$1") && sed -n 's/^0:://p' "/proc/$leader/cgroup"
	says "^$1 \(podman\)" userevctl tenants "$1"
}

trace()
{
	mkdir $instance && echo 8192 >$instance/buffer_size_kb && echo 1 >$instance/events/user_events/shop_request/enable || return 1
	cat $instance/trace_pipe >"$scratch/trace" 2>&1 &
	echo $! >"$scratch/reader"
}

# Records are numbered: `ns` is thousand times the number.
no_record_is_missing()
{
	echo 0 >$instance/events/user_events/shop_request/enable
	sleep 2
	kill "$(cat "$scratch/reader")"
	rmdir $instance
	tail -3 "$scratch/trace"
	awk 'match($0, /ns=0x[0-9a-f]+ \([0-9]+/) {
			split(substr($0, RSTART, RLENGTH), part, "(")
			if (last && part[2] != last + 1000) { print "after " last ": " part[2]; bad++ }
			last = part[2]
			n++
		}
		END { print n " records"; exit bad > 0 || n < 100 }' "$scratch/trace"
}

# accounts: the events of each tenant, without the programs that come and go.
accounts()
{
	userevctl tenants --json | jq -r '[.tenant, .events, .charges // 0] | @tsv' | sort
}

check 'the manifests are what the test expects' take_manifests
printf '[containers]\npidns = "host"\n' >"$scratch/containers.conf"
check 'the node is prepared' prepare_node
check 'the pod of the daemon starts' play_daemon
check 'it is ready, as the probes find' within 60 is_ready
podman logs $pod
userevctl status
check 'the kernel has the guard' within 10 has_backend enable-address on
check 'daemon and keeper have given up their rights' rights_are_given_up
for s in /proc/$(daemon_pid)/status; do grep -E 'Cap|Uid|Sec|Name' $s; done
cat /proc/$(daemon_pid)/cgroup
check 'the pod of the program starts' play systemd/containers/kubernetes-pod.yaml
check 'the program is a tenant with a name' within 60 is_a_named_tenant shop-shop
userevctl tenants; userevctl tenants --json | head -30
accounts
check 'its event is traced' trace
for i in 1 2; do
	before=$(accounts)
	check "update $i: the new pod replaces the old one" play_daemon --replace
	check "update $i: the pod is ready" within 60 is_ready
	check "update $i: the program has its events again" within 60 is_a_named_tenant shop-shop
	accounts
done
ls -la $pages /run/userevd
check 'no record is missing' no_record_is_missing
sum_up
