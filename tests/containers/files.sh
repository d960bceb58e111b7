# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Engines that are started by a file of systemd/containers. Sourced behind engines.sh.
# shellcheck disable=SC2086,SC2154

# --- systemd-nspawn, by the file of the machine ---

prepare_nspawn_file()
{
	local name
	mkdir -p /etc/systemd/nspawn && prepare_nspawn && for name in shop bank; do
		cp systemd/containers/userevd.nspawn /etc/systemd/nspawn/$name.nspawn || return 1
	done
}

start_nspawn_file()
{
	nspawn_without=' --bind-ro=/run/userevd/client' start_nspawn "$1"
}

like nspawn_file nspawn

# --- Docker Compose ---

prepare_compose()
{
	systemctl is-active docker || prepare_docker
}

version_compose()
{
	docker-compose --version
}

start_compose()
{
	local folder=$storage/compose-$1
	mkdir -p "$folder" && sed "s/^  shop:/  $1:/" systemd/containers/compose.yaml >"$folder/userevd.yaml" &&
		cat >"$folder/compose.yaml" <<-END && docker-compose --file "$folder/compose.yaml" --file "$folder/userevd.yaml" up --detach
			services:
			  $1:
			    container_name: $1
			    image: program
			    user: "$user"
			    network_mode: none
			    command: shop-requests $1 600
		END
}

like compose docker

# --- Podman as a service: the options that Quadlet makes of the drop-in, since Podman 4.3 has no Quadlet ---

prepare_podman_unit()
{
	prepare_podman_userns
}

start_podman_unit()
{
	local volume
	volume=$(sed -n 's/^Volume=//p' systemd/containers/userevd.container.conf) &&
		systemd-run --quiet --unit="$1" --collect --property=Type=notify --property=NotifyAccess=all --property=Delegate=yes --property=KillMode=mixed \
			podman run --name="$1" --rm --replace --detach --cgroups=split --sdnotify=conmon --volume="$volume" \
			--network=none --user=$user program shop-requests "$1" 600
}

tenant_podman_unit()
{
	echo "/system.slice/$1.service"
}

name_podman_unit()
{
	echo "$1.service"
}

kill_podman_unit()
{
	podman kill "$1" && within 60 says_not '^active' systemctl is-active "$1"
}

like podman_unit podman
# The unit ends with conmon.
unset -f outlive_podman_unit

# --- Podman, with the seccomp profile that the manual makes of its own ---

prepare_podman_seccomp()
{
	(
		cd $storage && cp "$OLDPWD"/systemd/containers/seccomp-user-events*.json . && cp /usr/share/containers/seccomp.json default.json &&
			eval "$(example jq | grep -v '^podman')"
	) && prepare_podman
}

# The manual's command names a file of this folder.
start_podman_seccomp()
{
	(cd $storage && podman_by=--security-opt start_podman "$1" --device=userevd.dev/events=all)
}

# registering_says PATTERN OPTION…: the answer to an ioctl of user_events, in a container with these options.
registering_says()
{
	# shellcheck disable=SC2016 # of Perl
	says "$1" podman run --rm --network=none "${@:2}" program perl -e 'syscall(16, 0, 0xc0082a00, 0); print "$!\n"'
}

own_podman_seccomp()
{
	registering_says 'Inappropriate ioctl' && registering_says 'not implemented' --security-opt=seccomp=$storage/mine.json &&
		registering_says 'not permitted' --security-opt=seccomp=$storage/seccomp-user-events.json
}

like podman_seccomp podman
