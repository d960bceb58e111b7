#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The weight of the code: `make weight`.

Lines of code are lines of C that are neither blank nor only a comment, laid out by clang-format, headers and generated code included.
Python and shell are counted beside them: no formatter makes their lines comparable.
"""

import argparse
import collections
import pathlib
import re
import subprocess

PRODUCT = ("protocol", "kernel", "daemon", "client")
# Benchmarks, virtual machines and the kernel's own promises are no tests of ours.
NO_TESTS = ("tests/bench/", "tests/vm/", "tests/kernel/")
LONG_FILE = 400
LONG_FUNCTION = 45
SHORT_FUNCTION = 10

FUNCTION = re.compile(r"^(?P<static>static )?(?:inline )?(?:[A-Za-z_][\w ]*[ *]+)(?P<name>[a-z_]\w*)\((?:[^;{]*)\)(?: _\w+_(?:\([^)]*\))?)?\n\{\n"
                      r"(?P<body>.*?)^\}", re.M | re.S)
ATTRIBUTE = re.compile(r"(?:__attribute__\(\(.*?\)\)|_printf_\(\d+, \d+\)) ")


def files(root):
    names = subprocess.run(["git", "-C", root, "ls-files"], check=True, capture_output=True, text=True).stdout.split("\n")
    return [name for name in names if re.search(r"\.(c|h|cc|py|sh)$", name) and (root / name).is_file()]


def code_of(name, text):
    """Its lines without comments and blank ones."""
    if name.endswith((".py", ".sh")):
        text = re.sub(r'^\s*("""|\'\'\').*?\1$', "", text, flags=re.M | re.S)
        return [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*', lambda m: m[0] if m[0][0] == '"' else "", text, flags=re.S)
    return [line for line in text.split("\n") if line.strip()]


def is_c(name):
    return name.endswith((".c", ".h", ".cc"))


def room(name):
    folders = name.split("/")[:-1]
    return "/".join(folders[:2])


# What the goal for the product's weight, set before them, does not count: names of containers, EventHeader, histograms, recordings, sessions,
# tenants that are silent, native programs, clients for other languages.
NEWER = ("client/java/", "client/node/", "client/library/native.c", "client/userevctl/doctor/native", "daemon/native/", "daemon/requests/native",
         "kernel/guard/admission", "kernel/keeper/native", "kernel/native", "kernel/user_events/native", "client/userevctl/name/", "client/userevctl/show/tenant_name", "client/userevctl/record/", "client/userevctl/session/",
         "client/userevctl/tracing/delete", "client/userevctl/tracing/hist", "client/userevctl/tracing/kept", "client/userevctl/tracing/latency",
         "client/userevctl/tracing/kernel_record", "client/userevctl/tracing/ring_page", "client/userevctl/tracing/since", "client/userevctl/tracing/stats", "client/userevctl/tracing/tail_end", "client/userevctl/tracing/users", "client/userev_event_header.h", "client/library/trace.c", "client/userevctl/tracing/own.", "daemon/registry/own_trace", "daemon/requests/trace_own",
         "client/userevctl/silence/", "client/userevctl/tracing/only", "client/userevctl/tracing/threads", "daemon/admin/silence",
         "daemon/recovery/last_silence", "daemon/registry/silenc", "kernel/user_events/silence", "daemon/admin/delete", "kernel/keeper/listen", "protocol/event/event_header")


class Tree:
    def __init__(self, root):
        self.text = {name: (root / name).read_text(encoding="utf-8") for name in files(root)}
        self.lines = {name: len(code_of(name, text)) for name, text in self.text.items()}
        self.product = [name for name in self.text if name.startswith(tuple(folder + "/" for folder in PRODUCT))
                        and "/examples/" not in name]
        self.tests = [name for name in self.text if name.startswith("tests/") and not name.startswith(NO_TESTS)]

    def functions(self):
        """Of the product: (file, name, lines from its name to its end, static)."""
        for name in self.product:
            if is_c(name):
                for found in FUNCTION.finditer(ATTRIBUTE.sub("", self.text[name])):
                    yield name, found["name"], found[0].count("\n") + 1, bool(found["static"])

    def is_one_shot(self, name, function):
        """A static that is named twice: where it is, and where it is called. One of a header is called from all files."""
        where = self.product if name.endswith(".h") else [name]
        code = "\n".join(line for other in where for line in code_of(other, self.text[other]))
        return len(re.findall(rf"\b{function}\(", code)) == 2 and not re.search(rf"\b{function}\b(?!\()", code)


def print_rooms(tree, names, title):
    rooms, scripts = collections.Counter(), 0
    for name in names:
        if is_c(name):
            rooms[room(name)] += tree.lines[name]
        else:
            scripts += tree.lines[name]
    for folder in sorted(rooms):
        print(f"{rooms[folder]:8}  {folder}/")
    print(f"{rooms.total():8}  {title}, and {scripts} lines of Python and shell\n")
    return rooms.total()


def report(tree):
    functions = list(tree.functions())

    product = print_rooms(tree, tree.product, "product")
    print(f"{sum(tree.lines[name] for name in tree.product if is_c(name) and not name.startswith(NEWER)):8}  of them without what is newer than the goal\n")
    tests = print_rooms(tree, tree.tests, "tests")
    print(f"    {tests / product:.2f}  tests for a line of the product, in C; all in all "
          f"{sum(map(tree.lines.get, tree.tests)) / sum(map(tree.lines.get, tree.product)):.2f}\n")

    long_ones = sorted((lines, name, function) for name, function, lines, _ in functions if lines > LONG_FUNCTION)
    share = 100 * (1 - len(long_ones) / len(functions))
    print(f"{len(functions)} functions, {share:.1f} % of them of at most {LONG_FUNCTION} lines; the longest:")
    for lines, name, function in long_ones[:-11:-1]:
        print(f"{lines:8}  {function}() in {name}")

    one_shot = [(name, function) for name, function, lines, static in functions
                if static and lines <= SHORT_FUNCTION + 3 and tree.is_one_shot(name, function)]
    print(f"\n{len(one_shot)} static functions of at most {SHORT_FUNCTION} lines are called once, "
          f"{sum(not name.startswith(NEWER) for name, _ in one_shot)} of them without what is newer")
    for name, function in one_shot if arguments.list else []:
        print(f"          {function}() in {name}")

    # A second definition in the same file is under #else.
    where = collections.defaultdict(set)
    for name, function, _, _ in functions:
        where[function].add(name)
    shared = {function: names for function, names in where.items() if len(names) > 1 and function != "main"}
    print(f"{sum(map(len, shared.values()))} functions share {len(shared)} names")
    for function in sorted(shared, key=lambda one: -len(shared[one])) if arguments.list else []:
        print(f"          {function}: {' '.join(sorted(shared[function]))}")

    print(f"\nFiles of more than {LONG_FILE} lines of code:")
    for lines, name in sorted(((tree.lines[name], name) for name in tree.product + tree.tests if tree.lines[name] > LONG_FILE), reverse=True):
        print(f"{lines:8}  {name}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="of the checkout")
parser.add_argument("--list", action="store_true", help="name those that are only counted")
arguments = parser.parse_args()
report(Tree(arguments.root))
