#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which folder may include which: `make tidy`. Prints each #include that points upwards, and each circle of too many modules."""

import pathlib
import re
import sys

# Folder → what else its files may include. The longest name counts.
MAY_INCLUDE = {
    "protocol": (),
    "kernel": ("protocol",),
    "client/": ("client/userev",),  # the public headers, and examples of them
    "client/library": ("client/userev", "protocol"),
    "client/java": ("client/library", "protocol"),
    "client/node": ("client/userev", "client/library", "protocol"),
    "client/userevctl": ("client/userev", "client/library", "protocol", "kernel/probe", "daemon/policy", "daemon/identity"),
    "daemon": ("kernel", "protocol"),
}
# Within daemon/, from the bottom to the top: none includes one behind it. The other files of daemon/ itself come last.
DAEMON = "limits process policy options identity ledger quota registry native connection requests backend recovery admin".split()
# The struct that everything is embedded in is known to these. Its functions are called by main.c alone.
DAEMON_H = ("daemon/backend", "daemon/recovery", "daemon/admin")
CIRCLE_MAX = 6
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)


def rank(name):
    part = re.split("[/.]", name)[1]
    return DAEMON.index(part) if part in DAEMON else len(DAEMON)


def is_allowed(name, included):
    folder = max((folder for folder in MAY_INCLUDE if name.startswith(folder)), key=len)
    if name.startswith("daemon/") and included.startswith("daemon/"):
        return rank(included) <= rank(name) or (included == "daemon/daemon.h" and name.startswith(DAEMON_H))
    return included.startswith((folder, *MAY_INCLUDE[folder]))


def circles(includes):
    """Sets of modules, a .c and its .h, each of which includes all others in the end."""
    arrows = {}
    for name, included in includes:
        if included != "daemon/daemon.h":
            arrows.setdefault(name.rsplit(".", 1)[0], set()).add(included.rsplit(".", 1)[0])

    def reach(start):
        found, todo = set(), [start]
        while todo:
            for module in arrows.get(todo.pop(), set()) - found:
                found.add(module)
                todo.append(module)
        return found

    reached = {module: reach(module) for module in arrows}
    return {tuple(sorted(other for other in reached[module] if module in reached.get(other, ()))) for module in reached
            if module in reached[module]}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    names = [str(path.relative_to(root)) for folder in ("protocol", "kernel", "daemon", "client")
             for path in sorted((root / folder).rglob("*.[ch]"))]
    includes = [(name, included) for name in names for included in INCLUDE.findall((root / name).read_text(encoding="utf-8"))
                if (root / included).is_file() and included.rsplit(".", 1)[0] != name.rsplit(".", 1)[0]]
    wrong = [f"{name} includes {included}" for name, included in includes if not is_allowed(name, included)]
    wrong += [f"a circle of {len(circle)}: {' '.join(circle)}" for circle in sorted(circles(includes)) if len(circle) > CIRCLE_MAX]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
