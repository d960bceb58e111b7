#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Metrics: a parser of OpenMetrics and one of the older text format read what a daemon prints, with tenants whose names are meant
# to break it; and who reads them, or does not, holds up nobody. (Not by env: the parsers are a package of the system's python.)

import contextlib
import ctypes
import json
import math
import os
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

try:
    from prometheus_client import parser as older
    from prometheus_client.openmetrics import parser as openmetrics
except ImportError:
    print("0 passed, 0 failed, 1 skipped: metrics need python3-prometheus-client")
    sys.exit(0)

BUILD = os.path.abspath(os.environ.get("B", "build"))
PATIENCE, READERS_MAX = 4, 8
passed = failed = 0


def check(sentence, wrong):
    """One check: `wrong` is a list of what is not as the sentence says."""
    global passed, failed
    if wrong:
        failed += 1
        print(f"FAILED  {sentence}: {'; '.join(str(one) for one in wrong)[:2000]}")
    else:
        passed += 1
        print(f"ok      {sentence}")


def eventually(condition):
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


# A daemon, and its clients.

class Daemon:
    def __init__(self, directory, policy="", *options):
        self.directory = directory
        self.socket, self.control = directory + "/s", directory + "/c"
        self.metrics = directory + "/made/metrics"
        os.makedirs(directory + "/policy", exist_ok=True)
        self.write_policy(f"[Daemon]\nMetricsSocket={self.metrics}\n{policy}")
        ready, ready_end = os.pipe()
        with open(directory + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [BUILD + "/userevd", "--foreground", "--exit-with-parent", "--backend=embedded", f"--client-timeout={PATIENCE}",
                 "--policy=" + directory + "/policy", "--socket=" + self.socket, "--control-socket=" + self.control,
                 f"--ready-fd={ready_end}", *options], pass_fds=[ready_end], stderr=log)
        os.close(ready_end)
        self.started = os.read(ready, 1) == b"\n"
        os.close(ready)

    def write_policy(self, text):
        with open(self.directory + "/policy/1.conf", "w", encoding="utf-8") as file:
            file.write(text)

    def ctl(self, *arguments):
        return subprocess.run([BUILD + "/userevctl", "--control-socket=" + self.control, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=60, check=False)

    def json(self, *arguments):
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def log(self):
        with open(self.directory + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(30)


@contextlib.contextmanager
def running(policy="", *options):
    with tempfile.TemporaryDirectory() as directory:
        # The daemon may become nobody, and its files are to be reached.
        os.chmod(directory, 0o755)
        daemon = Daemon(directory, policy, *options)
        try:
            yield daemon
        finally:
            if daemon.process.poll() is None:
                daemon.end()


def packet(kind, body):
    return struct.pack("<IHBBII", 16 + len(body), kind, 0, 0, 1, 0) + body


def ask(connection, kind, body=b""):
    connection.send(packet(kind, body))
    _, control, _, _ = connection.recvmsg(131072, socket.CMSG_SPACE(8 * 4))
    for level, type_, data in control:
        if (level, type_) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            for fd in struct.unpack(f"{len(data) // 4}i", data):
                os.close(fd)


def be(name):
    """With --tenants=process a tenant is a process and its name, so one process can be many."""
    ctypes.CDLL(None).prctl(15, name, 0, 0, 0)


def connect(path, kind=socket.SOCK_SEQPACKET):
    connection = socket.socket(socket.AF_UNIX, kind)
    connection.settimeout(30)
    connection.connect(path)
    return connection


def client(daemon, name, *descriptions, lost=0):
    be(name)
    connection = connect(daemon.socket)
    ask(connection, 1, bytes(16))
    for description in descriptions:
        length = len(description)
        ask(connection, 3, struct.pack("<HHHH", 1, 0, 0, length) + description + bytes(-length % 4))
    if lost:
        connection.send(packet(12, struct.pack("<QQ", lost, 1)))
    return connection


# What is read.

def read_all(path):
    with connect(path, socket.SOCK_STREAM) as connection:
        return rest_of(connection)


def rest_of(connection):
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def samples_of(parser, text):
    """[(name, {label: value}, value)], or an exception of the parser's."""
    return [(sample.name, dict(sample.labels), sample.value)
            for family in parser.text_string_to_metric_families(text.decode()) for sample in family.samples]


def parse(text):
    return samples_of(openmetrics, text)


def values(samples, name):
    return [value for sample, labels, value in samples if sample == "userevd_" + name]


def doubles(text):
    keys = [tuple([name, *sorted(labels.items())]) for name, labels, _ in parse(text)]
    return sorted(set(key for key in keys if keys.count(key) > 1)) if len(keys) != len(set(keys)) else []


def differences(a, b):
    return [f"{x} instead of {y}" for x, y in zip(a, b) if x != y] + (
        [f"{len(a)} instead of {len(b)}"] if len(a) != len(b) else [])


# A name as somebody might choose it, and the label that is read.
NAMES = [
    (b"plain", "plain"),
    (b'a"b', 'a"b'),
    (b'a",x="1"} 9', 'a",x="1"} 9'),
    (b"\\", "\\"),
    (b"a\\nb\\\\\"", 'a\\nb\\\\"'),
    (b"{a}={b} # {c}", "{a}={b} # {c}"),
    ("ü€".encode(), "ü€"),
    (b"\xff\xfe.", "\N{REPLACEMENT CHARACTER}ff\N{REPLACEMENT CHARACTER}fe."),
    ("\N{REPLACEMENT CHARACTER}ff".encode(), "".join("\N{REPLACEMENT CHARACTER}" + byte for byte in ("ef", "bf", "bd")) + "ff"),
    (b"\x1b[2J\r", "\N{REPLACEMENT CHARACTER}1b[2J\N{REPLACEMENT CHARACTER}0d"),
    (b"a\tb  c ", "a\N{REPLACEMENT CHARACTER}09b  c "),
    (b"a\n# EOF\nb", "a\n# EOF\nb"),
]

# Names of `status` and `tenants --json`, and of metrics.
OF_STATUS = {"capacity": "capacity_events", "charges": "charged_events", "reserved": "reserved_events", "events": "events",
             "lingering": "lingering_events", "tenants": "tenants", "connections": "connections", "streams": "streams",
             "records": "records_total", "bad": "bad_records_total", "lost": "lost_records_total",
             "too_big": "oversized_records_total", "files_capacity": "capacity_files", "files_reserved": "reserved_files", "in_flight": "fds_in_flight"}
OF_TENANTS = {"events": "tenant_events", "events_max": "tenant_events_max", "reserved": "tenant_reserved_events",
              "lingering": "tenant_lingering_events", "connections": "tenant_connections",
              "connections_max": "tenant_connections_max", "lost": "tenant_lost_records_total",
              "too_big": "tenant_oversized_records_total", "throttled": "tenant_throttled_total",
              "files": "tenant_files", "files_max": "tenant_files_max", "leases": "tenant_leases",
              "leases_max": "tenant_leases_max", "waiting_bytes": "tenant_waiting_bytes",
             "in_flight": "tenant_fds_in_flight"}


def compare(daemon, text):
    """What differs between the metrics and what userevctl says in JSON."""
    samples, wrong = parse(text), []
    status, tenants = daemon.json("status"), daemon.json("tenants")
    for key, name in OF_STATUS.items():
        if values(samples, name) != [status[key]]:
            wrong.append(f"{name}: {values(samples, name)} instead of {status[key]}")
    for key, name in OF_TENANTS.items():
        told = [tenant[key] for tenant in tenants if key in tenant]
        if values(samples, name) != told:
            wrong.append(f"{name}: {values(samples, name)} instead of {told}")
    told = [(str(tenant["cgroup_id"]), refusal["reason"], refusal["count"]) for tenant in tenants for refusal in tenant["refusals"]]
    found = [(labels["cgroup_id"], labels["reason"], value) for name, labels, value in samples
             if name == "userevd_refusals_total"]
    if found != told:
        wrong.append(f"refusals: {found} instead of {told}")
    build = [labels for name, labels, value in samples if name == "userevd_build_info" and value == 1]
    if build != [{"version": status["version"], "backend": status["backend"], "guard": "none"}]:
        wrong.append(f"build_info: {build}")
    return wrong


def check_form(text):
    lines = text.decode().split("\n")
    check("the text ends with # EOF", [] if lines[-2:] == ["# EOF", ""] and lines.count("# EOF") == 1 else lines[-3:])
    families = list(openmetrics.text_string_to_metric_families(text.decode()))
    check("each family has a type that the older format knows, too, and a help",
          [family.name for family in families if family.type not in ("gauge", "counter") or not family.documentation] +
          ([] if len(families) > 15 else ["there are hardly any"]))
    check("nothing has a time", [sample for family in families for sample in family.samples if sample.timestamp is not None])
    numbers = [(name, labels, value) for name, labels, value in samples_of(older, text)]
    check("the older parser reads the same samples", differences(numbers, parse(text)))
    check("no number is less than nothing, or none",
          [sample for sample in numbers if not sample[2] >= 0 or math.isinf(sample[2])])


def check_numbers():
    with running("DefaultMaxEvents=2\nDefaultMaxConnections=5\nDefaultMaxRequestsPerSecond=4/2\n", "--tenants=process") as daemon:
        text = daemon.ctl("metrics").stdout
        check_form(text)
        check("without tenants the numbers are those of userevctl status", compare(daemon, text))
        connections = [client(daemon, b"first", b"a u32 n", b"b u32 n", b"c u32 n", b"wrong long n", lost=3),
                       client(daemon, b"second", b"a u32 n")]
        connections += [client(daemon, b"second")]
        connections += [client(daemon, name) for name, _ in NAMES]
        check("eventually all of it is known", [] if eventually(lambda: daemon.json("status")["lost"] == 3) else daemon.json("status"))
        text = daemon.ctl("metrics").stdout
        check_form(text)
        check("with tenants the numbers are those of userevctl status and tenants", compare(daemon, text))
        samples = parse(text)
        check("there is something of everything that is compared",
              [name for name in ("refusals_total", "tenant_events", "tenant_events_max", "tenant_lost_records_total",
                                 "tenant_throttled_total") if not any(values(samples, name))])
        told = [f"process:{os.getpid()}:{label}" for _, label in NAMES]
        for kind, parser in (("OpenMetrics", openmetrics), ("the older format", older)):
            found = [labels["tenant"] for name, labels, _ in samples_of(parser, text) if name == "userevd_tenant_connections"]
            check(f"names that are meant to break the text don't, as {kind}", differences(found[2:], told))
        wrong = [char for char in text.decode() if char != "\n" and not char.isprintable()]
        check("nothing in it drives a terminal", wrong)
        check("the socket tells the same",
              differences([s for s in parse(read_all(daemon.metrics)) if "uptime" not in s[0]],
                          [s for s in samples if "uptime" not in s[0]]))
        for connection in connections:
            connection.close()


def check_cgroups():
    with running("[/]\nReserveEvents=5\nMaxConnections=77\n", "--capacity=1000") as daemon:
        with client(daemon, b"one", b"a u32 n"):
            text = daemon.ctl("metrics").stdout
            check("a tenant that is a cgroup has the numbers of userevctl tenants", compare(daemon, text))
            check("its reserve is there", [] if values(parse(text), "tenant_reserved_events") == [5] else [text.decode()])


# userevctl metrics --output

def check_file():
    with running() as daemon, tempfile.TemporaryDirectory() as directory:
        path = directory + "/userevd.prom"
        first = daemon.ctl("metrics", "--output=" + path)
        with open(path, "rb") as file:
            before = file.read()
        check("--output writes a file, and nothing else", [] if (first.returncode, first.stdout, first.stderr) == (0, b"", b"")
              and not parse(before) == [] else [first])
        mask = os.umask(0)
        os.umask(mask)
        mode = stat.S_IMODE(os.stat(path).st_mode)
        check("others may read it as any file that is made", [] if mode == 0o666 & ~mask else [oct(mode)])

        half, ended = [], threading.Event()

        def look():
            while not ended.is_set():
                with open(path, "rb") as file:
                    text = file.read()
                if not text.endswith(b"# EOF\n"):
                    half.append(text)

        reader = threading.Thread(target=look)
        reader.start()
        for _ in range(50):
            daemon.ctl("metrics", "--output=" + path)
        ended.set()
        reader.join()
        check("who reads it while it is replaced never sees half of it", half[:1])
        check("no other file is left", differences(os.listdir(directory), ["userevd.prom"]))
        check("a file that can't be written is exit status 1",
              [] if daemon.ctl("metrics", "--output=/nowhere/file").returncode == 1 else ["it is not"])
        daemon.end()
        gone = daemon.ctl("metrics", "--output=" + path)
        with open(path, "rb") as file:
            after = file.read()
        check("without a daemon the old file stays, and nothing beside it",
              [] if gone.returncode == 3 and after.endswith(b"# EOF\n") and os.listdir(directory) == ["userevd.prom"] else [gone])


# The socket.

CUT_OFF = "disconnected a reader of the metrics on"


def many_clients(daemon):
    """400 tenants, whose names become long."""
    return [client(daemon, b"\xff" * 11 + b"%d" % i) for i in range(400)]


def check_readers():
    with running("", "--tenants=process") as daemon:
        many = many_clients(daemon)
        whole = len(read_all(daemon.metrics))
        check("the text is longer than what a socket keeps", [] if whole > 400000 else [whole])

        texts = []
        readers = [threading.Thread(target=lambda: texts.append(read_all(daemon.metrics))) for _ in range(4 * READERS_MAX)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        check("many readers all get all of it",
              [len(text) for text in texts if not text.endswith(b"# EOF\n") or len(text) < whole - 1000] +
              ([] if len(texts) == len(readers) else [len(texts)]))

        leaver = connect(daemon.metrics, socket.SOCK_STREAM)
        leaver.recv(10000)
        leaver.close()
        check("one who leaves in the middle harms nobody", [] if read_all(daemon.metrics).endswith(b"# EOF\n") else ["it does"])
        talker = connect(daemon.metrics, socket.SOCK_STREAM)
        talker.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        check("who says something is told the same, and then the end",
              [] if rest_of(talker).endswith(b"# EOF\n") else ["it is not"])
        talker.close()

        idle = [connect(daemon.metrics, socket.SOCK_STREAM) for _ in range(READERS_MAX - 1)]
        for reader in idle:
            reader.recv(1)
        text = read_all(daemon.metrics)
        check("beside those who do not read there is room for one who does",
              [] if text.endswith(b"# EOF\n") and CUT_OFF not in daemon.log() else [daemon.log()])
        client(daemon, b"busy", b"busy u32 n").close()
        check("clients are answered meanwhile", [] if CUT_OFF not in daemon.log() else [daemon.log()])
        last = connect(daemon.metrics, socket.SOCK_STREAM)
        last.recv(1)
        text = read_all(daemon.metrics)
        check("one more waits, until one of those is cut off",
              [] if text.endswith(b"# EOF\n") and CUT_OFF in daemon.log() else [daemon.log()])
        check("and the log says it of each",
              [] if eventually(lambda: daemon.log().count(CUT_OFF) == READERS_MAX) else [daemon.log()])
        check("what they had not read by then is lost to them",
              [len(rest) for rest in (rest_of(reader) for reader in idle) if rest.endswith(b"# EOF\n")])
        for reader in [*idle, last]:
            reader.close()

        # Who is read of in some family, leaves, and comes back, must not be in it again.
        for kind in ("the metrics socket", "the control socket"):
            if kind == "the metrics socket":
                slow = connect(daemon.metrics, socket.SOCK_STREAM)
                text = slow.recv(10)
            else:
                slow = connect(daemon.control)
                slow.send(packet(138, b""))
                text = b""
            for connection in many:
                connection.close()
            check("all have left", [] if eventually(lambda: daemon.json("status")["tenants"] == 0) else [daemon.json("status")])
            many = many_clients(daemon)
            text += rest_of(slow) if kind == "the metrics socket" else rows_of(slow)
            slow.close()
            check(f"tenants that come back meanwhile are not there twice, on {kind}", doubles(text) or (
                [] if text.endswith(b"# EOF\n") and values(parse(text), "tenant_events") else [text[-100:]]))
            check("and are there the next time",
                  [] if len(values(parse(read_all(daemon.metrics)), "tenant_connections")) == 400 else ["they are not"])
        for connection in many:
            connection.close()


def rows_of(connection):
    """The text of a METRICS request."""
    pieces = []
    while True:
        message = connection.recv(131072)
        count, at = struct.unpack_from("<H", message, 16)[0], 20
        for _ in range(count):
            size, = struct.unpack_from("<I", message, at)
            # One string with the key "text".
            pieces.append(message[at + 4 + 4 + 4:at + 4 + size])
            at += 4 + size
        if not message[6] & 1:
            return b"".join(pieces)


def check_socket_file():
    with running() as daemon:
        mode = os.stat(daemon.metrics).st_mode
        check("the socket is for its user and group alone", [] if stat.S_IMODE(mode) == 0o660 else [oct(mode)])
        daemon.write_policy("[Daemon]\nMetricsSocket=/nowhere/else\n")
        reloaded = daemon.json("status")
        daemon.process.send_signal(signal.SIGHUP)
        check("a reload leaves it where it is", [] if eventually(lambda: "policy is loaded" in daemon.log()) and reloaded and
              read_all(daemon.metrics).endswith(b"# EOF\n") else [daemon.log()])
        waiting = connect(daemon.metrics, socket.SOCK_STREAM)
        status = daemon.end()
        waiting.close()
        check("at the end the socket's file is gone, and the directory that was made for it",
              [] if status == 0 and not os.path.exists(os.path.dirname(daemon.metrics)) else [status])
    with running() as daemon:
        daemon.end(signal.SIGKILL)
        if os.geteuid() == 0:
            check("also when the daemon is killed",
                  [] if eventually(lambda: not os.path.exists(os.path.dirname(daemon.metrics))) else ["it is there"])
    with running() as daemon:
        # The janitor of one that was killed may not have been there.
        other = Daemon(daemon.directory + "/policy", f"MetricsSocket={daemon.metrics}\n")
        check("where somebody listens already the daemon says so and goes without",
              [] if other.started and "another process listens there" in other.log() else [other.log()])
        other.end()
        check("and leaves it to whom it belongs", [] if read_all(daemon.metrics).endswith(b"# EOF\n") else ["it does not"])
    if os.geteuid() == 0:
        check_group()


def check_group():
    def as_nobody(path, group):
        return subprocess.run(["setpriv", "--reuid=65534", f"--regid={group}", "--clear-groups", sys.executable, "-c",
                               "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", path],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0

    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        os.mkdir(directory + "/made")
        os.chown(directory + "/made", 0, 4711)
        os.chmod(directory + "/made", 0o2755)
        daemon = Daemon(directory)
        check("the group of a directory that passes its own on may read", [] if as_nobody(daemon.metrics, 4711) else ["it may not"])
        check("nobody else may", ["somebody may"] if as_nobody(daemon.metrics, 65534) else [])
        daemon.end()


for part in (check_numbers, check_cgroups, check_file, check_readers, check_socket_file):
    try:
        part()
    except (ValueError, OSError):
        check(f"{part.__name__} comes to its end", [traceback.format_exc()])
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
