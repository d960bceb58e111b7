# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The image of `make image` and its manifests, for tests that run them by an engine. Sourced behind engines.sh. The engine's are these
# functions:
#
#	in_pod COMMAND…	in the daemon's container
#	pid_of NAME	the pid of the first process of a container of ours, which is named $pod or $keeper_pod
#
# shellcheck disable=SC2154

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^VERSION := //p' Makefile)
# shellcheck disable=SC2034 # of both
archive=$B/image/userevd-$version.tar
daemon_user=58117

# The templates as pods, and the ConfigMap of kustomization.yaml, into $scratch; and the probes' command, if both have the same.
take_manifests()
{
	/usr/bin/python3 - "$B/image" "$scratch" <<-'END'
		import sys, yaml
		source, target = sys.argv[1:]
		load = lambda name: list(yaml.safe_load_all(open(f"{source}/{name}")))
		sets = {one["metadata"]["name"]: one for one in load("kubernetes-daemonset.yaml")}
		templates = {name: one["spec"]["template"] for name, one in sets.items()}
		container, = templates["userevd"]["spec"]["containers"]
		kustomization, = load("kustomization.yaml")
		generator, = kustomization["configMapGenerator"]
		assert {one["name"] for one in kustomization["images"]} == {one["spec"]["containers"][0]["image"].split(":")[0] for one in templates.values()}
		probe = container.pop("livenessProbe")["exec"]["command"]
		assert probe == container["readinessProbe"]["exec"]["command"]
		pods = {name: {"apiVersion": "v1", "kind": "Pod",
		               "metadata": {"name": name, "namespace": sets[name]["metadata"]["namespace"], **one["metadata"]}, "spec": one["spec"]}
		        for name, one in templates.items()}
		files = {name: open(f"{source}/{name}").read() for name in generator["files"]}
		policy = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": generator["name"]}, "data": files}
		open(f"{target}/userevd.yaml", "w").write(yaml.dump_all([policy, pods["userevd"]]))
		open(f"{target}/userevd-keeper.yaml", "w").write(yaml.dump(pods["userevd-keeper"]))
		open(f"{target}/probe", "w").write(" ".join(probe))
	END
}

# The node has no package, but userevctl and its hook, so that tests find tenants by their names.
prepare_programs()
{
	mountpoint --quiet /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug
	install "$B/examples/requests" /usr/bin/shop-requests && install "$B/userevctl" /usr/bin/userevctl &&
		install_hook && storage_of $storage && tests/containers/rootfs.sh $storage/files userevctl shop-requests && systemctl start dbus.socket
}

# With the probe's words.
is_ready()
{
	# shellcheck disable=SC2046 # words
	in_pod $(cat "$scratch/probe")
}

# has_status PID FIELD VALUE: of the process' /proc/PID/status.
has_status()
{
	says "^$2:\s+$3" cat "/proc/$1/status"
}

# The daemon has no privilege, and the keeper SYS_RESOURCE.
rights_are_given_up()
{
	local daemon keeper
	daemon=$(pid_of $pod) && keeper=$(pid_of $keeper_pod) &&
		has_status "$daemon" Uid "$daemon_user\s+$daemon_user\s+$daemon_user" && has_status "$daemon" CapPrm 0+$ && has_status "$daemon" CapBnd 0+$ &&
		has_status "$keeper" CapPrm 0+1000000$ && has_status "$keeper" CapBnd 0+1000000$ && has_status "$keeper" Seccomp 2 &&
		has_status "$daemon" Seccomp 2
}

# Of the programs that run, by the numbers of their sockets.
connections()
{
	pgrep shop-requests | while read -r pid; do readlink "/proc/$pid/fd/"*; done | grep ^socket: | sort
}

are_still_connected()
{
	diff "$scratch/connections" <(connections)
}
