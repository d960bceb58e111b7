#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# Metrics: parsers of OpenMetrics and of the older text format read the text of a daemon whose tenants have hostile names; and
# slow readers, and readers that leave, delay no other. (Not by env: the parsers are a package of the system's python.)

import contextlib
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
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import running as running_daemons  # noqa: E402
from running import client, connect, packet, scratch_directory  # noqa: E402
from checks import check, eventually, sum_up  # noqa: E402

try:
    from prometheus_client import parser as older
    from prometheus_client.openmetrics import parser as openmetrics
except ImportError:
    print("0 passed, 0 failed, 1 skipped: metrics need python3-prometheus-client")
    sys.exit(0)

TIMEOUT, READERS_MAX = 4, 8


# A daemon, and its clients.

class Daemon(running_daemons.Daemon):
    def __init__(self, directory, policy="", *options):
        super().__init__(directory, "--backend=embedded", f"--client-timeout={TIMEOUT}", f"--policy={directory}/policy", *options)
        self.metrics = directory + "/made/metrics"
        os.makedirs(directory + "/policy", exist_ok=True)
        self.write_policy(f"[Daemon]\nMetricsSocket={self.metrics}\nMetricsTenants=yes\n{policy}")

    def write_policy(self, text):
        with open(self.directory + "/policy/1.conf", "w", encoding="utf-8") as file:
            file.write(text)

    def text(self):
        return self.ctl("metrics").stdout.encode()

    def read(self):
        with connect(self.metrics, socket.SOCK_STREAM) as connection:
            return rest_of(connection)


@contextlib.contextmanager
def running(policy="", *options):
    with scratch_directory() as directory:
        daemon = Daemon(directory, policy, *options)
        if not daemon.start():
            raise OSError(daemon.log())
        try:
            yield daemon
        finally:
            if daemon.process:
                daemon.stop()


def is_complete(text):
    return text.endswith(b"# EOF\n")


def expect(sentence, true, shown="it is not so"):
    check(sentence, "" if true else [shown])


# The text.

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


def is_of_time(name):
    """Others are the same while nothing happens but that they are read."""
    return "uptime" in name or "request_seconds" in name


def differences(a, b):
    return [f"{x} instead of {y}" for x, y in zip(a, b) if x != y] + (
        [f"{len(a)} instead of {len(b)}"] if len(a) != len(b) else [])


# Names that clients can choose, and the labels that are read.
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
             "in_flight": "tenant_fds_in_flight", "muted": "tenant_muted", "blocked": "tenant_blocked"}


def compare(daemon, text):
    """The differences between the metrics and the JSON of userevctl."""
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
             if name == "userevd_tenant_refusals_total"]
    if found != told:
        wrong.append(f"refusals: {found} instead of {told}")
    build = [labels for name, labels, value in samples if name == "userevd_build_info" and value == 1]
    if build != [{"version": status["version"], "backend": status["backend"], "guard": "none"}]:
        wrong.append(f"build_info: {build}")
    return wrong


def check_form(text):
    lines = text.decode().split("\n")
    expect("the text ends with # EOF", lines[-2:] == ["# EOF", ""] and lines.count("# EOF") == 1, lines[-3:])
    families = list(openmetrics.text_string_to_metric_families(text.decode()))
    check("each family has a type that the older format knows, too, and a help",
          [family.name for family in families if family.type not in ("gauge", "counter", "histogram") or not family.documentation] +
          ([] if len(families) > 15 else ["there are hardly any"]))
    check("no sample has a timestamp", [sample for family in families for sample in family.samples if sample.timestamp is not None])
    numbers = [(name, labels, value) for name, labels, value in samples_of(older, text)]
    check("the older parser reads the same samples", differences(numbers, parse(text)))
    check("each number is finite, and not negative",
          [sample for sample in numbers if not sample[2] >= 0 or math.isinf(sample[2])])


def check_numbers():
    with running("DefaultMaxEvents=2\nDefaultMaxConnections=5\nDefaultMaxRequestsPerSecond=4/2\n", "--tenants=process") as daemon:
        text = daemon.text()
        check_form(text)
        check("without tenants the numbers are those of userevctl status", compare(daemon, text))
        connections = [client(daemon, b"first", b"a u32 n", b"b u32 n", b"c u32 n", b"wrong long n", lost=3),
                       client(daemon, b"second", b"a u32 n")]
        connections += [client(daemon, b"second")]
        connections += [client(daemon, name) for name, _ in NAMES]
        expect("eventually all of it is known", eventually(lambda: daemon.json("status")["lost"] == 3), daemon.json("status"))
        text = daemon.text()
        check_form(text)
        check("with tenants the numbers are those of userevctl status and tenants", compare(daemon, text))
        samples = parse(text)
        check("each kind of number that is compared is there",
              [name for name in ("tenant_refusals_total", "tenant_events", "tenant_events_max", "tenant_lost_records_total",
                                 "tenant_throttled_total") if not any(values(samples, name))])
        told = [f"process:{os.getpid()}:{label}" for _, label in NAMES]
        for kind, parser in (("OpenMetrics", openmetrics), ("the older format", older)):
            found = [labels["tenant"] for name, labels, _ in samples_of(parser, text) if name == "userevd_tenant_connections"]
            check(f"hostile names do not break the text, as {kind}", differences(found[2:], told))
        wrong = [char for char in text.decode() if char != "\n" and not char.isprintable()]
        check("no control character is in it", wrong)
        check("the socket has the same text",
              differences([s for s in parse(daemon.read()) if not is_of_time(s[0])], [s for s in samples if not is_of_time(s[0])]))
        for connection in connections:
            connection.close()


def check_cgroups():
    with running("[/]\nReserveEvents=5\nMaxConnections=77\n", "--capacity=1000") as daemon:
        with client(daemon, b"one", b"a u32 n"):
            text = daemon.text()
            check("a tenant that is a cgroup has the numbers of userevctl tenants", compare(daemon, text))
            expect("its section counts it", [labels["section"] for name, labels, value in parse(text)
                                             if name == "userevd_section_events" and value == 1] == ["/"], text.decode())
            expect("its reserve is there", values(parse(text), "tenant_reserved_events") == [5], text.decode())
            expect("it is muted", daemon.ctl("mute", daemon.json("tenants")[0]["tenant"]).returncode == 0)
            text = daemon.text()
            check("a muted tenant has the numbers of userevctl tenants", compare(daemon, text))
            expect("one is for being muted", values(parse(text), "tenant_muted") == [1], text.decode())


# userevctl metrics --output

def check_file():
    with running() as daemon, tempfile.TemporaryDirectory() as directory:
        path = directory + "/userevd.prom"

        def content():
            with open(path, "rb") as file:
                return file.read()

        first = daemon.ctl("metrics", "--output=" + path)
        expect("--output writes a file, and nothing else", (first.returncode, first.stdout, first.stderr) == (0, "", "")
               and parse(content()), first)
        mask = os.umask(0)
        os.umask(mask)
        mode = stat.S_IMODE(os.stat(path).st_mode)
        expect("the file has the usual mode", mode == 0o666 & ~mask, oct(mode))

        half, ended = [], threading.Event()

        def look():
            while not ended.is_set():
                half.extend([] if is_complete(text := content()) else [text])

        reader = threading.Thread(target=look)
        reader.start()
        for _ in range(50):
            daemon.ctl("metrics", "--output=" + path)
        ended.set()
        reader.join()
        check("readers never see half of a file that is replaced", half[:1])
        check("no other file is left", differences(os.listdir(directory), ["userevd.prom"]))
        expect("a file that can't be written is exit status 1", daemon.ctl("metrics", "--output=/nowhere/file").returncode == 1)
        daemon.stop()
        gone = daemon.ctl("metrics", "--output=" + path)
        expect("without a daemon the old file stays, and nothing beside it",
               gone.returncode == 3 and is_complete(content()) and os.listdir(directory) == ["userevd.prom"], gone)


# The socket.

DISCONNECTED = "disconnected a reader of the metrics on"


def many_clients(daemon):
    """400 tenants, whose names become long."""
    return [client(daemon, b"\xff" * 11 + b"%d" % i) for i in range(400)]


def check_many_readers(daemon, whole):
    texts = []
    readers = [threading.Thread(target=lambda: texts.append(daemon.read())) for _ in range(4 * READERS_MAX)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    check("many readers all get all of the text", [len(text) for text in texts if not is_complete(text) or len(text) < whole - 1000] +
          ([] if len(texts) == len(readers) else [len(texts)]))
    with connect(daemon.metrics, socket.SOCK_STREAM) as leaver:
        leaver.recv(10000)
    expect("a reader that leaves early does not affect others", is_complete(daemon.read()))
    with connect(daemon.metrics, socket.SOCK_STREAM) as talker:
        talker.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        expect("a reader that sends a request gets the text, and the end", is_complete(rest_of(talker)))


def check_slow_readers(daemon):
    idle = [connect(daemon.metrics, socket.SOCK_STREAM) for _ in range(READERS_MAX - 1)]
    for reader in idle:
        reader.recv(1)
    expect("beside idle readers there is room for one more", is_complete(daemon.read()) and DISCONNECTED not in daemon.log(), daemon.log())
    client(daemon, b"busy", b"busy u32 n").close()
    expect("clients are answered meanwhile", DISCONNECTED not in daemon.log(), daemon.log())
    idle.append(connect(daemon.metrics, socket.SOCK_STREAM))
    idle[-1].recv(1)
    expect("the next reader waits until an idle one is disconnected", is_complete(daemon.read()) and DISCONNECTED in daemon.log(), daemon.log())
    expect("each disconnection is logged", eventually(lambda: daemon.log().count(DISCONNECTED) == READERS_MAX), daemon.log())
    check("a disconnected reader gets no more", [len(rest) for rest in map(rest_of, idle[:-1]) if is_complete(rest)])
    for reader in idle:
        reader.close()


def check_tenants_that_come_back(daemon, many):
    """A tenant that ends and comes back while its family is being read must not be in it again."""
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
        expect("all have left", eventually(lambda: daemon.json("status")["tenants"] == 0), daemon.json("status"))
        many = many_clients(daemon)
        text += rest_of(slow) if kind == "the metrics socket" else rows_of(slow)
        slow.close()
        check(f"tenants that come back meanwhile are not there twice, on {kind}", doubles(text) or (
            [] if is_complete(text) and values(parse(text), "tenant_events") else [text[-100:]]))
        expect("and are there the next time", len(values(parse(daemon.read()), "tenant_connections")) == 400)
    return many


def check_readers():
    with running("", "--tenants=process") as daemon:
        many = many_clients(daemon)
        whole = len(daemon.read())
        expect("the text is longer than the buffer of a socket", whole > 400000, whole)
        check_many_readers(daemon, whole)
        check_slow_readers(daemon)
        for connection in check_tenants_that_come_back(daemon, many):
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
        mode = stat.S_IMODE(os.stat(daemon.metrics).st_mode)
        expect("the socket is for its user and group alone", mode == 0o660, oct(mode))
        daemon.write_policy("[Daemon]\nMetricsSocket=/nowhere/else\n")
        daemon.process.send_signal(signal.SIGHUP)
        expect("a reload leaves it where it is", eventually(lambda: "policy is loaded" in daemon.log()) and is_complete(daemon.read()),
               daemon.log())
        with connect(daemon.metrics, socket.SOCK_STREAM):
            daemon.stop()
        expect("at the end the socket's file is removed, and the directory that was made for it stays",
               not os.path.exists(daemon.metrics) and os.path.isdir(os.path.dirname(daemon.metrics)))
    with running() as daemon:
        daemon.stop(signal.SIGKILL)
        if os.geteuid() == 0:
            expect("also when the daemon is killed", eventually(lambda: not os.path.exists(daemon.metrics)))
    with running() as daemon:
        other = Daemon(daemon.directory + "/policy", f"MetricsSocket={daemon.metrics}\n")
        expect("a daemon whose socket is in use logs that, and runs without it",
               other.start() and "another process listens there" in other.log(), other.log())
        other.stop()
        expect("and leaves it to its owner", is_complete(daemon.read()))
    if os.geteuid() == 0:
        check_group()


def check_group():
    def as_nobody(path, group):
        return subprocess.run(["setpriv", "--reuid=65534", f"--regid={group}", "--clear-groups", sys.executable, "-c",
                               "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])", path],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0

    with scratch_directory() as directory:
        os.mkdir(directory + "/made")
        os.chown(directory + "/made", 0, 4711)
        os.chmod(directory + "/made", 0o2755)
        daemon = Daemon(directory)
        daemon.start()
        expect("the group of a set-group-ID directory may read", as_nobody(daemon.metrics, 4711))
        expect("other users may not", not as_nobody(daemon.metrics, 65534))
        daemon.stop()


for part in (check_numbers, check_cgroups, check_file, check_readers, check_socket_file):
    try:
        part()
    except (ValueError, OSError):
        check(f"{part.__name__} comes to its end", [traceback.format_exc()])
sum_up()
