# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# The same container by each engine, for test_containers.sh. Of an engine there are these functions, each with the container's name, which is
# also that of the program's events:
#
#	prepare_ENGINE		starts the engine, and gives it the container's files
#	version_ENGINE
#	start_ENGINE NAME	as a user without privilege, with the command of userevd-containers(7)
#	leader_ENGINE NAME	the pid of its first process
#	tenant_ENGINE NAME	the path of its cgroup that has to be its tenant
#	name_ENGINE NAME	what people know it by
#	inside_ENGINE NAME UID COMMAND…
#	kill_ENGINE NAME	kills it, and removes it
#
#	outlive_ENGINE NAME	kills the part of the engine without which the container lives on, if there is such a part
#	own_ENGINE NAME		a check of its own, if it has one
#	root_ENGINE		who is inside in place of root, if there is none
#
# Sourced behind checks.sh and service.sh. Commands of the manual are split into words.
# shellcheck disable=SC2086,SC2154

storage=/var/lib/userevd-containers
unguarded=/etc/userevd/policy.d/10-unguarded.conf
page=$PWD/systemd/userevd-containers.7
user=1000 # its account in the container
containers=(shop bank) # that have files or a user of their own, if the engine wants that

# command_of WORDS…: the line of the manual that begins so, up to the placeholder.
command_of()
{
	sed -nE "s#^($*( .*)?) (IMAGE|DIRECTORY)( .*)?\$#\1#p" $page | grep -m1 . || { echo "the manual has no line '$*'" >&2 && return 1; }
}

# like ENGINE OTHER: functions of the engine that are missing here are those of the other one.
like()
{
	local verb
	for verb in prepare version start leader tenant name inside kill outlive; do
		declare -F "${verb}_$1" >/dev/null || ! declare -F "${verb}_$2" >/dev/null || eval "${verb}_$1() { ${verb}_$2 \"\$@\"; }"
	done
}

# example BEGINNING: the lines of the manual's example that begins so.
example()
{
	sed -n "/^$1/,/^\.Ed/p" $page | sed '$d; s/\\e$/\\/' | grep . || { echo "the manual has no example '$1'" >&2 && return 1; }
}

# hook: as installed below /usr.
hook()
{
	sed 's#@BINDIR@#/usr/bin#' systemd/containers/podman-hook.json.in
}

install_hook()
{
	mkdir -p /usr/share/containers/oci/hooks.d && hook >/usr/share/containers/oci/hooks.d/userevd.json
}

# Engines keep their files on overlays, which need a file system that is none.
storage_of()
{
	local directory
	for directory in "$@"; do
		mkdir -p "$directory" && mount -t tmpfs -o mode=755 containers "$directory" || return 1
	done
}

prepare_containers()
{
	install "$B/examples/requests" /usr/bin/shop-requests && storage_of $storage && install_native &&
		tests/containers/rootfs.sh $storage/files userevctl shop-requests native_event_pipe &&
		systemctl start dbus.socket systemd-logind systemd-machined
}

# Another test in this guest may have left its daemon.
prepare_files()
{
	! systemctl is-active --quiet "${sockets[@]}" || systemctl stop "${sockets[@]}" userevd userevd-keeper
	install_it && systemctl start "${sockets[@]}" && prepare_containers
}

# On a busy machine the keeper takes longer to load it than userevctl waits for the daemon's answer.
has_guard()
{
	within 120 says '"backend":"(enable-address|status-page)"' userevctl status --json >/dev/null &&
		says '"guard":"on"' userevctl status --json >/dev/null
}

# Linux before 6.4 has no guard; then only a policy lets programs in the host's user namespace have a file.
allow_without_guard()
{
	mkdir -p /etc/userevd/policy.d && printf '[/]\nAllowHostUserns=yes\nAllowHostRoot=yes\n' >$unguarded && systemctl try-reload-or-restart userevd
}

image()
{
	tar -C $storage/files -c .
}

# use_example_policy NAME
use_example_policy()
{
	mkdir -p /etc/userevd/policy.d && cp "systemd/policy.d-examples/$1" /etc/userevd/policy.d &&
		systemctl try-reload-or-restart userevd
}

# The hierarchy by which the daemon knows tenants: systemd's of version 1 where version 2 is not mounted.
cgroups=/sys/fs/cgroup controller=
[ ! -d $cgroups/systemd ] || cgroups=$cgroups/systemd controller=name=systemd
[ ! -d ${cgroups%/systemd}/unified ] || cgroups=${cgroups%/systemd}/unified controller=

# enter PID UID COMMAND…: in its cgroup and namespaces.
enter()
{
	local pid=$1 uid=$2
	shift 2
	(
		echo 0 >"$cgroups$(sed -n "s/^[0-9]*:$controller://p" "/proc/$pid/cgroup")/cgroup.procs"
		exec nsenter --all --target="$pid" --setuid="$uid" --setgid="$uid" --wd=/ -- "$@"
	)
}

# --- Podman ---

prepare_podman()
{
	mountpoint --quiet /var/lib/containers || storage_of /var/lib/containers && image | podman import --quiet - program
}

version_podman()
{
	podman --version
}

# start_podman NAME OPTION…
start_podman()
{
	local command
	command=$(command_of podman run "${podman_by:---device}") && ${command/podman/podman ${podman_option-}} --detach --name="$1" --network=none --user=$user "${@:2}" program shop-requests "$1" 600
}

leader_podman()
{
	podman inspect --format='{{.State.Pid}}' "$1"
}

tenant_podman()
{
	echo "/machine.slice/libpod-$(podman inspect --format='{{.Id}}' "$1").scope"
}

name_podman()
{
	echo "$1 (podman)"
}

inside_podman()
{
	podman exec --user="$2" "$1" "${@:3}"
}

kill_podman()
{
	podman kill "$1" && podman rm --force --time=0 "$1"
}

outlive_podman()
{
	kill -KILL "$(podman inspect --format='{{.State.ConmonPid}}' "$1")"
}

# Programs that know user_events, and nothing of us, in several languages. They are static.
# Of each language, or of one with a C library and one without.
natives=(speaker speaker_go)
[ -z "${ENGINES-}" ] || natives=(speaker speaker_musl speaker_cc speaker_rs speaker_go)

# The profile of Docker and Podman for containers lets nothing below /sys be written; the page has the option.
without_profile=''
! grep -qs Y /sys/module/apparmor/parameters/enabled || without_profile='--security-opt apparmor=unconfined'

install_native()
{
	mkdir -p $storage/files/usr/bin && install "$B"/tests/native_speaker{,_musl,_cc,_rs,_go} $storage/files/usr/bin/ &&
		install "$B/tests/native_event_pipe" /usr/bin/
}

# offer_native LINE…: with these lines of policy.
offer_native()
{
	reload_with "$@" && systemctl restart userevd-keeper && within 120 says '"native":"on"' userevctl status --json
}

# start_native NAME ARGUMENT…: such a program in a container of its own.
start_native()
{
	$native_command $without_profile --detach --name="$1" --network=none --user=$user --cap-drop=all program "native_$@"
}

# Two events are all that it may have, and one name it may not.
native_gets_its_share()
{
	start_native "$1" "${1}_one" "secret_$1" "${1}_two" "${1}_three" &&
		within 60 says "^${1}_three: error 122\$" podman logs "$1" && says "^${1}_one: registered\$" podman logs "$1" &&
		says "^secret_$1: error 1\$" podman logs "$1" && says "^${1}_two: registered\$" podman logs "$1" &&
		within 60 says "^${1}_one\\s.*native_speaker.*\\(podman\\)" userevctl events
}

# with_paths WORDS…: the manual's line, where these variables are for all of them.
with_paths()
{
	local N T
	eval "$(sed -n '/^N=.* T=/p' $page)"
	command_of "$@" | sed "s#\$N#$N#; s#\$T#$T#"
}

# registers_by_itself NAME COMMAND…: a container that the command starts with a program which knows user_events.
registers_by_itself()
{
	local name=$1 result
	shift
	offer_native '[/**]' Native=yes && systemd-run --quiet --unit="$name-native" --collect --property=KillMode=mixed "$@" native_speaker "${name}_native" &&
		within 60 says "^${name}_native\\s.*native_speaker" userevctl events
	result=$?
	# Its engine may leave it behind.
	pkill -KILL -x native_speaker
	systemctl stop "$name-native"
	rm /etc/userevd/policy.d/50-test.conf && systemctl reload userevd && return $result
}

# A collector gets the file from the daemon, and passes it to a process that opens nothing.
native_gets_a_file()
{
	$(command_of podman run -v /run/userevd/client:/run/userevd/client:ro) --detach --name=event_pipe --network=none --user=$user --cap-drop=all program \
		native_event_pipe event_pipe_one /run/userevd/client/userevd.sock &&
		within 60 says '^event_pipe_one: registered$' podman logs event_pipe
}

# A static program with musl, in an image that has nothing else.
runs_without_c_library()
{
	local bare=$storage/bare result
	mkdir -p $bare && install "$B/musl/examples/requests" $bare/requests && tar --directory=$bare --create . | podman import --quiet - bare &&
		$(command_of podman run -v /run/userevd/client:/run/userevd/client:ro) --detach --name=bare --network=none --user=$user --cap-drop=all bare \
			/requests bare 600 && says '\(podman\).*bare_request' timeout 60 userevctl tail --wait --count=2 'bare_request'
	result=$?
	podman rm --force --ignore --time=0 bare
	return $result
}

# recorded_by COMMAND…: all programs are in what it prints.
recorded_by()
{
	local name
	"$@" >$TMPDIR/recorded 2>&1
	for name in "${natives[@]}" event_pipe; do
		grep -q "${name}_one: .*\(number=\|event_id=\)" $TMPDIR/recorded || { head -50 $TMPDIR/recorded; return 1; }
	done
}

perf_records()
{
	perf record -q -a -e 'user_events:*_one' -o $TMPDIR/perf.data sleep 3 && perf script -i $TMPDIR/perf.data
}

trace_cmd_records()
{
	trace-cmd record -q -e 'user_events:*_one' -o $TMPDIR/trace.dat sleep 3 && trace-cmd report -i $TMPDIR/trace.dat
}

own_podman()
{
	local name native_command result=0
	native_command=$(command_of podman run -v /run/userevd/native:/sys/kernel/tracing)
	offer_native '[/machine.slice/*.scope]' Native=yes MaxEvents=2 'DenyEvents=secret_*' || return 1
	for name in "${natives[@]}"; do native_gets_its_share "$name" || result=1; done
	native_gets_a_file || result=1
	runs_without_c_library || result=1
	says '\[ok\]   native: programs can register by themselves on /sys/kernel/tracing/user_events_data' \
		podman exec --user=$user speaker userevctl doctor || result=1
	userevctl enable '*_one' && says '\(podman\).*speaker_go_one.*number=[0-9]' timeout 60 userevctl tail --count=30 '*_one' || result=1
	userevctl disable '*_one'
	recorded_by perf_records || result=1
	recorded_by trace_cmd_records || result=1
	podman rm --force --ignore --time=0 "${natives[@]}" event_pipe
	rm /etc/userevd/policy.d/50-test.conf && systemctl reload userevd && return $result
}

# With a user namespace, and a hook.
prepare_podman_userns()
{
	install_hook && prepare_podman
}
start_podman_userns() { podman_by=-v start_podman "$1" --uidmap=0:200000:65536 --gidmap=0:200000:65536; }
like podman_userns podman

# Without systemd's help.
prepare_podman_cgroupfs() { prepare_podman && use_example_policy 20-containers.conf; }
start_podman_cgroupfs() { podman_option=--cgroup-manager=cgroupfs start_podman "$1"; }
tenant_podman_cgroupfs() { echo "/libpod_parent/libpod-$(podman inspect --format='{{.Id}}' "$1")"; }
like podman_cgroupfs podman

# --- Podman of a user without privilege: each container has a user of its own, as all containers of one user are one tenant ---

as_user()
{
	local name=$1 uid
	uid=$(id -u "$1")
	shift
	systemd-run --quiet --pipe --wait --collect --uid="$name" --setenv=HOME="/home/$name" --setenv=XDG_RUNTIME_DIR="/run/user/$uid" \
		--setenv=DBUS_SESSION_BUS_ADDRESS="unix:path=/run/user/$uid/bus" -- "$@"
}

add_user()
{
	useradd --create-home "$1" && storage_of "/home/$1" && chown "$1" "/home/$1" && loginctl enable-linger "$1" &&
		within 60 test -S "/run/user/$(id -u "$1")/bus" && image | as_user "$1" podman import --quiet - program
}

prepare_podman_rootless()
{
	local name
	for name in "${containers[@]}"; do
		add_user "$name" || return 1
	done
}

version_podman_rootless()
{
	version_podman
}

start_podman_rootless()
{
	local command
	command=$(command_of podman run "${podman_by:--v}") && as_user "$1" $command --detach --name="$1" --network=none --user=$user program shop-requests "$1" 600
}

leader_podman_rootless()
{
	as_user "$1" podman inspect --format='{{.State.Pid}}' "$1"
}

tenant_podman_rootless()
{
	echo "/user.slice/user-$(id -u "$1").slice/user@$(id -u "$1").service"
}

name_podman_rootless()
{
	echo "user-$(id -u "$1")"
}

inside_podman_rootless()
{
	as_user "$1" podman exec --user="$2" "$1" "${@:3}"
}

kill_podman_rootless()
{
	as_user "$1" podman kill "$1" && as_user "$1" podman rm --force --time=0 "$1"
}

outlive_podman_rootless()
{
	kill -KILL "$(as_user "$1" podman inspect --format='{{.State.ConmonPid}}' "$1")"
}

# With a policy each of its containers is a tenant, and the name is the user's claim.
prepare_podman_tenants()
{
	use_example_policy 20-containers.conf && { id --user shop || prepare_podman_rootless; }
}

start_podman_tenants() { podman_by=--device start_podman_rootless "$1"; }
tenant_podman_tenants()
{
	echo "$(tenant_podman_rootless "$1")/user.slice/libpod-$(as_user "$1" podman inspect --format='{{.Id}}' "$1").scope"
}
name_podman_tenants() { echo "$1 (podman of uid $(id -u "$1"))"; }
like podman_tenants podman_rootless

# --- Docker ---

docker=/usr/bin/docker
docker_with= # more of daemon.json

prepare_docker()
{
	{ mountpoint --quiet /var/lib/docker || storage_of /var/lib/docker; } && mkdir -p /etc/docker && echo "{\"live-restore\": true$docker_with}" >/etc/docker/daemon.json &&
		systemctl restart docker &&
		image | $docker import - program &&
		sed "s#docker \(ps\|events\|inspect\)#$docker \1#; s#userevctl#/usr/bin/userevctl#" systemd/containers/userevd-docker-names.service \
			>/etc/systemd/system/userevd-docker-names.service && systemctl daemon-reload && systemctl enable --now userevd-docker-names
}

version_docker()
{
	$docker --version
}

start_docker()
{
	local command
	command=$(command_of docker run) && "${docker%docker}"$command --detach --name="$1" --network=none --user=$user program shop-requests "$1" 600
}

own_docker()
{
	local command
	command=$(command_of docker run -v /run/userevd/native:/sys/kernel/tracing) &&
		{ [ -z "$without_profile" ] || ! registers_by_itself denied "${docker%docker}"$command --rm --name=denied --network=none --user=$user program; } &&
		registers_by_itself docker "${docker%docker}"$command $without_profile --rm --name=native --network=none --user=$user program
}

leader_docker()
{
	$docker inspect --format='{{.State.Pid}}' "$1"
}

tenant_docker()
{
	echo "/system.slice/docker-$($docker inspect --format='{{.Id}}' "$1").scope"
}

name_docker()
{
	echo "$1 (docker)"
}

inside_docker()
{
	$docker exec --user="$2" "$1" "${@:3}"
}

kill_docker()
{
	$docker kill "$1" && $docker rm "$1"
}

outlive_docker()
{
	systemctl kill --kill-whom=main --signal=KILL docker
}

prepare_docker_userns() { docker_with=', "userns-remap": "default"' prepare_docker; }
like docker_userns docker

# Without systemd's help.
prepare_docker_cgroupfs() { docker_with=', "exec-opts": ["native.cgroupdriver=cgroupfs"]' prepare_docker && use_example_policy 20-containers.conf; }
tenant_docker_cgroupfs() { echo "/docker/$($docker inspect --format='{{.Id}}' "$1")"; }
like docker_cgroupfs docker

# --- containerd ---

prepare_containerd()
{
	{ mountpoint --quiet /var/lib/containerd || storage_of /var/lib/containerd; } && systemctl start containerd && use_example_policy 20-containers.conf
}

version_containerd()
{
	containerd --version
}

# The program's user is the image's, and ctr has no option for another.
start_containerd()
{
	local command
	command=$(command_of ctr run) && ${command//\$D/$(sed -n 's/^D=//p' $page)} --detach --null-io --seccomp --env=PATH=/usr/bin --rootfs $storage/files "$1" \
		setpriv --reuid=$user --regid=$user --clear-groups --inh-caps=-all shop-requests "$1" 600
}

leader_containerd()
{
	ctr tasks list | sed -nE "s/^$1 +([0-9]+) .*/\1/p"
}

tenant_containerd()
{
	echo "/default/$1"
}

name_containerd()
{
	echo "$1"
}

inside_containerd()
{
	ctr tasks exec --exec-id="exec-$RANDOM" --user="$2" "$1" "${@:3}"
}

kill_containerd()
{
	ctr tasks kill --signal=KILL "$1" && within 20 ctr tasks delete "$1" && ctr containers delete "$1"
}

# The container's shim is left.
outlive_containerd()
{
	systemctl kill --kill-whom=main --signal=KILL containerd
}

# --- systemd-nspawn ---

prepare_nspawn()
{
	local name
	for name in "${containers[@]}"; do
		cp -a $storage/files "$storage/$name" || return 1
	done
}

version_nspawn()
{
	systemd-nspawn --version | head -1
}

start_nspawn()
{
	local command
	command=$(command_of systemd-nspawn) && systemd-run --quiet --unit="$1-machine" --collect --property=KillMode=mixed \
		${command/"${nspawn_without-}"} "$storage/$1" --machine="$1" --quiet --user=user shop-requests "$1" 600
}

leader_nspawn()
{
	machinectl show --property=Leader --value "$1"
}

tenant_nspawn()
{
	echo "/machine.slice/machine-$1.scope"
}

name_nspawn()
{
	echo "$1 (machine)"
}

inside_nspawn()
{
	enter "$(leader_nspawn "$1")" "${@:2}"
}

kill_nspawn()
{
	machinectl kill --signal=KILL "$1"
}

# changes_directory COMMAND…: of a container whose root is root of the host.
changes_directory()
{
	"$@" sh -c 'mount -o remount,bind,rw /run/userevd/client; touch /run/userevd/client/mine'
	rm /run/userevd/client/mine
}

# Without -U, as the manual warns.
own_nspawn()
{
	local command
	command=$(command_of systemd-nspawn) && cp -a $storage/files $storage/root && changes_directory ${command/ -U} $storage/root --quiet &&
		command=$(with_paths systemd-nspawn -U --bind=.N:.T) && cp -a $storage/files $storage/native &&
		registers_by_itself nspawn $command $storage/native --machine=native --quiet --user=user
}

# --- LXC, with a user namespace ---

prepare_lxc()
{
	local name
	cp -a $storage/files $storage/shifted && find $storage/shifted -exec chown --no-dereference 300000:300000 {} + &&
		tee -a /etc/subuid /etc/subgid <<<root:300000:65536 && use_example_policy 20-containers.conf || return 1
	for name in "${containers[@]}"; do
		mkdir -p "/var/lib/lxc/$name" || return 1
		cat >"/var/lib/lxc/$name/config" <<-END
			lxc.include = /usr/share/lxc/config/common.conf
			lxc.include = /usr/share/lxc/config/userns.conf
			lxc.idmap = u 0 300000 65536
			lxc.idmap = g 0 300000 65536
			lxc.uts.name = $name
			lxc.rootfs.path = dir:$storage/shifted
			lxc.net.0.type = empty
			lxc.init.uid = $user
			lxc.init.gid = $user
			lxc.init.cmd = /usr/bin/shop-requests $name 600
			lxc.apparmor.profile = unconfined
			lxc.include = $PWD/systemd/containers/userevd.lxc.conf
		END
	done
}

version_lxc()
{
	lxc-start --version
}

start_lxc()
{
	systemd-run --quiet --unit="$1-lxc" --collect --property=Delegate=yes lxc-start --name="$1" --foreground
}

leader_lxc()
{
	lxc-info --name="$1" --pid --no-humanize
}

tenant_lxc()
{
	echo "/lxc.payload.$1"
}

name_lxc()
{
	echo "$1 (lxc)"
}

inside_lxc()
{
	lxc-attach --name="$1" --uid="$2" --gid="$2" --clear-env --set-var=PATH=/usr/bin -- "${@:3}"
}

kill_lxc()
{
	lxc-stop --kill --name="$1"
}

# Without lxc.idmap, as the manual warns.
own_lxc()
{
	mkdir /var/lib/lxc/root && sed "/lxc.init\|lxc.idmap\|userns.conf/d; s#$storage/shifted#$storage/files#" "/var/lib/lxc/$1/config" >/var/lib/lxc/root/config &&
		changes_directory lxc-start --name=root --foreground -- &&
		mkdir /var/lib/lxc/native && sed "/lxc.init/d" "/var/lib/lxc/$1/config" >/var/lib/lxc/native/config &&
		sed -n 's/^\.Ql \(lxc.mount.entry = .*native.*\)/\1/p' $page >>/var/lib/lxc/native/config &&
		registers_by_itself lxc lxc-start --name=native --foreground --
}

# --- a service of systemd with files of its own ---

prepare_service()
{
	mkfs.ext4 -q -d $storage/files $storage/image 40M
}

version_service()
{
	systemctl --version | head -1
}

start_service()
{
	local property
	property=$(grep -m1 '^BindReadOnlyPaths=' $page) && systemd-run --quiet --unit="$1" --collect --property=DynamicUser=yes \
		--property=RootImage=$storage/image --property=MountAPIVFS=yes --property=SystemCallFilter=@system-service \
		--property="$property" shop-requests "$1" 600
}

leader_service()
{
	property "$1" MainPID
}

tenant_service()
{
	echo "/system.slice/$1.service"
}

name_service()
{
	echo "$1.service"
}

# It has one user.
root_service() { echo 'its user'; }
inside_service()
{
	local pid
	pid=$(leader_service "$1") && enter "$pid" "$(stat --format=%u "/proc/$pid")" "${@:3}"
}

kill_service()
{
	systemctl kill --signal=KILL "$1"
}
