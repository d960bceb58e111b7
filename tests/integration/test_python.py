#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The Python client, beyond the behaviour of all clients (see tests/conformance): daemons that hang, refuse or send nonsense; threads,
# forks, files; functions and logs. Runs on the embedded backend, and in guests on the kernel's.

import array
import asyncio
import contextlib
import fcntl
import gc
import io
import json
import logging
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from running import Daemon, running, scratch_directory  # noqa: E402
from checks import TIMEOUT, TREE, check, eventually, sum_up  # noqa: E402

sys.path.insert(0, TREE + "/client/python")
import userev  # noqa: E402

# Much longer than one deadline, much shorter than many of them.
LONG = 30


def fields(tail):
    line = tail.next()
    return json.loads(line)["fields"] if line else "no record"


def differs(got, wanted):
    return None if got == wanted else f"{got} instead of {wanted}"


def open_fds():
    gc.collect()
    return sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}"))


def own_fds():
    """Of sockets, and of files received through them."""
    return [fd for fd in map(int, os.listdir("/proc/self/fd"))
            if any(kind in link_of(fd) for kind in ("socket:", "user_events", "memfd", "page"))]


def link_of(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""


@contextlib.contextmanager
def traced_by(daemon, *names):
    tail = daemon.tail("--wait", *names)
    try:
        yield tail
    finally:
        tail.end()


@contextlib.contextmanager
def connected(*names, options=(), **keywords):
    """A daemon, a tracer of these events if there are any, and a client."""
    with running(*options) as daemon, traced_by(daemon, *names) if names else contextlib.nullcontext() as tail:
        client = userev.Userev(daemon.socket, **{"deadline": LONG, "interval": 0.05, **keywords})
        yield daemon, tail, client
        client.close()


def expect(sentence, got, wanted):
    return check(sentence, differs(got, wanted))


def is_on(event):
    return eventually(lambda: event.enabled)


# Daemons. Clients find daemons that start later, or again: see tests/conformance.

def check_absent():
    with scratch_directory() as directory:
        daemon = Daemon(directory)
        client = userev.Userev(daemon.socket, deadline=LONG, interval=0.05)
        event = client.event("late u32 n")
        check("without a daemon an event is declared, and off", event.enabled or event.refusal or client.connected)
        check("… writing it has no effect", event.emit(1) or event(1))
        check("… there is no fd, and no answer is pending", client.fileno() != -1 or client.poll())
        daemon.start()
        check("a daemon that starts later is found by tests of the event",
              not eventually(lambda: not event.enabled and event.is_registered))
        daemon.stop(signal.SIGKILL)
        check("no call raises after the daemon was killed", [None for _ in range(100) if event(8) and event.emit(9) == "never"])
        client.close()


def fill_queue(path):
    """Connects until the queue is full; the connections are not accepted."""
    waiting = []
    with contextlib.suppress(BlockingIOError):
        while True:
            waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK))
            waiting[-1].connect(path)
    return waiting


def check_full_queue():
    with scratch_directory() as directory:
        path = directory + "/full.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, contextlib.ExitStack() as stack:
            listener.bind(path)
            listener.listen(1)
            for end in fill_queue(path):
                stack.enter_context(end)
            client = userev.Userev(path, deadline=0, interval=1000)
            client.event("queued u32 n")
            check("a daemon whose queue is full is tried again soon", client.next_look - time.monotonic() > 100)
            client.close()


def check_hanging():
    with connected(deadline=2) as (daemon, _, client):
        daemon.process.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        events = [client.event(f"hanging_{i} u32 n") for i in range(100)]
        check("declaring many events at a stopped daemon takes one deadline", time.monotonic() - begin > LONG)
        begin = time.monotonic()
        check("… emitting them does not wait", [event for _ in range(100) for event in events if event(1)] or time.monotonic() - begin > LONG)
        daemon.process.send_signal(signal.SIGCONT)
        check("all events are registered after the daemon continues",
              not eventually(lambda: not any(e.enabled for e in events) and all(e.is_registered for e in events)))
        with traced_by(daemon, "hanging_99"):
            check("… and can be enabled", not is_on(events[99]))


def is_granted(client, description):
    event = client.event(description)
    if not event.is_registered:
        event.release()
    return event.is_registered


def check_refusing():
    with scratch_directory() as policy, open(policy + "/1.conf", "w", encoding="utf-8") as file:
        file.write("[Daemon]\nDefaultMaxConnections=1\nDefaultMaxEvents=2\n")
        file.flush()
        with connected(options=(f"--policy={policy}",), interval=1.0) as (daemon, _, client):
            events = [client.event(f"greedy_{i} u32 n") for i in range(3)]
            refusal = events[2].refusal
            check("a refusal has a reason and a sentence", differs(refusal and refusal.reason, "quota-exceeded") or not refusal.sentence)
            check("… other events are granted", [event.refusal for event in events[:2] if event.refusal])
            check("… the refused event is off", events[2].enabled or events[2].emit(1))
            other = userev.Userev(daemon.socket, deadline=LONG)
            event = other.event("another u32 n")
            check("a refused connection has a reason",
                  differs(other.refusal and other.refusal.reason, "too-many-connections") or event.enabled)
            for given in events:
                given.release()
            check("after the release of all events a new one is granted", not eventually(lambda: is_granted(client, "greedy_3 u32 n")))
            client.close()
            check("a refused connection is made when there is room",
                  not eventually(lambda: other.poll(0.1) or event.enabled) and other.refusal)
            other.close()


def check_bad_values():
    with connected("values") as (_, tail, client):
        event = client.event("values u8 n; __rel_loc char[] text")
        is_on(event)
        wrong = [(256, ""), (-1, ""), ("x", ""), (None, ""), (1.5, ""), (1,), (1, "", ""), (1, None), (1, [1, 2])]
        check("wrong values raise nothing, and are not written", [values for values in wrong if event.emit(*values)])
        check("… the event's problem names the event", not event.problem or "values" not in event.problem)
        expect("… and the field", [event.emit(*values) or event.problem.split(": ")[1] for values in ((256, ""), (1, None), (1, [1]))],
               ["n", "text", "text"])
        expect("… or the number of values", event.emit(1) or event.problem, "values: 1 values for 2 fields (n, text)")
        check("… for values by name, too", event.emit(1, text=None) or "values: text: " not in event.problem)
        check("… until values are right again", not event.emit(0, "right") or differs(fields(tail)["text"], "right") or event.problem)
        check("wrong names raise nothing", event.emit(1, text="", other=1) or event.emit(text="") or event.emit(1, n=1))
        for values, named, record in [((), {"text": "a", "n": 1}, {"n": 1, "text": "a"}), ((2,), {"text": "b"}, {"n": 2, "text": "b"}),
                                      ((3, "a\ud800"), {}, {"n": 3, "text": "a\\ud800"}), ((4, bytearray(b"xyz")), {}, {"n": 4, "text": "xyz"})]:
            check(f"values {values} {named} are written as {record}", not event.emit(*values, **named) or differs(fields(tail), record))
        expect("float_bits and double_bits are those of IEEE 754",
               (userev.float_bits(1.5), userev.double_bits(-2.0)), (0x3fc00000, 0xc000000000000000))


# A daemon that sends invalid packets.

def packet(kind, serial, body, streams=()):
    head = struct.pack("<IHBBII", 16 + 4 * len(streams) + len(body), kind, 0, len(streams), serial, 0)
    return head + struct.pack(f"<{len(streams)}I", *streams) + body


def welcome(**changes):
    numbers = {"features": 0, "page_bytes": 4096, "page_bits": 32768, "payload_max": 4064, "packet_max": 131072, "batch_max": 512,
               "events_max": 9, "backend": 1, "tenant": 1, "zero": 0, **changes}
    return struct.pack("<QIIIIIIHHI", *numbers.values()) + b"/"


def registered(bit=8, stream=1, count=1):
    return struct.pack("<HH", count, 0) + struct.pack("<HHIII", 0, 0, bit, stream, 0)


class FakeDaemon:
    """Answers the first two requests with these packets and files."""

    def __init__(self, directory, first, first_files, second, second_files):
        self.path = directory + "/fake"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen()
        self.answers = [(first, first_files), (second, second_files)]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            connection, _ = self.listener.accept()
            with connection:
                for data, kinds in self.answers:
                    connection.recv(131072)
                    self.answer(connection, data, kinds)
                connection.recv(131072)

    @staticmethod
    def answer(connection, data, kinds):
        with contextlib.ExitStack() as stack:
            fds = [stack.enter_context(FILES[kind]()).fileno() for kind in kinds]
            control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            connection.sendmsg([data], control)

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(TIMEOUT)


@contextlib.contextmanager
def client_of_fake(directory, *answers, deadline=LONG):
    fake = FakeDaemon(directory, *answers)
    client = userev.Userev(fake.path, deadline=deadline)
    yield client
    client.close()
    fake.end()


def page_file(size=4096, seals=2, mode=0o777):
    file = os.fdopen(os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "wb")
    file.write(bytes([254]) + bytes([255]) * (size - 1))  # where it is mapped, everything is on, and it is not abandoned
    file.flush()
    os.fchmod(file.fileno(), mode)
    fcntl.fcntl(file.fileno(), 1033, seals)  # F_ADD_SEALS: 2 is F_SEAL_SHRINK
    return file


def disk_file():
    file = tempfile.TemporaryFile()
    file.write(bytes([255]) * 4096)
    file.flush()
    return file


def stream_file(blocking=False):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(blocking)
    theirs.close()
    return ours


def pipe_file():
    ours, theirs = os.pipe()
    os.close(theirs)
    return os.fdopen(ours, "rb")


FILES = {"page": page_file, "short": lambda: page_file(100), "empty": lambda: page_file(0), "disk": disk_file,
         "loose": lambda: page_file(seals=0), "own": lambda: page_file(seals=0, mode=0o644), "stream": stream_file, "blocking": lambda: stream_file(True),
         "pipe": pipe_file}
GOOD = (packet(2, 1, welcome()), ["page"], packet(4, 2, registered(), [1]), ["stream"])


def invalid_answers():
    first, first_files, second, second_files = GOOD
    for name, data, files in [
            ("no page", first, []), ("two pages", first, ["page", "page"]), ("a page that is too short", first, ["short"]),
            ("a page that is empty", first, ["empty"]), ("a page that is a pipe", first, ["pipe"]), ("a short WELCOME", first[:30], ["page"]), ("only a header", first[:16], ["page"]),
            ("half a header", first[:7], []), ("a wrong kind", packet(4, 1, welcome()), ["page"]), ("a wrong serial", packet(2, 7, welcome()), ["page"]),
            ("bits beyond the page", packet(2, 1, welcome(page_bits=32769)), ["page"]), ("a page without bytes", packet(2, 1, welcome(page_bytes=0, page_bits=0)), ["page"]),
            ("batches without events", packet(2, 1, welcome(batch_max=0)), ["page"]), ("packets without room", packet(2, 1, welcome(packet_max=0)), ["page"]),
            ("a tenant longer than the packet", packet(2, 1, welcome(tenant=9)), ["page"]), ("a wrong size", first + b"x", ["page"])]:
        yield f"WELCOME: {name}", data, files, second, second_files
    for name, data, files in [
            ("bit 0", packet(4, 2, registered(bit=0), [1]), ["stream"]), ("a bit beyond the page", packet(4, 2, registered(bit=32768), [1]), ["stream"]),
            ("an unknown stream", packet(4, 2, registered(stream=2), [1]), ["stream"]), ("no file", second, []),
            ("two files", second, ["stream", "stream"]), ("a stream that blocks writers", second, ["blocking"]),
            ("a stream that is a pipe", second, ["pipe"]), ("two answers for one", packet(4, 2, registered(count=2), [1]), ["stream"]),
            ("no answer", packet(4, 2, struct.pack("<HH", 0, 0), [1]), ["stream"]), ("a short answer", second[:-1], ["stream"]),
            ("nine streams", packet(4, 2, registered(), range(9)), ["stream"])]:
        yield f"REGISTERED: {name}", first, first_files, data, files


def is_page_accepted(kind):
    """1 if a program accepts such a page although neither it nor the daemon runs as root; 2 if the program crashed."""
    with scratch_directory() as directory:
        if os.getuid() == 0:
            os.chown(directory, 65534, 65534)
        child = os.fork()
        if child == 0:
            try:
                if os.getuid() == 0:
                    tempfile.tempdir = directory
                    os.setresuid(65534, 65534, 65534)
                with client_of_fake(directory, GOOD[0], [kind], *GOOD[2:]) as client:
                    status = int(client.event("true u32 n").enabled)
            except BaseException:
                traceback.print_exc()
                status = 2
            os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_pages():
    for kind, wanted in {"page": True, "own": True, "loose": False, "disk": False}.items():
        expect(f"a page of kind '{kind}' is {'accepted' if wanted else 'refused'} from another user's daemon", is_page_accepted(kind), int(wanted))


def check_invalid_answers():
    with scratch_directory() as directory:
        for name, *answers in invalid_answers():
            before = open_fds()
            with client_of_fake(directory, *answers) as client:
                event = client.event("invalid u32 n")
                problem = event.enabled or event.is_registered
            check(f"{name}: the event stays off, and no file is left open", problem or differs(open_fds(), before))
        with client_of_fake(directory, *GOOD) as client:
            check("(with valid answers it is on)", not client.event("true u32 n").enabled)
        check_noise(directory)


def check_noise(directory):
    chance, seed = random.Random(), random.randrange(1 << 30)
    chance.seed(seed)
    problem = None
    for _ in range(150):
        first, second = (bytearray(GOOD[at]) for at in (0, 2))
        for data in (first, second):
            for _ in range(chance.randrange(3)):
                data[chance.randrange(len(data))] = chance.randrange(256)
        with client_of_fake(directory, bytes(first), ["page"], bytes(second), ["stream"], deadline=0.2) as client:
            try:
                event = client.event("noise u32 n")
                event(1)
                client.poll()
            except Exception:
                problem = f"seed {seed}: {traceback.format_exc()}"
    check("packets with some wrong bytes raise nothing", problem)


# Files, forks, threads.

def check_files():
    before = open_fds()
    with connected("file_*") as (_, tail, client):
        events = [client.event(f"file_{i} u32 n") for i in range(3)]
        fds = own_fds()
        check("the client has a socket and a stream", len(fds) < 2)
        check("all of its fds are close-on-exec", [link_of(fd) for fd in fds if not fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC])
        for event in events:
            event.release()
        check("a stream is closed with its last event", not eventually(lambda: client.poll(0.1) and len(own_fds()) < len(fds)))
        again = client.event("file_0 u32 n")
        check("the next event has a stream", not is_on(again) or not again.emit(1) or differs(fields(tail), {"n": 1}))
        check("tenant and backend are known", client.tenant is None or client.backend not in ("embedded", "status-page", "enable-address"))
        client.close()
        del again, event, events
    del client
    expect("closing the client closes all files", open_fds(), before)


def check_reused_fds(which):
    """As a program that becomes a daemon: closes all fds, and opens other files with the same numbers."""
    with connected("stolen") as (_, tail, client), tempfile.TemporaryDirectory() as directory:
        event = client.event("stolen u32 n")
        is_on(event)
        for fd in own_fds() if which == "all fds" else [event.place.stream.fd]:
            with open(f"{directory}/{fd}", "wb") as file:
                os.dup2(file.fileno(), fd)
        time.sleep(0.2)
        client.poll(LONG)
        check(f"the client notices that the program has reused {which}", not is_on(event) or not event.emit(5))
        expect("… and has new ones", fields(tail), {"n": 5})
        sizes = {name: os.stat(f"{directory}/{name}").st_size for name in os.listdir(directory)}
        check("… no record was written to the program's files", [name for name, size in sizes.items() if size] or not sizes)
        check("… the program's files are open", [name for name in sizes if link_of(int(name)) != f"{directory}/{name}"])
        for name in sizes:
            os.close(int(name))


def check_fork():
    with connected("forked") as (daemon, tail, client):
        event = client.event("forked u32 who; u32 n")
        is_on(event)
        may_end, parents_end = os.pipe()
        child = os.fork()
        if child == 0:
            ok = event.emit(2, 1) and eventually(lambda: client.poll(0.1)) and event.emit(2, 2) and os.read(may_end, 1)
            os._exit(0 if ok else 1)
        check("a child makes a connection of its own", not eventually(lambda: daemon.json("status")["connections"] == 2))
        os.write(parents_end, b"x")
        os.close(may_end)
        os.close(parents_end)
        status = os.waitpid(child, 0)[1]
        check("… it writes before and after that", status)
        expect("… and is read", [fields(tail), fields(tail)], [{"who": 2, "n": 1}, {"who": 2, "n": 2}])
        check("the parent's connection is unchanged", not client.poll(LONG) or not event.emit(1, 1))
        expect("… and its event, too", fields(tail), {"who": 1, "n": 1})


def check_threads():
    with connected("threads", deadline=0.1, interval=0.01) as (_, tail, client):
        raised = []

        def work(who):
            try:
                event = client.event("threads u32 who; u32 n")
                is_on(event)
                for n in range(200):
                    while not event.emit(who, n):
                        time.sleep(0.001)
                    client.event(f"thread_{who}_{n % 7} u32 n").release()
            except Exception:
                raised.append(traceback.format_exc())

        threads = [threading.Thread(target=work, args=(who,)) for who in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check("threads declare, write and release at the same time without an exception", raised)
        read = [fields(tail) for _ in range(1600)]
        expect("… every record is read", sorted((r["who"], r["n"]) for r in read if r != "no record"),
               [(who, n) for who in range(8) for n in range(200)])


def check_signals():
    """A signal handler that uses events while the program is inside the module."""
    with connected(deadline=0.1, interval=0.001) as (_, _, client):
        count = [0]

        def handler(_number, _frame):
            count[0] += 1
            client.event(f"signal_{count[0] % 50} u32 n")(1)
            client.poll(0.01)
            signal.setitimer(signal.ITIMER_REAL, 0.001)

        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        for i in range(400):
            client.event(f"main_{i % 50} u32 n")(1)
            if i % 10 == 0:
                client.event(f"main_{i % 50} u32 n").release()
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        check("a signal handler may use events at any time", not count[0])
        check("… and all of them are registered in the end",
              not eventually(lambda: client.poll(0.1) and all(client.event(f"signal_{i} u32 n").is_registered for i in range(50))))


def check_losses():
    with connected("flood", interval=0.01) as (daemon, tail, client):
        event = client.event("flood u32 n; __rel_loc char[] text")
        is_on(event)
        check("a record that is too big is lost and counted", event.emit(0, "x" * 5000) or event.emit(0, "x" * 100000) or client.too_big != 2)
        if client.backend == "embedded":
            daemon.process.send_signal(signal.SIGSTOP)
            written = sum(event.emit(n, "x" * 1000) for n in range(5000))
            check("records are lost and counted while the queue is full", written + client.queue_full != 5000 or not client.queue_full)
            daemon.process.send_signal(signal.SIGCONT)
            check("… the others are read", [n for n in range(written) if fields(tail) == "no record"])
            check("… and the losses are reported to the daemon", not eventually(lambda: event(1, "") is None or (
                daemon.json("status")["lost"], daemon.json("status")["too_big"]) == (client.queue_full, 2)))


# Functions and logs.

def check_functions():
    with connected("shop_*", "*_nested_*") as (_, tail, client):
        @userev.traced("shop_handle", userev=client)
        def handle(a, b=2):
            """About it."""
            return a / b

        @userev.traced(userev=client)
        async def nested(a):
            await asyncio.sleep(0)
            return a

        names = "__main___check_functions__locals__nested"
        for name in ("shop_handle", names):
            is_on(client.event(f"{name}_exit u64 duration; __rel_loc char[] exception"))
        expect("a traced function returns its result", (handle(6), handle(6, b=3), handle.__name__, handle.__doc__),
               (3, 2, "handle", "About it."))
        raised = None
        try:
            handle(1, b=0)
        except ZeroDivisionError as error:
            raised = error
        check("… raises its exception", not raised)
        records = [json.loads(tail.next() or "{}") for _ in range(6)]
        expect("… and has an event at its entry and its exit", [(n.get("event"), n["fields"].get("exception")) for n in records],
               [("shop_handle_entry", None), ("shop_handle_exit", "")] * 2 +
               [("shop_handle_entry", None), ("shop_handle_exit", "ZeroDivisionError")])
        check("… with its duration", not 0 < records[1]["fields"]["duration"] < 10 ** 12)
        expect("a traced coroutine returns its result", asyncio.run(nested(5)), 5)
        expect("… and has its own names", [json.loads(tail.next() or "{}").get("event") for _ in range(2)], [f"{names}_entry", f"{names}_exit"])


class Counting:
    """Counts its conversions to text."""

    count = 0

    def __str__(self):
        Counting.count += 1
        return "counted"


def check_logs():
    with connected() as (daemon, _, client):
        logger = logging.getLogger("shop.orders")
        logger.propagate = False
        logger.setLevel(logging.DEBUG)
        handler = userev.Handler("shop_log", userev=client)
        logger.addHandler(handler)
        logger.error("%s", Counting())
        check("a log record is not formatted while its event is off", Counting.count)
        with traced_by(daemon, "shop_log") as tail:
            is_on(handler.event)
            logger.warning("%s and %d", Counting(), 3)
            record = fields(tail)
            check("a log record is an event with its line", record.pop("line") <= 0)
            expect("… and all of its parts", record, {"level": 30, "logger": "shop.orders", "function": "check_logs", "message": "counted and 3",
                                                      "traceback": ""})
            try:
                raise ValueError("no")
            except ValueError:
                logger.exception("ö" * 5000)
            record = fields(tail)
            expect("a long message is truncated at the end of a character", record["message"], "ö" * 900)
            check("… and has its traceback", "ValueError: no" not in record["traceback"])
            with contextlib.redirect_stderr(io.StringIO()) as said:
                logger.error("%d", "no number")
            check("logging itself reports a message that cannot be formatted", "Logging error" not in said.getvalue())


def asked(process):
    """Sends a line to a program, and returns its reply."""
    print("go", file=process.stdin)
    return process.stdout.readline().strip()


def check_programs():
    """The default connection, with its socket from the environment."""
    program = """
import signal, sys, userev
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
request = userev.event("shop_request u32 status; u64 ns; __rel_loc char[] path")
assert userev.event("shop_request u32 status; u64 ns; __rel_loc char[] path") is request
print("ready", flush=True)
for line in sys.stdin:
    print(request(404, 4000, "/"), flush=True)
"""
    with running() as daemon:
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                   env={**daemon.environment, "PYTHONPATH": TREE + "/client/python", "USEREV_DEBUG": "1"},
                                   stderr=subprocess.PIPE)
        process.stdout.readline()
        with traced_by(daemon, "shop_request") as tail:
            check("a program declares its event in one line", not eventually(lambda: asked(process) == "True"))
            expect("… and its record is read", fields(tail), {"status": 404, "ns": 4000, "path": "/"})
        daemon.stop(signal.SIGKILL)
        for _ in range(20):
            asked(process)
        said = process.communicate()[1]
        check("it exits with 0 although its daemon was killed", process.returncode)
        check("… USEREV_DEBUG has printed the reason if its event was off", said and "userev:" not in said)
    pure = subprocess.run([sys.executable, "-S", "-I", "-c", f"import sys; sys.path.append({TREE + '/client/python'!r}); import userev"],
                          check=False)
    check("the module depends only on the standard library", pure.returncode)


for part in (check_absent, check_full_queue, check_hanging, check_refusing, check_bad_values, check_pages, check_invalid_answers, check_files,
             lambda: check_reused_fds("all fds"), lambda: check_reused_fds("a stream's fd"), check_fork, check_threads,
             check_signals, check_losses, check_functions, check_logs, check_programs):
    try:
        part()
    except Exception:
        check("a part of the tests ends without an exception", traceback.format_exc())
sum_up()
