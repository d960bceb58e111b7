# SPDX-License-Identifier: GPL-2.0-or-later
"""The life of a daemon: start, requests of three tenants, granted and refused, records, listings, switches and a reload by an admin, and
the end. Any of the daemon's calls may fail meanwhile. A client that is refused or disconnected continues as far as possible; only a
violated guarantee is Broken."""

import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from checks import BUILD, TIMEOUT, TREE  # noqa: E402
from plan import VICTIMS  # noqa: E402

sys.path.insert(0, os.path.join(TREE, "client/python"))
from userev import packets  # noqa: E402
from userev.files import File, map_page  # noqa: E402

SHORT = 0.3  # timeout of an answer, during a permanent fault
QUERY, ACCOUNT, WATCH, WATCHING = 7, 8, 9, 10
FEATURES = 7  # all of them
PR_SET_NAME = 15
POLICY = """[Daemon]
MetricsSocket={metrics}
DefaultMaxEvents=4
"""
CLEAN_EXITS = (os.EX_OK, 1, os.EX_CONFIG)
# Numbers of userevctl status that return to zero.
COUNTED = ("connections", "tenants", "events", "leases", "lingering", "streams", "charges")
BAD_WORDS = ("AddressSanitizer", "LeakSanitizer", "runtime error:", "Assertion", "(libev)")


class Broken(Exception):
    """A guarantee was violated."""


class GaveUp(Exception):
    """No answer during a permanent fault."""


def be(name):
    """With --tenants=process a tenant is a process with its name, so one process can be several tenants."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def until(condition, timeout):
    end = time.monotonic() + timeout
    while not (result := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return result


class Client:
    """A connection. After its end nothing is sent, and each answer is None."""

    def __init__(self, daemon, name, timeout):
        be(name)
        self.daemon, self.name, self.timeout, self.serial = daemon, name, timeout, 0
        self.page, self.streams, self.events, self.heard = None, {}, {}, []
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(SHORT)
        try:
            self.socket.connect(daemon.socket)
        except OSError:
            self.close()

    def close(self):
        if self.socket:
            self.socket.close()
        self.socket, self.page, self.streams = None, None, {}

    def send(self, packet):
        try:
            if self.socket:
                self.socket.send(packet)
        except OSError:
            pass  # The reason may still be in the queue.

    def _wait_for_packet(self):
        """A deposited connection stays open without a daemon."""
        end = time.monotonic() + self.timeout
        while True:
            try:
                return self.socket.recvmsg(packets.PACKET_MAX, socket.CMSG_SPACE(4 * packets.FDS_MAX))[:2]
            except ConnectionResetError:
                return b"", ()
            except TimeoutError:
                if self.timeout == SHORT or self.daemon.has_ended():
                    raise GaveUp(f"{self.name} gets no answer") from None
                if time.monotonic() > end:
                    raise Broken(f"{self.name} gets no answer") from None

    def receive(self):
        data, control = self._wait_for_packet()
        files = [File(fd) for _, _, data_of in control for fd in struct.unpack(f"{len(data_of) // 4}i", data_of)]
        return (packets.decode(data) if data else None), files

    def ask(self, kind, wanted, body=b""):
        """The answer's body and files; None if it is refused, which ends the connection."""
        if not self.socket:
            return None, []
        self.serial += 1
        self.send(packets.encode(kind, self.serial, body))
        while True:
            packet, files = self.receive()
            if packet and packet.kind == wanted:
                for number, file in zip(packet.streams, files):
                    self.streams[number] = file
                return packet.body, files
            self.heard.append(packet)
            if not packet or packet.kind == packets.ERROR:
                self.close()
                return None, []

    def hello(self):
        body, files = self.ask(packets.HELLO, packets.WELCOME, struct.pack("<QQ", FEATURES, 0))
        if body:
            welcome = packets.decode_welcome(body)
            self.page = map_page(files[0], welcome.page_bytes, self.socket)
        return body is not None

    def register(self, *descriptions):
        """For each description the reason of its refusal, or None."""
        items = [packets.encode_item(0, text.encode()) for text in descriptions]
        body, _ = self.ask(packets.REGISTER, packets.REGISTERED, packets.encode_register(1, items)[16:])
        answers = packets.decode_registered(body) if body else []
        for text, answer in zip(descriptions, answers):
            if not answer.refusal:
                self.events[text.split()[0]] = answer
        return [packets.REASONS[answer.refusal] if answer.refusal else None for answer in answers]

    def register_and_leave(self, description):
        """Without waiting for the answer."""
        self.send(packets.encode_register(9, [packets.encode_item(0, description.encode())]))
        self.close()

    def release(self, name):
        if name in self.events:
            self.ask(packets.RELEASE, packets.RELEASED, packets.encode_release(1, [self.events.pop(name).bit])[16:])

    def is_on(self, name):
        bit = self.events[name].bit if name in self.events else 0
        return bool(self.page and self.page[bit // 8] >> bit % 8 & 1)

    def write(self, name, number):
        """A record with one u32."""
        event = self.events.get(name)
        file = self.streams.get(event.stream) if event else None
        try:
            return bool(file) and os.write(file.fd, struct.pack("=II", event.index, number)) > 0
        except OSError:
            return False


class Daemon:
    """A real daemon, with the faults of a Plan."""

    backend_is_embedded = True

    def __init__(self, directory, plan, options=("--backend=embedded",)):
        self.directory, self.plan, self.options = directory, plan, options
        self.socket, self.control, self.metrics = (f"{directory}/{name}" for name in ("socket", "control", "metrics"))
        self.process = None
        os.makedirs(directory + "/policy", exist_ok=True)
        self.write_policy("")

    def write_policy(self, more):
        with open(self.directory + "/policy/1.conf", "w", encoding="utf-8") as file:
            file.write(POLICY.format(metrics=self.metrics) + more)

    def start(self):
        """True if it listens; otherwise it has ended."""
        ready, ready_end = os.pipe()
        with open(self.directory + "/log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [VICTIMS + "/userevd", "--foreground", "--exit-with-parent", "--tenants=process", "--user=nobody", "--client-timeout=600",
                 "--policy=" + self.directory + "/policy", "--socket=" + self.socket, "--control-socket=" + self.control,
                 f"--ready-fd={ready_end}", *self.options],
                pass_fds=[ready_end], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.plan.environment())
        os.close(ready_end)
        listens = bool(select.select([ready], [], [], TIMEOUT)[0]) and os.read(ready, 1) == b"\n"
        os.close(ready)
        if not listens and not self.has_ended(TIMEOUT):
            # It has closed the pipe, or logged that it can't write to it.
            listens = "can't report readiness" in self.log()
            if not listens:
                raise Broken("it neither starts nor ends")
        return listens

    def has_ended(self, timeout=0.):
        try:
            return self.process.wait(timeout) is not None
        except subprocess.TimeoutExpired:
            return False

    def log(self):
        with open(self.directory + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()

    def ctl(self, *arguments, timeout=TIMEOUT):
        """The exit status and output of userevctl. A timeout is the daemon's fault."""
        command = [BUILD + "/userevctl", "--socket=" + self.socket, "--control-socket=" + self.control, *arguments]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise (GaveUp if timeout == SHORT else Broken)(f"userevctl {arguments[0]} gets no answer") from None
        return done.returncode, done.stdout

    def _look(self):
        status, text = self.ctl("--json", "status")
        if status != 0:
            raise Broken(f"status is answered with {status}")
        return json.loads(text)

    def status(self):
        numbers = self._look()
        return {name: numbers[name] for name in COUNTED}

    def backend(self):
        return self._look()["backend"]

    def count_fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def read_metrics(self):
        try:
            with socket.socket(socket.AF_UNIX) as reader:
                reader.settimeout(SHORT)
                reader.connect(self.metrics)
                while reader.recv(65536):
                    pass
        except OSError:
            pass

    def check_words(self):
        log = self.log()
        for word in BAD_WORDS:
            if word in log:
                raise Broken(log[log.index(word):][:3000])

    def check_exit(self, ordinary):
        """A daemon that ended during a fault has a clean exit status and has logged the reason."""
        status = self.process.returncode
        self.check_words()
        if status not in CLEAN_EXITS:
            raise Broken(f"it ended with {status}")
        if status != 0 and not set(self.log().splitlines()) - set(ordinary):
            raise Broken(f"it ended with {status} and logged no reason")

    def restart(self):
        """The embedded backend leaves no state to a successor (but see Pair)."""

    def revive(self):
        """True if it was started again after its end."""
        return False

    def finish(self):
        """After its end."""

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        if not self.has_ended(TIMEOUT):
            raise Broken("it does not end")

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def register_all(one, another, third):
    one.register("first u32 a", "shared u32 a", "own u32 a")
    another.register("shared u32 a")
    third.register("1bad", *(f"event{i} u32 a" for i in range(6)))
    third.register("event0 u64 b")


def trace(daemon, one, timeout):
    """A tail follows records, and an admin switches an event."""
    command = [BUILD + "/userevctl", "--control-socket=" + daemon.control, "tail", "--count=2", "--timeout=1", "shared"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tail:
        try:
            until(lambda: one.is_on("shared") or tail.poll() is not None, SHORT)
            for number in range(2):
                one.write("shared", number)
            daemon.ctl("enable", "first", timeout=timeout)
            one.write("first", 1)
            daemon.ctl("disable", "first", timeout=timeout)
            # During a permanent fault it waits longer than this.
            until(lambda: tail.poll() is not None, timeout + 1)
        finally:
            tail.terminate()


def silence(daemon, timeout):
    """All clients are one tenant, a process. In a guest this takes half of a life's time, and the daemon's calls are the same here."""
    if daemon.backend_is_embedded:
        for command in (["mute", "process:*"], ["unmute", "process:*"], ["enable", "first", f"--tenant={os.getpid()}"], ["disable", "first"]):
            daemon.ctl(*command, timeout=timeout)


def live(daemon, timeout):
    """The time between start and end. Each refusal is accepted."""
    clients = [Client(daemon, name, timeout) for name in ("one", "another", "third")]
    for client in clients:
        client.hello()
    register_all(*clients)
    one, another, third = clients
    one.ask(WATCH, WATCHING, struct.pack("<I", 1))
    trace(daemon, one, timeout)
    for command in (["events"], ["tenants"], ["status"]):
        daemon.ctl("--json", *command, timeout=timeout)
    daemon.read_metrics()
    daemon.restart()
    daemon.write_policy("[/nowhere]\nReserveEvents=1\n")
    daemon.ctl("reload", timeout=timeout)
    one.release("shared")
    one.ask(QUERY, ACCOUNT)
    # One client violates the protocol, and one disconnects during a request.
    another.ask(99, 100)
    third.register_and_leave("last u32 a")
    fourth = Client(daemon, "third", timeout)
    fourth.hello()
    fourth.register("event0 u32 a")
    silence(daemon, timeout)
    for client in (one, another, fourth):
        client.close()


def check_service(daemon):
    """The next client is served, and no charge of earlier clients is left."""
    left = {}
    # The command that ends it may have failed.
    if daemon.backend_is_embedded:
        daemon.ctl("unmute", "process:*")

    def is_settled():
        left.update(daemon.status())
        return not any(left.values())

    if not until(is_settled, TIMEOUT):
        raise Broken(f"left of the earlier clients: {left}")
    client = Client(daemon, "next", TIMEOUT)
    if not client.hello() or client.register("next u32 a", "1bad") != [None, "bad-description"]:
        raise Broken(f"the next client is not served: {client.heard}")
    if daemon.ctl("enable", "next")[0] != 0 or not until(lambda: client.is_on("next"), TIMEOUT) or not client.write("next", 1):
        raise Broken("the next client's event can't be switched on")
    if daemon.ctl("disable", "next")[0] != 0:
        raise Broken("the next client's event can't be switched off")
    if daemon.ctl("reload")[0] != 0:
        raise Broken("the policy can't be loaded again")
    client.close()
    if not until(is_settled, TIMEOUT):
        raise Broken(f"left of the next client: {left}")
