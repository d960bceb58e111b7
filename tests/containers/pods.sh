# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
#
# Kubernetes' pods, by systemd/containers/kubernetes-pod.yaml. Sourced behind engines.sh.
# shellcheck disable=SC2086,SC2154

# manifest NAME: with the image and the program.
manifest()
{
	sed "s/name: shop$/name: $1/; s#^\( *\)image: .*#\1image: localhost/program:1\n\1command: [shop-requests, $1, '600']#
		s#^\( *\)securityContext:#&\n\1  runAsUser: $user#" \
		systemd/containers/kubernetes-pod.yaml
}

# --- Podman ---

prepare_podman_pod()
{
	prepare_podman_userns && image | podman import --quiet --change='ENV PATH=/usr/bin' - localhost/program:1
}

start_podman_pod()
{
	manifest "$1" >"$storage/$1.yaml" && podman play kube --network=none "$storage/$1.yaml"
}

leader_podman_pod() { leader_podman "$1-$1"; }
tenant_podman_pod()
{
	echo "/machine.slice/machine-libpod_pod_$(podman pod inspect --format='{{.ID}}' "$1").slice/libpod-$(podman inspect --format='{{.Id}}' "$1-$1").scope"
}
name_podman_pod() { echo "$1-$1 (podman)"; }
inside_podman_pod() { inside_podman "$1-$1" "${@:2}"; }
outlive_podman_pod() { outlive_podman "$1-$1"; }
kill_podman_pod() { podman pod rm --force --time=0 "$1"; }
like podman_pod podman

# --- containerd, as a kubelet asks it: with cgroups of systemd, and each container as a tenant ---

cri=tests/containers/cri.py

# import_image NAME CONFIG: with the container's files, into containerd's images for pods.
import_image()
{
	local folder=$storage/pods
	mkdir -p $folder && image >$folder/layer.tar &&
		printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/bin"],%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
			"$2" "$(sha256sum <$folder/layer.tar | cut -d' ' -f1)" >$folder/config.json &&
		echo '[{"Config":"config.json","RepoTags":["'"$1"'"],"Layers":["layer.tar"]}]' >$folder/manifest.json &&
		tar -C $folder -c manifest.json config.json layer.tar | ctr --namespace=k8s.io images import -
}

# CNI's programs are where Debian has them. The program's image is the pause container, too.
start_containerd_for_pods()
{
	mkdir -p /etc/containerd /etc/cni/net.d && mount -t tmpfs cni /etc/cni/net.d &&
		echo '{"cniVersion":"0.4.0","name":"pods","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.88.0.0/16"}}]}' >/etc/cni/net.d/pods.conflist &&
		hook >$storage/podman-hook.json && (cd $storage && eval "$(example 'ctr oci spec')") &&
		cat >/etc/containerd/config.toml <<-END &&
			version = 2
			[plugins."io.containerd.grpc.v1.cri"]
			  sandbox_image = "localhost/program:1"
			[plugins."io.containerd.grpc.v1.cri".cni]
			  bin_dir = "/usr/lib/cni"
			$(example '\[plugins')
			[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
			  SystemdCgroup = ${cri_systemd-true}
		END
		{ mountpoint --quiet /var/lib/containerd || storage_of /var/lib/containerd; } && systemctl restart containerd &&
		import_image localhost/program:1 '"Entrypoint":["sleep","infinity"]'
}

prepare_cri()
{
	start_containerd_for_pods && use_example_policy 30-kubernetes.conf
}

version_cri()
{
	version_containerd
}

# start_pod MANIFEST [CGROUP]: UID in it is the pod's. Its ids and its cgroup are left beside the manifest.
start_pod()
{
	local uid cgroup=${2-/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID.slice}
	uid=$(cat /proc/sys/kernel/random/uuid) && [ "${cgroup%.slice}" = "$cgroup" ] || cgroup=${cgroup/UID/${uid//-/_}}
	cgroup=${cgroup/UID/$uid}
	$cri start "$1" "$uid" "$cgroup" >"${1%.yaml}.ids" && echo "$cgroup" >"${1%.yaml}.cgroup"
}

start_cri()
{
	manifest "$1" >"$storage/$1.yaml" && start_pod "$storage/$1.yaml" "${@:2}"
}

pod_of() { cut -d' ' -f1 "$storage/$1.ids"; }
container_of() { cut -d' ' -f2 "$storage/$1.ids"; }
leader_cri() { $cri pid "$(container_of "$1")"; }
tenant_cri() { echo "$(cat "$storage/$1.cgroup")/cri-containerd-$(container_of "$1").scope"; }
name_cri() { echo "default/$1/$1 (pod)"; }

# A kubelet's commands have the container's user.
inside_cri()
{
	if [ "$2" = $user ]; then
		$cri exec "$(container_of "$1")" "${@:3}"
	else
		ctr --namespace=k8s.io tasks exec --exec-id="exec-$RANDOM" --user="$2" "$(container_of "$1")" "${@:3}"
	fi
}

outlive_cri() { outlive_containerd; }
kill_cri() { $cri stop "$(pod_of "$1")" "$(container_of "$1")"; }

# --- the same with cgroupfs, and each pod as a tenant ---

prepare_cri_pods()
{
	# shellcheck disable=SC2016 # a pattern
	cri_systemd=false prepare_cri && printf '[/kubepods/besteffort/pod*]\nTenant=yes\n' >/etc/userevd/policy.d/40-pods.conf && systemctl reload userevd
}

start_cri_pods() { start_cri "$1" /kubepods/besteffort/podUID; }
tenant_cri_pods() { cat "$storage/$1.cgroup"; }
name_cri_pods() { echo "default/$1 (pod)"; }
like cri_pods cri
