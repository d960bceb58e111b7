#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# oci.py PROFILE: compiles a seccomp profile of systemd/containers as an OCI runtime does, and writes the filter to standard output. A
# module of test_seccomp.py.

import json
import os
import re
import subprocess
import sys
import tempfile

TREE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILES = os.path.join(TREE, "systemd/containers")


def profile(name):
    with open(os.path.join(FILES, name), encoding="utf-8") as file:
        return json.load(file)


def action(seccomp, name, number):
    return {"SCMP_ACT_ALLOW": seccomp.ALLOW, "SCMP_ACT_ERRNO": seccomp.ERRNO(number)}[name]


def add_rules(seccomp, compiled, rules):
    compare = {"SCMP_CMP_MASKED_EQ": seccomp.MASKED_EQ, "SCMP_CMP_EQ": seccomp.EQ}
    for rule in rules:
        arguments = [seccomp.Arg(a["index"], compare[a["op"]], a["value"], a.get("valueTwo", 0)) for a in rule.get("args", [])]
        for name in rule["names"]:
            compiled.add_rule(action(seccomp, rule["action"], rule.get("errnoRet", 1)), name, *arguments)


def compile_profile(rules):
    """Like runc: one rule for each name with its conditions, for all architectures."""
    import seccomp
    compiled = seccomp.SyscallFilter(action(seccomp, rules["defaultAction"], rules.get("defaultErrnoRet", 1)))
    for name in rules.get("architectures", []):
        architecture = getattr(seccomp.Arch, name.replace("SCMP_ARCH_", ""), None)
        if architecture is not None and not compiled.exist_arch(architecture):
            compiled.add_arch(architecture)
    add_rules(seccomp, compiled, rules["syscalls"])
    return compiled


def everything_but(runtime, rules):
    """The jq of the manual page, with the runtime's profile and our list."""
    with open(os.path.join(TREE, "systemd/userevd-containers.7"), encoding="utf-8") as page:
        program = re.search(r"jq --slurpfile rules \S+ \\e\n(.*?) default\.json", page.read(), re.S)[1].strip().strip("'")
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(runtime, file)
        file.flush()
        done = subprocess.run(["jq", "--slurpfile", "rules", os.path.join(FILES, rules), program, file.name],
                              stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def default_profile():
    """Like a runtime's: an allowlist with ioctl."""
    import seccomp
    names = []
    for number in range(0, 600):
        try:
            name = seccomp.resolve_syscall(seccomp.Arch(), number)
        except Exception:  # pylint: disable=broad-except
            continue
        names.append(name.decode() if isinstance(name, bytes) else name)
    names += ["mmap2", "fstat64", "_llseek", "set_thread_area", "ugetrlimit", "statx", "waitpid", "time", "readlink", "fstatat64"]
    allowed = profile("seccomp-user-events-allowlist.json")
    return {"defaultAction": "SCMP_ACT_ERRNO", "architectures": allowed["architectures"],
            "syscalls": [{"names": sorted(set(names)), "action": "SCMP_ACT_ALLOW"},
                         {"names": ["ioctl"], "action": "SCMP_ACT_ALLOW"}]}


def as_it_is_used(name):
    """The profile by itself; an allowlist as part of a runtime's profile."""
    rules = profile(name)
    return rules if rules["defaultAction"] == "SCMP_ACT_ALLOW" else everything_but(default_profile(), name)


if __name__ == "__main__":
    try:
        compile_profile(as_it_is_used(sys.argv[1])).export_bpf(sys.stdout)
    except (ImportError, FileNotFoundError) as error:
        sys.exit(f"oci.py: {error}")
