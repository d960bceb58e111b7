#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# What a kubelet asks of containerd, for the pod of a manifest and its one container:
#
#	cri.py start MANIFEST UID CGROUP	prints the id of the pod and that of the container
#	cri.py pid CONTAINER
#	cri.py exec CONTAINER COMMAND…
#	cri.py stop POD CONTAINER
#
# UID and CGROUP are the pod's. Numbers of fields are those of runtime/v1/api.proto of cri-api.

import json
import os
import sys

import grpc
import yaml

CHANNEL = grpc.insecure_channel("unix:///run/containerd/containerd.sock")
POD, CONTAINER, RUNTIME_DEFAULT = 0, 1, 0


def varint(number):
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


def mounts_of(pod, container):
    paths = {volume["name"]: volume["hostPath"] for volume in pod["spec"]["volumes"]}
    for mount in container["volumeMounts"]:
        path = paths[mount["name"]]
        if path.get("type") == "DirectoryOrCreate":
            os.makedirs(path["path"], exist_ok=True)
        yield {1: mount["mountPath"], 2: path["path"], 3: mount.get("readOnly", False)}


def start(manifest, uid, cgroup):
    with open(manifest, encoding="utf-8") as file:
        pod = yaml.safe_load(file)
    container = pod["spec"]["containers"][0]
    namespaces = {1: POD, 2: CONTAINER, 3: POD}
    name = pod["metadata"]["name"]
    sandbox = {
        1: {1: name, 2: uid, 3: pod["metadata"].get("namespace", "default")},
        2: name,
        8: {1: cgroup, 2: {1: namespaces, 9: {1: RUNTIME_DEFAULT}}},
    }
    pod_id = call("RunPodSandbox", {1: sandbox})[1][0].decode()
    config = {
        1: {1: container["name"]},
        2: {1: container["image"]},
        3: container["command"],
        7: list(mounts_of(pod, container)),
        15: {2: {3: namespaces, 5: {1: container["securityContext"]["runAsUser"]}, 15: {1: RUNTIME_DEFAULT}}},
    }
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


def stop(pod_id, container_id):
    call("StopContainer", {1: container_id})
    call("RemoveContainer", {1: container_id})
    call("StopPodSandbox", {1: pod_id})
    call("RemovePodSandbox", {1: pod_id})


{"start": start, "pid": pid, "exec": execute, "stop": stop}[sys.argv[1]](*sys.argv[2:])
