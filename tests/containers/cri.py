#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a kubelet asks of containerd, for the pod of a manifest and its one container:
#
#	cri.py start MANIFEST UID CGROUP	prints the id of the pod and that of the container
#	cri.py pid CONTAINER
#	cri.py exec CONTAINER COMMAND…
#	cri.py stop POD CONTAINER [SECONDS]	after SIGTERM it has that long (default 0); prints the container's exit status
#
# UID and CGROUP are the pod's; its ConfigMaps are in MANIFEST, too. A key of a manifest that has a meaning for the engine, and is not
# known here, is an error. Numbers of fields are those of runtime/v1/api.proto of cri-api.

import json
import os
import sys

import grpc
import yaml

CHANNEL = grpc.insecure_channel("unix:///run/containerd/containerd.sock")
POD, CONTAINER, NODE = 0, 1, 2
PROFILES = {"RuntimeDefault": {1: 0}, "Unconfined": {1: 1}}
# Of the kubelet itself, or of a scheduler.
NOT_FOR_ENGINES = {
    "automountServiceAccountToken", "enableServiceLinks", "nodeSelector", "tolerations", "terminationGracePeriodSeconds",
    "imagePullPolicy", "livenessProbe", "readinessProbe",
}
VOLUMES = "/var/lib/kubelet/pods"


def varint(number):
    number &= (1 << 64) - 1
    first = number & 0x7F
    return bytes([first]) if number < 0x80 else bytes([first | 0x80]) + varint(number >> 7)


def encode(message):
    """A dict from a field's number to its value: bool, int, str, dict (a message) or a list of them."""
    encoded = b""
    for field, value in message.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                encoded += varint(field << 3) + varint(one)
            else:
                body = encode(one) if isinstance(one, dict) else one.encode()
                encoded += varint(field << 3 | 2) + varint(len(body)) + body
    return encoded


def take_varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return number, at


def decode(data):
    """A dict from a field's number to a list of its values, int or bytes."""
    message, at = {}, 0
    while at < len(data):
        key, at = take_varint(data, at)
        value, at = take_varint(data, at)
        if key & 7 == 2:
            value, at = data[at:at + value], at + value
        message.setdefault(key >> 3, []).append(value)
    return message


def call(name, message):
    try:
        return decode(CHANNEL.unary_unary("/runtime.v1.RuntimeService/" + name)(encode(message), timeout=600))
    except grpc.RpcError as error:
        sys.exit(f"{name}: {error.details()}")


def refuse_unknown(keys, *known):
    unknown = set(keys) - set(known) - NOT_FOR_ENGINES
    if unknown:
        sys.exit(f"not known: {', '.join(sorted(unknown))}")


def files_of(name, config_map, uid):
    """A directory with the files of a ConfigMap behind a link, which renews all of them at once."""
    path = f"{VOLUMES}/{uid}/volumes/kubernetes.io~configmap/{name}"
    os.makedirs(f"{path}/..first")
    os.symlink("..first", f"{path}/..data")
    for file, text in config_map["data"].items():
        with open(f"{path}/..first/{file}", "w", encoding="utf-8") as copy:
            copy.write(text)
        os.symlink(f"..data/{file}", f"{path}/{file}")
    return path


def paths_of(pod, config_maps, uid):
    for volume in pod["spec"]["volumes"]:
        if "configMap" in volume:
            yield volume["name"], files_of(volume["name"], config_maps[volume["configMap"]["name"]], uid)
            continue
        path = volume["hostPath"]
        if path["type"] == "DirectoryOrCreate":
            os.makedirs(path["path"], exist_ok=True)
        elif path["type"] != "Directory" or not os.path.isdir(path["path"]):
            sys.exit(f"{path['path']}: not a directory")
        yield volume["name"], path["path"]


def security_of(container, namespaces):
    context = container["securityContext"]
    refuse_unknown(context, "allowPrivilegeEscalation", "appArmorProfile", "capabilities", "privileged", "readOnlyRootFilesystem",
                   "runAsUser", "seLinuxOptions", "seccompProfile")
    message = {
        1: {1: context["capabilities"].get("add", []), 2: context["capabilities"].get("drop", [])},
        2: context.get("privileged", False),
        3: namespaces,
        7: context.get("readOnlyRootFilesystem", False),
        11: not context.get("allowPrivilegeEscalation", True),
        15: PROFILES[context["seccompProfile"]["type"]],
    }
    if "seLinuxOptions" in context:
        message[4] = {3: context["seLinuxOptions"]["type"]}
    # Otherwise it is the image's.
    if "runAsUser" in context:
        message[5] = {1: context["runAsUser"]}
    if "appArmorProfile" in context:
        message[16] = PROFILES[context["appArmorProfile"]["type"]]
    return message


def resources_of(pod, container):
    """A pod's oom_score_adj is the lowest if the node needs it, and the highest if it asks for nothing."""
    resources = container.get("resources", {})
    cpu = resources.get("requests", {}).get("cpu", "0m")
    memory = resources.get("limits", {}).get("memory", "0Gi")
    if cpu[-1] != "m" or memory[-2:] != "Gi" or "cpu" in resources.get("limits", {}):
        sys.exit(f"not known: {resources}")
    critical = pod["spec"].get("priorityClassName") == "system-node-critical"
    return {3: max(2, int(cpu[:-1]) * 1024 // 1000), 4: int(memory[:-2]) << 30, 5: -997 if critical else 1000}


def strings(values):
    return [{1: key, 2: value} for key, value in values.items()]


def start(manifest, uid, cgroup):
    with open(manifest, encoding="utf-8") as file:
        documents = list(yaml.safe_load_all(file))
    pod, = (one for one in documents if one["kind"] == "Pod")
    config_maps = {one["metadata"]["name"]: one for one in documents if one["kind"] == "ConfigMap"}
    container, = pod["spec"]["containers"]
    refuse_unknown(pod["spec"], "containers", "hostPID", "priorityClassName", "volumes")
    refuse_unknown(container, "args", "command", "image", "name", "resources", "securityContext", "volumeMounts")
    namespaces = {1: POD, 2: NODE if pod["spec"].get("hostPID") else CONTAINER, 3: POD}
    name = pod["metadata"]["name"]
    sandbox = {
        1: {1: name, 2: uid, 3: pod["metadata"].get("namespace", "default")},
        2: name,
        6: strings(pod["metadata"].get("labels", {})),
        7: strings(pod["metadata"].get("annotations", {})),
        8: {1: cgroup, 2: {1: namespaces, 9: PROFILES["RuntimeDefault"]}},
    }
    paths = dict(paths_of(pod, config_maps, uid))
    config = {
        1: {1: container["name"]},
        2: {1: container["image"]},
        3: container.get("command", []),
        4: container.get("args", []),
        7: [{1: mount["mountPath"], 2: paths[mount["name"]], 3: mount.get("readOnly", False)} for mount in container["volumeMounts"]],
        15: {1: resources_of(pod, container), 2: security_of(container, namespaces)},
    }
    pod_id = call("RunPodSandbox", {1: sandbox})[1][0].decode()
    container_id = call("CreateContainer", {1: pod_id, 2: config, 3: sandbox})[1][0].decode()
    call("StartContainer", {1: container_id})
    print(pod_id, container_id)


def pid(container_id):
    info = dict((entry[1][0], entry[2][0]) for entry in map(decode, call("ContainerStatus", {1: container_id, 2: True})[2]))
    print(json.loads(info[b"info"])["pid"])


def execute(container_id, *command):
    answer = call("ExecSync", {1: container_id, 2: list(command), 3: 60})
    for field, stream in (1, sys.stdout), (2, sys.stderr):
        stream.write(b"".join(answer.get(field, [])).decode())
    sys.exit(answer.get(3, [0])[0])


def stop(pod_id, container_id, seconds="0"):
    call("StopContainer", {1: container_id, 2: int(seconds)})
    status = decode(call("ContainerStatus", {1: container_id})[1][0])
    print(status.get(7, [0])[0])
    call("RemoveContainer", {1: container_id})
    call("StopPodSandbox", {1: pod_id})
    call("RemovePodSandbox", {1: pod_id})


{"start": start, "pid": pid, "exec": execute, "stop": stop}[sys.argv[1]](*sys.argv[2:])
