#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Compares the manuals with programs and headers: options and defaults with --help, the protocol's numbers and offsets with protocol.h
# and refusal.c, the bytes of its example with a daemon. $B has userevd and userevctl.

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../integration"))
from checks import BUILD, TREE, check, sum_up  # noqa: E402
from running import running  # noqa: E402


def source(path):
    with open(os.path.join(TREE, path), encoding="utf-8") as file:
        return file.read()


def run(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    except FileNotFoundError as missing_program:
        return subprocess.CompletedProcess(command, 127, str(missing_program))


def rendered(path, width=80):
    page = subprocess.run(["mandoc", "-Tascii", f"-Owidth={width}", os.path.join(TREE, path)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    return re.sub(".\b", "", page.stdout)


def section(page, name):
    """A rendered section or subsection, up to the next heading of the same depth or above."""
    found = re.search(rf"^( *){re.escape(name)}\n(.*?)(?=^ {{0,3}}\S|\Z)", page, re.M | re.S)
    if found and not found[1]:
        found = re.search(rf"^(){re.escape(name)}\n(.*?)(?=^\S|\Z)", page, re.M | re.S)
    return found[2] if found else ""


def difference(name_a, a, name_b, b):
    return [f"{x} is in {name_a} and not in {name_b}" for x in sorted(set(a) - set(b))] + \
           [f"{x} is in {name_b} and not in {name_a}" for x in sorted(set(b) - set(a))]


# Options: {"--name": (short, takes an argument, default)}.

def items(text, indent):
    """Splits at lines that begin with an option."""
    pattern = re.compile(rf"^{indent}(?:(-\w), +)?(--[a-z][a-z-]*)(=\S+)?(?: |$)", re.M)
    found = list(pattern.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return [(match, re.sub(r"\s+", " ", text[match.end():end])) for match, end in zip(found, ends)]


def options(text, indent, default):
    result = {}
    for match, about in items(text, indent):
        value = re.search(default, about)
        result[match[2]] = (match[1], match[3] is not None, value[1] if value else None)
    return result


def check_userevd():
    page = rendered("daemon/userevd.8", 200)
    helped = options(run(os.path.join(BUILD, "userevd"), "--help").stdout, r" +", r"\(default ([^)]*)\)")
    written = options(section(page, "OPTIONS"), r" {5}", r"\bDefault: (\S+?)\.(?: |$)")
    synopsis = re.findall(r"--[a-z][a-z-]*", section(page, "SYNOPSIS"))

    check("userevd.8 has the options of userevd --help", difference("--help", helped, "the page", written) or len(helped) <= 5)
    check("userevd.8 has all options in its synopsis", difference("--help", helped, "the synopsis", synopsis))
    check("userevd.8 has the same short options, arguments and defaults",
          [f"{name}: {written[name]} instead of {helped[name]}" for name in sorted(set(helped) & set(written))
           if written[name] != helped[name]])
    message_id = re.search(r"MESSAGE_ID=(\w{32})", source("daemon/process/log.c"))[1]
    check("userevd.8 has the MESSAGE_ID of daemon/process/log.c", [] if message_id in page else [message_id])


def check_keeper():
    page = rendered("kernel/keeper/userevd-keeper.8", 200)
    text = re.sub(r"\s+", " ", page)
    helped = options(run(os.path.join(BUILD, "userevd-keeper"), "--help").stdout, r" +", r"\(default (\d+)\)")
    written = options(section(page, "OPTIONS"), r" {5}", r"\bDefault: (\S+?)\.(?: |$)")
    deaths = enumerators(source("kernel/keeper/daemons.c"), "DEATHS_")["MAX"]
    words = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

    check("userevd-keeper.8 has the options of userevd-keeper --help",
          difference("--help", helped.keys() | {"--version", "--help"}, "the page", written.keys() | {"--version", "--help"}))
    check("userevd-keeper.8 has the default of --hold", [] if helped["--hold"][2] in section(page, "OPTIONS") else ["not"])
    check("userevd-keeper.8 has the maximum of failing daemons",
          [] if f"{words[deaths].capitalize()} daemons in a row" in text else [f"not {words[deaths]}"])


def check_userevctl():
    program = os.path.join(BUILD, "userevctl")
    helped = run(program, "--help")
    lines = re.findall(r"^  ([a-z][a-z-]*(?:, [a-z-]+)*)(?= |$)", helped.stdout, re.M)
    commands = [name for line in lines for name in line.split(", ")]
    texts = [helped.stdout] + [run(program, "help", command).stdout for command in commands]
    wanted = {name for text in texts for name in re.findall(r"^ +(?:-\w, +)?--([a-z][a-z-]*)", text, re.M)}
    check("userevctl --help names some commands", [] if helped.returncode == 0 and len(commands) > 3 else ["hardly any"])
    macros = [line for line in source("client/userevctl/userevctl.1").split("\n") if line.startswith(".")]
    check("userevctl.1 has the commands of userevctl --help",
          [name for name in commands
           if not any(re.search(rf" (It|Ss|Cm|Ic|Sy|Li|Nm)( -?\w+)* {re.escape(name)}( |$)", " " + line[1:]) for line in macros)])
    check("userevctl.1 has the options of userevctl --help and of its commands",
          [name for name in sorted(wanted) if not any(re.search(rf"-{name}( |$)", line) for line in macros)])


# Keys of policy files.

def check_keys():
    page = rendered("daemon/policy/userevd.conf.5", 200)
    table = re.findall(r'\[POLICY_\w+\] = \{ "(\w+)", POLICY_OF_(\w+)', source("daemon/policy/keys.c"))
    for name in re.findall(r'LIMIT\(\w+, "(\w+)"', source("daemon/policy/keys.c")):
        table += [(name, "CGROUP"), (f"Default{name}", "DAEMON")]
    parts = {"CGROUP": section(page, "Limits"), "TENANT": section(page, "Rules"), "SECTION": section(page, "Names"), "DAEMON": section(page, "SECTION DAEMON"),
             "EVENT": section(page, "SECTIONS OF EVENTS")}
    written = [(name, reach) for reach, text in parts.items() for name in re.findall(r"^ {5}([A-Z]\w+)=", text, re.M)]
    check("policy files have some keys", [] if len(table) > 5 else ["hardly any"])
    check("userevd.conf.5 has all keys of policy files in their sections, and no others",
          difference("the table", table, "the page", written))

    told = []
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "etc/userevd/policy.d"))
        with open(os.path.join(root, "etc/userevd/policy.d/10.conf"), "w") as file:
            file.write("[Event some]\n")
        for arguments in (["/nowhere"], []):
            shown = run(os.path.join(BUILD, "userevctl"), "policy", "show", "--json", f"--root={root}", *arguments)
            told += json.loads(shown.stdout[:shown.stdout.find("\n")])["values"]
    wrong = []
    for name, reach in table:
        about = re.search(rf"^ {{5}}{name}=.*?^ {{13}}.*?Default:\s+(\S+)\.$", parts[reach], re.M | re.S)
        value = [v["value"].replace("-", "none", v["value"] == "-") for v in told if v["key"] == name]
        if reach not in ("CGROUP", "SECTION") and (not about or [about[1]] != value[:1]):
            wrong.append(f"{name}: {about and about[1]} instead of {value}")
    check("userevd.conf.5 has their defaults", wrong)


# Numbers of the protocol.

def enumerators(text, prefix):
    """{name without the prefix: number} of all enumerators, with sums and products of earlier ones."""
    values, known = {}, {}
    for name, value in re.findall(r"\b([A-Z][A-Z0-9_]*) = ([A-Z0-9_a-z*+<() ]+?)[,\s]*(?=[,}/\n])", text):
        known[name] = eval(value, {"__builtins__": {}}, dict(known))
        if name.startswith(prefix):
            values[name[len(prefix):]] = known[name]
    return values


def rows(text, *cells):
    """Whether there is a row of a table that begins with these cells."""
    return re.search(r"^ +" + r" +".join(re.escape(str(cell)) for cell in cells) + r"(?: |$)", text, re.M) is not None


def missing(text, pairs):
    return [f"{number} {name}" for number, name in pairs if not rows(text, number, name)]


def check_numbers(page):
    header = source("protocol/protocol.h")
    kinds = enumerators(header, "KIND_")
    clients, control = section(page, "PACKETS"), section(page, "CONTROL SOCKET")
    told = re.findall(r"^ +(\d+) +([A-Z_]+)  +(?:client|daemon|admin) ", clients + control, re.M)
    check("the protocol has all kinds of messages with their numbers, and no others",
          difference("protocol.h", [(str(number), name) for name, number in kinds.items()], "the page", told))

    wire = enumerators(header, "WIRE_")
    more = wire.pop("MORE")
    check("the protocol has every limit with its number",
          [f"{name} {number}" for name, number in wire.items() if not rows(section(page, "LIMITS"), name, number)])
    features = re.findall(r"#define WIRE_FEATURE_(\w+) \(UINT64_C\(1\) << (\d+)\)", header)
    check("the protocol has every feature bit", missing(page, [(hex(1 << int(bit)), name) for name, bit in features]))
    backends = enumerators(header, "BACKEND_")
    check("the protocol has every backend",
          missing(page, [(number, name.lower().replace("_", "-")) for name, number in backends.items()]))
    flags = enumerators(header, "REGISTER_")
    flags.update(enumerators(header, "TRACE_"))
    flags.update(enumerators(header, "TAIL_"))
    check("the protocol has every flag",
          [f"{number} {name}" for name, number in flags.items() if not re.search(rf"\b{number} +{name}\b", page)] +
          ([] if f"MORE ({more})" in page else ["MORE"]))

    numbers = enumerators(source("protocol/refusal.h"), "REFUSAL_")
    names = dict(re.findall(r"\[REFUSAL_(\w+)\] = \{ \"([a-z-]+)\"", source("protocol/refusal.c")))
    told = re.findall(r"^ +(\d+) +([a-z]+(?:-[a-z]+)*)  +\S", section(page, "REFUSALS"), re.M)
    check("the protocol has all refusals with their numbers and names, and no others",
          difference("the sources", [(str(numbers[key]), names[key]) for key in names if numbers[key]], "the page", told))

    text = re.sub(r"\s+", " ", page)
    limits, descriptions = source("daemon/limits.h"), source("protocol/event/description.h")
    grammar = enumerators(descriptions, "DESCRIPTION_")
    phrases = [
        f"sends HELLO within {enumerators(limits, 'DEFAULT_')['CLIENT_TIMEOUT']} seconds",
        f"holders (rows of tenant, pid, uid, comm; at most {enumerators(limits, 'HOLDERS_')['MAX']})",
        f"An event's is at most {grammar['NAME_MAX']} bytes",
        f"N from 1 to {grammar['ARRAY_MAX']} in decimal",
    ]
    check("the protocol has the daemon's deadline and the grammar's limits", [p for p in phrases if p not in text])


def check_memory():
    """The manual's figures of memory are the ones of a test."""
    text = re.sub(r"\s+", " ", section(rendered("daemon/userevd.8"), "Memory"))
    measured = dict(re.findall(r"(\w+)_(?:BYTES|KIB) = (\d+)", source("tests/integration/test_exhaustion_memory.c")))
    phrases = [
        f"A connection takes at most {measured['CONNECTION']} bytes of the daemon's memory, a data file {measured['FILE']}, "
        f"a lease {measured['LEASE']},",
        f"takes at most {int(measured['BESIDE']) >> 10} MiB",
    ]
    check("userevd.8 has the measured bytes of a connection, a file and a lease", [p for p in phrases if p not in text])


SECTIONS = {  # of the page, for structs of protocol.h without a packet of their name
    "header": "PACKETS", "strings": "REGISTER (3)", "string": "REGISTER (3)", "answer": "REGISTERED (4)", "rows": "ROWS",
    "own_record": "TRACES OF A TENANT'S OWN",
}


def check_layouts(page):
    structs = re.findall(r"^struct wire_(\w+) \{\n(.*?)^\};", source("protocol/protocol.h"), re.M | re.S)
    kinds = enumerators(source("protocol/protocol.h"), "KIND_")
    wrong = []
    for name, body in structs:
        table, offset = section(page, SECTIONS.get(name) or f"{name.upper()} ({kinds.get(name.upper())})"), 0
        for bits, field in re.findall(r"\buint(\d+)_t\s+(\w+);", body):
            # The items of REGISTER have flags, the packet has none; TRACE and TAIL have flags.
            field = "zero" if (name, field) == ("strings", "flags") else field
            if not rows(table, offset, f"u{bits}", field):
                wrong.append(f"{name}: no row '{offset} u{bits} {field}'")
            offset += int(bits) // 8
    check("the protocol's tables have every field at its offset", wrong)


# The example.

def dumps(page):
    """The bytes of the hex dumps, in order."""
    packets = []
    for offset, line in re.findall(r"^ +([0-9a-f]{2})  ((?:[0-9a-f]{2} {1,2}){1,16}) ", page, re.M):
        if offset == "00":
            packets.append(b"")
        packets[-1] += bytes.fromhex(line)
    return packets


class Connection:
    def __init__(self, path):
        self.socket, self.fds = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET), []
        self.socket.settimeout(30)
        self.socket.connect(path)

    def ask(self, packet):
        """The reply and the number of its fds."""
        self.socket.send(packet)
        reply, fds, _, _ = socket.recv_fds(self.socket, 131072, 8)
        self.fds += fds
        return reply, len(fds)

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.socket.close()


def follow_example(daemon, hello, welcome, register, registered, record):
    client, admin = Connection(daemon.socket), Connection(daemon.control)
    try:
        reply = client.ask(hello)[0]
        # The tenant depends on the machine: its length is at 34 in the body, the tenant at 40.
        if reply[4:16 + 34] != welcome[4:16 + 34] or reply[16 + 36:16 + 40] != welcome[16 + 36:16 + 40]:
            return [f"WELCOME is {reply.hex(' ')}"]
        reply = client.ask(register)
        if reply != (registered, 1):
            return [f"REGISTERED is {reply[0].hex(' ')}"]
        bit, = struct.unpack_from("<I", registered, 20 + 4 + 4)
        pattern = struct.pack("<HHHH", 1, 1, 0, 5) + b"hello\0\0\0"
        admin.ask(struct.pack("<IHBBII", 16 + len(pattern), 131, 0, 0, 1, 0) + pattern)
        if not os.pread(client.fds[0], 4096, 0)[bit // 8] & 1 << bit % 8:
            return ["the bit is not set"]
        os.write(client.fds[1], record)
        admin.ask(struct.pack("<IHBBII", 16, 133, 0, 0, 2, 0))
        account = client.ask(struct.pack("<IHBBII", 16, 7, 0, 0, 3, 0))[0]
        good, bad = struct.unpack_from("<QQ", account, 16 + 32)
        return [] if (good, bad) == (1, 0) else [f"{good} records, {bad} bad ones"]
    finally:
        client.close()
        admin.close()


def check_example(page):
    packets = dumps(section(page, "EXAMPLES"))
    check("the protocol's example has five dumps", [] if len(packets) == 5 else [len(packets)])
    with running("--backend=embedded", "--log-level=err") as daemon:
        check("a daemon answers the protocol's example with the bytes of the page", follow_example(daemon, *packets))


# The library's pages against its headers.

def names_of(path):
    """The names of a page: each is installed as a page."""
    return set(re.findall(r"^\.Nm (\S+)", source(path).split(".Sh SYNOPSIS")[0], re.M))


def library_pages():
    directory = os.path.join(TREE, "client")
    return [f"client/{name}" for name in sorted(os.listdir(directory)) if name.endswith(".3")]


def without_blanks(text):
    return re.sub(r"\s*([(),;*])\s*", r"\1", re.sub(r"\s+", " ", text)).strip()


def prototypes(text):
    """{function: its prototype} of a header."""
    text = re.sub(r"/\*.*?\*/|^#(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.S | re.M)
    text = re.sub(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)", "", text)
    found = re.findall(r"^(?:static inline )?([a-z][\w ]*[ *]\**)(userev_[a-z_]+)\(([^()]*)\)\s*[;{]", text, re.M)
    return {name: without_blanks(f"{returned} {name}({parameters})") for returned, name, parameters in found}


def synopsis(path):
    """The same, of a page."""
    text = source(path).split(".Sh SYNOPSIS\n")[1].split(".Sh ")[0]
    found = {}
    for returned, name, parameters in re.findall(r'^\.Ft (.*)\n\.Fn (userev_[a-z_]+) (.*)$', text, re.M):
        parameters = re.findall(r'"([^"]*)"|(\S+)', parameters)
        found[name] = without_blanks(f"{returned.strip(chr(34))} {name}({','.join(a or b for a, b in parameters)})")
    return found


def compile_example(path, number, text):
    with tempfile.TemporaryDirectory() as directory:
        example = os.path.join(directory, "example.c")
        with open(example, "w", encoding="utf-8") as file:
            file.write(text)
        built = run(os.environ.get("CC", "cc"), "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror",
                    f"-I{os.path.join(TREE, 'client')}", example, os.path.join(BUILD, "libuserev.a"), "-pthread",
                    "-o", os.path.join(directory, "example"))
    check(f"{path}: example {number} can be compiled", [built.stdout.strip()] if built.returncode else [])


def check_library():
    wanted = prototypes(source("client/userev.h"))
    macros = set(re.findall(r"^#define (userev_[a-z_]+[a-z]|USEREV_EVENT(?:_FLAGS|_HEADER|_OF)?)\(",
                            source("client/userev_event.h") + source("client/userev_event_header.h"), re.M))
    pages = library_pages()
    told, named = {}, set()
    for path in pages:
        told.update({name: text for name, text in synopsis(path).items() if name not in macros})
        named |= names_of(path)
        examples = re.findall(r"^\.Bd -literal\n(#include.*?)^\.Ed", source(path), re.M | re.S)
        for number, text in enumerate(examples):
            compile_example(path, number + 1, text.replace("\\e", "\\"))
    # Called only by userev_enabled().
    wanted.pop("userev_awaken", None)
    check("userev.h has some functions", [] if len(wanted) > 15 else ["hardly any"])
    check("the library's pages have all prototypes of userev.h",
          difference("userev.h", sorted(wanted.values()), "the pages", sorted(told.values())))
    check("each function and macro of the library is the name of a page",
          sorted(name for name in set(wanted) | macros if name not in named))


# Examples of policy.

def check_policy_examples():
    """A section with Tenant=no has to limit the sum of its tenants, since users can create cgroups."""
    lacking = []
    examples = os.path.join("systemd", "policy.d-examples")
    for path in ["daemon/policy/userevd.conf.5"] + [os.path.join(examples, name) for name in os.listdir(os.path.join(TREE, examples))]:
        for name, keys in re.findall(r"^(\[/.*\])\n((?:[A-Z]\w+=.*\n)*)", source(path), re.M):
            lacking += [f"{path}: {name} has no {key}=" for key in ("MaxEvents", "MaxConnections")
                        if "Tenant=no\n" in keys and f"{key}=" not in keys]
    check("a section with Tenant=no limits events and connections", lacking)


# All pages.

def all_pages():
    for directory, directories, files in os.walk(TREE):
        directories[:] = sorted(d for d in directories if not d.startswith(".") and
                                os.path.join(directory, d) != BUILD and d != "build" and not d.startswith("build-"))
        for name in sorted(files):
            if re.search(r"\.[1-8]$", name):
                yield os.path.relpath(os.path.join(directory, name), TREE)


def check_page(path, pages):
    lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", os.path.join(TREE, path)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    wrong = [line.split(path + ":")[-1] for line in lint.stdout.strip().split("\n") if line]
    check(f"{path} is clean for mandoc", wrong or ([] if lint.returncode == 0 else [f"status {lint.returncode}"]))
    check(f"{path} fits in 80 columns",
          [repr(line) for line in rendered(path).split("\n") if len(line) > 80])
    quoted = subprocess.run(["mandoc", "-Tutf8", "-Owidth=500", os.path.join(TREE, path)], stdout=subprocess.PIPE, text=True).stdout
    check(f"{path} has no quote within a quote, and no list",
          re.findall("[^ ]*‘[^‘’]*‘.*", re.sub(".\b", "", quoted)) + re.findall(r"^\..*\bQl [^\"\n]* , .*", source(path), re.M))
    names = {os.path.basename(page) for page in pages} | {f"{name}.3" for page in library_pages() for name in names_of(page)}
    check(f"{path} refers to existing pages",
          [f"{name}.{number}" for name, number in re.findall(r"^\.Xr (\S*userev\S*) (\d)", source(path), re.M)
           if f"{name}.{number}" not in names])


def main():
    if not shutil.which("mandoc"):
        print("0 passed, 0 failed, 1 skipped: the man pages need mandoc")
        sys.exit()
    protocol = rendered("protocol/userevd-protocol.7")
    check_userevd()
    check_keeper()
    check_userevctl()
    check_keys()
    check_memory()
    check_numbers(protocol)
    check_layouts(protocol)
    if sys.byteorder == "little":
        check_example(protocol)
    check_library()
    check_policy_examples()
    pages = list(all_pages())
    for page in pages:
        check_page(page, pages)


main()
sum_up()
