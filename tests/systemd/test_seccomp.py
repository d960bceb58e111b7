#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The seccomp profiles for containers, compiled as by an OCI runtime: such a filter refuses the ioctls of user_events for any upper half
# of the register, and no others. The other files for containers mount the right directory.

import configparser
import errno
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from oci import FILES, TREE, as_it_is_used, compile_profile, profile

USER_EVENTS = ["register", "delete", "unregister"]
passed = failed = 0
skipped = []

# Prints an errno for each ioctl of its arguments; without arguments, the commands of user_events.
CALLER = r"""
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/uapi.h"

int main(int argc, char **argv)
{
	int pipes[2];

	if (argc == 1)
		printf("%lu\n%lu\n%lu\n", (unsigned long)UAPI_IOCTL_REGISTER, (unsigned long)UAPI_IOCTL_DELETE,
		       (unsigned long)UAPI_IOCTL_UNREGISTER);
	if (pipe(pipes) < 0)
		return 1;
	for (int i = 1; i < argc; i++) {
		int answer[64];

		printf("%d\n", syscall(SYS_ioctl, pipes[0], (unsigned long)strtoull(argv[i], NULL, 0), answer) < 0 ? errno : 0);
	}
}
"""


def check(sentence, wrong):
    """Passes if `wrong`, a list of faults, is empty."""
    global passed, failed
    if wrong:
        failed += 1
        print(f"FAILED  {sentence}: {'; '.join(wrong)}")
    else:
        passed += 1
        print(f"ok      {sentence}")


def call(caller, numbers, rules=None):
    """The errnos of a process that calls ioctl() with these numbers."""
    compiled = compile_profile(rules) if rules else None
    done = subprocess.run([caller] + [str(number) for number in numbers], stdout=subprocess.PIPE, text=True, timeout=60,
                          preexec_fn=compiled.load if compiled else None)
    return [int(line) for line in done.stdout.split()] if done.returncode == 0 else [f"status {done.returncode}"]


def build(directory, bits):
    caller = os.path.join(directory, f"caller{bits}")
    done = subprocess.run([os.environ.get("CC", "gcc"), f"-m{bits}", "-idirafter", "/usr/include/" + sysconfig.get_config_var("MULTIARCH"), "-D_GNU_SOURCE", f"-I{TREE}", "-x", "c", "-", "-o", caller],
                          input=CALLER, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return caller if done.returncode == 0 else None


def otherwise(got, wanted, names):
    return [f"{name}: {g}" for name, g in zip(names, got) if g != wanted] + (["no answer"] if len(got) != len(names) else [])


def check_filter(caller, bits, name, rules):
    numbers = call(caller, [])
    eperm = [(f"{event} with {high:#x}", number | high << 32) for event, number in zip(USER_EVENTS, numbers)
             for high in ([0, 1, 0x80000000, 0xffffffff] if bits == 64 else [0])]
    check(f"{name}, {bits} bits: the three ioctls are refused for any upper half of the register",
          otherwise(call(caller, [number for _, number in eperm], rules), errno.EPERM, [text for text, _ in eperm]))
    # FIONREAD; FIOCLEX; TCGETS, which a pipe does not support.
    got = call(caller, [0x541B, 0x5451, 0x5401], rules)
    check(f"{name}, {bits} bits: other ioctls pass", [] if got == [0, 0, errno.ENOTTY] else [str(got)])
    near = [number ^ 1 << bit for number in numbers for bit in range(8, 16)]
    check(f"{name}, {bits} bits: ioctls that differ in one bit pass",
          otherwise(call(caller, near, rules), errno.ENOTTY, [hex(number) for number in near]))


def check_seccomp(caller, bits):
    denying = profile("seccomp-user-events.json")
    check_filter(caller, bits, "seccomp-user-events.json", denying)
    merged = as_it_is_used("seccomp-user-events-allowlist.json")
    check(f"the jq of the manual page leaves no unconditional ioctl, {bits} bits",
          [str(rule) for rule in merged["syscalls"] if "ioctl" in rule["names"] and not rule.get("args")])
    check_filter(caller, bits, "a runtime's profile with seccomp-user-events-allowlist.json", merged)


def check_equality_is_not_enough(caller):
    """A profile that this test would accept if it left the upper half zero."""
    numbers = call(caller, [])
    naive = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["ioctl"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 1, "op": "SCMP_CMP_EQ", "value": number}]}
        for number in numbers]}
    check("a comparison of 64 bits refuses the plain numbers", otherwise(call(caller, numbers, naive), errno.EPERM, USER_EVENTS))
    check("a comparison of 64 bits allows other upper halves",
          otherwise(call(caller, [number | 1 << 32 for number in numbers], naive), errno.ENOTTY, USER_EVENTS))


def check_masks():
    for rule in profile("seccomp-user-events.json")["syscalls"]:
        argument, = rule["args"]
        check(f"{argument['valueTwo']:#x} is compared in its lower 32 bits",
              [] if (argument["index"], argument["op"], argument["value"]) == (1, "SCMP_CMP_MASKED_EQ", 0xffffffff) else [str(argument)])


def ini(name):
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str
    parser.read(os.path.join(FILES, name))
    return parser


def check_mounts():
    directory, mount = "/run/userevd/client", "/run/userevd/client:/run/userevd/client:ro"
    check("userevd.nspawn binds the directory",
          [] if ini("userevd.nspawn")["Files"]["BindReadOnly"] == directory else ["it does not"])
    check("userevd.container.conf mounts the directory",
          [] if ini("userevd.container.conf")["Container"]["Volume"] == mount else ["it does not"])
    try:
        import yaml
    except ImportError:
        skipped.append("the YAML files need python3-yaml")
        return

    def load(name):
        with open(os.path.join(FILES, name), encoding="utf-8") as file:
            return yaml.safe_load(file)

    check("compose.yaml mounts the directory",
          [] if load("compose.yaml")["services"]["shop"]["volumes"] == [mount] else ["it does not"])
    pod = load("kubernetes-pod.yaml")["spec"]
    check("kubernetes-pod.yaml mounts the directory read-only",
          [] if pod["volumes"][0]["hostPath"]["path"] == directory and
          pod["containers"][0]["volumeMounts"] == [{"name": "userevd", "mountPath": directory, "readOnly": True}] else ["it does not"])
    with open(os.path.join(FILES, "kubernetes-daemonset.yaml"), encoding="utf-8") as file:
        sets = list(yaml.safe_load_all(file))
    for one in sets:
        check_daemonset(one["metadata"]["name"], one["spec"])
    check_kustomization([one["spec"]["template"]["spec"] for one in sets], load("kustomization.yaml"))


def check_daemonset(name, spec):
    pod = spec["template"]["spec"]
    container, = pod["containers"]
    with open(os.path.join(TREE, "Makefile"), encoding="utf-8") as file:
        version = re.search("^VERSION := (.*)$", file.read(), re.M).group(1)
    with open(os.path.join(FILES, "kubernetes-daemonset.yaml"), encoding="utf-8") as file:
        lines = file.read().splitlines()
    tag = container["image"].rsplit(":", 1)[1]
    security = container["securityContext"]
    check(f"{name}: its image has this version", [] if tag == version else [tag])
    check(f"{name} selects its own pods", [] if spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] else ["not"])
    check(f"{name}: each of its mounts has its volume, and each volume is mounted",
          {mount["name"] for mount in container["volumeMounts"]} ^ {volume["name"] for volume in pod["volumes"]})
    check(f"{name}: the container is not privileged", [] if not security["privileged"] and security["capabilities"]["drop"] == ["ALL"] else ["it is"])
    check(f"{name}: each capability has a comment",
          [right for right in security["capabilities"]["add"] if not any(re.match(f"^ *- {right} # ", line) for line in lines)])


def check_kustomization(pods, kustomization):
    images = [pod["containers"][0]["image"].rsplit(":", 1)[0] for pod in pods]
    check("kustomization.yaml names the same images", set(images) ^ {row["name"] for row in kustomization["images"]})
    policy, = kustomization["configMapGenerator"]
    check("… the DaemonSet's ConfigMap", [] if policy["name"] in [volume.get("configMap", {}).get("name") for pod in pods for volume in pod["volumes"]]
          else [policy["name"]])
    check("… and files that exist", [name for name in kustomization["resources"] + policy["files"] if not os.path.exists(os.path.join(FILES, name))])


def check_page():
    with open(os.path.join(TREE, "systemd/userevd-containers.7"), encoding="utf-8") as page:
        text = page.read()
    check("userevd-containers.7 names every file for containers",
          [name for name in sorted(os.listdir(FILES)) if not name.endswith(".in") and f"Pa {name}" not in text])


def main():
    check_mounts()
    check_page()
    check_masks()
    try:
        import seccomp  # pylint: disable=unused-import
    except ImportError:
        skipped.append("filters need python3-seccomp")
    if not shutil.which("jq"):
        skipped.append("merging profiles needs jq")
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        for bits in (64, 32) if not skipped else ():
            caller = build(directory, bits)
            if not caller:
                skipped.append(f"the compiler makes no programs of {bits} bits")
                continue
            check_seccomp(caller, bits)
            if bits == 64:
                check_equality_is_not_enough(caller)
    print(f"{passed} passed, {failed} failed" + (f", {len(skipped)} skipped: {'; '.join(skipped)}" if skipped else ""))
    return failed > 0


sys.exit(main())
