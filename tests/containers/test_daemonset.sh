#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The pods of the DaemonSets, asked of containerd as a kubelet asks it, with all that the manifests say to an engine; beside them the pod of
# kubernetes-pod.yaml, as it is. In a guest where systemd is the first process. test_image.sh does more with the same image, by Podman.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
. tests/systemd/service.sh
. tests/containers/engines.sh
. tests/containers/pods.sh
. tests/containers/image.sh
pod=userevd
# shellcheck disable=SC2034 # for image.sh
keeper_pod=userevd-keeper
# They ask for resources, and have no limit for the processor.
burstable=/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID.slice
known='default/shop/shop (pod)'

# The engine has the images already, as after a pull.
prepare_node()
{
	prepare_programs && start_containerd_for_pods && ctr --namespace=k8s.io images import "$archive" &&
		ctr --namespace=k8s.io images tag "registry.example.org/"{userevd,userevd-keeper}":$version" &&
		import_image registry.example.org/shop:1 '"User":"1000","Cmd":["shop-requests","shop","3600"]' &&
		cp systemd/containers/kubernetes-pod.yaml "$scratch/shop.yaml"
}

ids_of() { cut -d' ' -f"$2" "$scratch/$1.ids"; }
pid_of() { $cri pid "$(ids_of "$1" 2)"; }
in_pod() { $cri exec "$(ids_of $pod 2)" "$@"; }
in_shop() { $cri exec "$(ids_of shop 2)" "$@"; }

start_ours()
{
	start_pod "$scratch/$1.yaml" $burstable
}

# By SIGTERM, which the keeper does not handle, and not by SIGKILL after it.
ends()
{
	says '^(0|143)$' $cri stop "$(ids_of "$1" 1)" "$(ids_of "$1" 2)" 60
}

# What the engine has made of the manifest, before a program gives up any of it.
has_rights_of_manifest()
{
	ctr --namespace=k8s.io containers info "$(ids_of "$1" 2)" | /usr/bin/python3 -c '
import json, os, sys, yaml
spec = json.load(sys.stdin)["Spec"]
pod, = (one for one in yaml.safe_load_all(open(sys.argv[1])) if one["kind"] == "Pod")
container, = pod["spec"]["containers"]
context, process, linux = container["securityContext"], spec["process"], spec["linux"]
del linux["seccomp"]["syscalls"]
print(json.dumps(spec))
wanted = sorted("CAP_" + one for one in context["capabilities"].get("add", []))
assert sorted(process["capabilities"].get("bounding", [])) == wanted
assert process.get("noNewPrivileges", False) == (not context.get("allowPrivilegeEscalation", True))
assert spec["root"].get("readonly", False) == context.get("readOnlyRootFilesystem", False)
assert linux["seccomp"]["defaultAction"] == "SCMP_ACT_ERRNO"
assert (os.readlink(f"/proc/{sys.argv[2]}/ns/pid") == os.readlink("/proc/self/ns/pid")) == pod["spec"].get("hostPID", False)
assert linux["resources"]["devices"][0] == {"allow": False, "access": "rwm"}
mounts = {one["destination"]: one for one in spec["mounts"]}
for mount in container["volumeMounts"]:
    assert ("ro" in mounts[mount["mountPath"]]["options"]) == mount.get("readOnly", False), mount' "$scratch/$1.yaml" "$(pid_of "$1")"
}

tenant()
{
	echo "$(cat "$scratch/shop.cgroup")/cri-containerd-$(ids_of shop 2).scope"
}

is_a_named_tenant()
{
	[ "$(userevctl tenants default/shop/shop | cut -f1,2)" = "$known"$'\t'"$(tenant)" ]
}

is_tailed()
{
	userevctl enable shop_request && timeout 60 userevctl tail --count=2 --tenant=default/shop/shop shop_request >"$scratch/tail" &&
		userevctl disable shop_request && cat "$scratch/tail" && [ "$(cut -f3,4 "$scratch/tail" | sort -u)" = "$known"$'\tshop_request' ]
}

emits()
{
	in_shop userevctl emit --require "$1 u32 x" x=1
}

# replace POD: the old one ends, then a new one starts.
replace()
{
	ends "$1" && start_ours "$1"
}

check 'the manifests are as the test expects' take_manifests
check 'the node is prepared' prepare_node
check 'the pod of the daemon starts' start_ours userevd
check '… and waits for the keeper' eval '! is_ready'
check 'the pod of the keeper starts' start_ours userevd-keeper
check 'it is ready, as the probe finds' within 60 is_ready
check 'the kernel has the guard' within 20 has_backend enable-address on
for one in userevd userevd-keeper; do
	check "the container of $one has what the manifest says, and no more" has_rights_of_manifest $one
done
check 'daemon and keeper have given up their rights' rights_are_given_up
check 'the pod of the program starts' start_pod "$scratch/shop.yaml"
check '… and has what the manifest says, and no more' has_rights_of_manifest shop
check '… and is a tenant with the name of its container' within 60 is_a_named_tenant
check '… and its records are tailed with that name' within 60 is_tailed
check 'another program in the container emits' emits second
check "the policy is the ConfigMap's" says 'DenyEvents=' emits host_up
connections >"$scratch/connections"
check 'one program is connected' [ "$(wc -l <"$scratch/connections")" -eq 1 ]
for one in userevd userevd-keeper; do
	check "the pod of $one is replaced" replace $one
	check 'the new one is ready' within 60 is_ready
	check 'the program is on the same connection' are_still_connected
	check 'its records are tailed with its name at once' is_tailed
	check 'another program in the container emits again' emits second
	check 'the guard is in force' within 20 has_backend enable-address on
done
check 'the pods of daemon and keeper are taken away' eval 'ends userevd && ends userevd-keeper'
check '… and the program runs on' eval 'kill -0 "$(pid_of shop)"'
check '… and the guard is in force' says '"loaded":true' "$B/userevd-guard" --status
check 'the pod of the program is taken away' $cri stop "$(ids_of shop 1)" "$(ids_of shop 2)"
sum_up
