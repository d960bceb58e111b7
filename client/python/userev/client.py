# SPDX-License-Identifier: LGPL-2.1-or-later
"""The connection to the daemon, and the registration of the program's events, again after each reconnection.

There is no thread and no signal handler. Once in `interval` seconds a test or a write of an event calls look(), which connects,
sends and receives without blocking, and returns at once if another thread does so. Only a declaration waits for its answer, for at
most `deadline` seconds.
"""

import collections
import errno
import itertools
import math
import os
import threading
import time
import weakref

from . import connection, packets
from .event import NOWHERE, Event, Place, explain, explain_refusal
from .files import map_page
from .traces import Traces

_FULL = (errno.EAGAIN, errno.ENOBUFS)
# Calls of look() per interval while an answer is pending.
_LOOKS_FOR_ANSWERS = 20
_instances = weakref.WeakSet()

# A request without an answer yet. The answer is passed to on_answer(packet, files).
_Request = collections.namedtuple("_Request", "serial kind on_answer")


class Userev:
    """A connection to the daemon, and the events declared on it. Any number of threads may use them.

    path      the daemon's socket; default: $USEREV_SOCKET, else the usual places
    deadline  seconds that a declaration may wait for the daemon; $USEREV_WAIT if that is longer
    interval  seconds between two checks for the daemon
    """

    def __init__(self, path=None, deadline=0.1, interval=1.0):
        self._paths, self._interval = (path,) if path else None, interval
        self._deadline = max(deadline, connection.wait_min())
        self._events = {}
        self._counters = threading.Lock()
        self.queue_full = self.too_big = 0
        self._told_queue_full = self._told_too_big = 0
        self.refusal = self._welcome = self._page = self._why = None
        self._traces = Traces()
        self._forget()
        self.next_look = 0.0
        _instances.add(self)

    def _forget(self):
        """Resets to no connection, and an unlocked lock."""
        self._lock = threading.Lock()
        self._connection = None
        self._is_welcome = False
        self._serials, self._pending, self._answered = itertools.count(1), collections.deque(), 0
        self._streams = {}
        self._unasked, self._unreleased, self._troubled = collections.deque(), collections.deque(), collections.deque()

    # For programs.

    def event(self, description, *, persist=False, multi_format=False):
        """Declares an event. The same description returns the same object."""
        flags = packets.PERSIST * persist | packets.MULTI_FORMAT * multi_format
        event = Event(self, description, flags)
        declared = self._events.setdefault((description, flags), event)
        if declared is event:
            self._unasked.append(event)
            self._ask_soon()
        return declared

    def _ask_soon(self):
        """Waits for one deadline at most, however many events are declared, and does not connect more often than look()."""
        if self._connection is not None or time.monotonic() >= self.next_look:
            self.poll(0 if self._pending else self._deadline)

    def release(self, event):
        if self._events.pop((event.description, event.flags), None) is event:
            bit, event.place = event.place.bit, NOWHERE
            if bit:
                self._unreleased.append(bit)
            self.poll(0)

    def poll(self, deadline=0.0):
        """Connects, sends and receives, waiting for answers for that many seconds. Returns True if none is pending. An event loop
        calls it when fileno() is readable."""
        end = time.monotonic() + deadline
        # With a timeout, because this may be a signal handler that interrupted the lock's owner.
        if not self._lock.acquire(timeout=max(0.0, deadline)):
            return False
        try:
            self._work(end)
            return self._is_welcome and not self._pending
        finally:
            self._lock.release()

    def look(self):
        """Called by events, at intervals."""
        self.poll(0)

    def fileno(self):
        """The connection's fd, for an event loop; -1 without a connection."""
        there = self._connection
        return there.fileno() if there else -1

    @property
    def connected(self):
        return self._is_welcome

    @property
    def tenant(self):
        return self._welcome.tenant if self._welcome else None

    @property
    def backend(self):
        return packets.BACKENDS.get(self._welcome.backend) if self._welcome else None

    @property
    def payload_max(self):
        """The largest payload that all tracers accept."""
        return self._welcome.payload_max if self._welcome else packets.PAYLOAD_MAX

    def close(self):
        """Closes the connection: all events are off. Only poll() and new declarations connect again."""
        with self._lock:
            self._leave("closed")
            self.next_look = math.inf
        for event in list(self._events.values()):
            event.place = NOWHERE

    # Records.

    def write(self, place, payload):
        """Writes one record. Returns False if it was not written."""
        if len(payload) > self.payload_max:
            return self.lose("too_big")
        traced = place.traces
        if traced and not self._traces.write(place, payload, self.look):
            return True
        try:
            os.writev(place.stream.fd, (place.index, payload))
            return True
        except OSError as error:
            if traced and error.errno == errno.EBADF:
                return True
            return self._on_write_error(place, payload, error)

    def _on_write_error(self, place, payload, error):
        if error.errno in _FULL:
            return self.lose("queue_full")
        if error.errno == errno.EMSGSIZE:
            return self.lose("too_big")
        if error.errno == errno.EFAULT and not payload:
            return self.write(place, b"\0")  # Linux before 6.4 refuses empty payloads
        if error.errno == errno.EBADF and place.stream.is_intact():
            return False  # The event was switched off: nothing is lost.
        if error.errno not in (errno.EINVAL, errno.EFAULT):
            self._leave_with(place, error)
        return False

    def _leave_with(self, place, error):
        """Drops the connection of a stream that cannot be written to any more."""
        if self._lock.acquire(blocking=False):
            try:
                if place.stream in self._streams.values():
                    self._leave(f"a stream has ended: {error.strerror}")
            finally:
                self._lock.release()

    def lose(self, counter):
        """Counts a lost record in `queue_full` or `too_big`. Returns False."""
        with self._counters:
            setattr(self, counter, getattr(self, counter) + 1)
        return False

    # The connection. All of these run with the lock held.

    def _work(self, end):
        self.next_look, is_soon = time.monotonic() + self._interval, False
        self._unasked.extend(_take_all(self._troubled))
        try:
            if self._connection is None:
                self._connect(end)
            self._connection.check()
            self._check_streams()
            self._ask()
            self._read(end)
        except (connection.Ended, packets.BadPacket, OSError) as error:
            self._leave(str(error))
            is_soon = isinstance(error, connection.QueueFull)
        if self._pending or is_soon:
            self.next_look = time.monotonic() + self._interval / _LOOKS_FOR_ANSWERS

    def _connect(self, end):
        problems = []
        for path in self._paths or connection.paths():
            try:
                self._connection = connection.Connection(path, end)
                break
            except OSError as error:
                problems.append((path, error))
        else:
            is_full = any(isinstance(error, BlockingIOError) for _, error in problems)
            raise (connection.QueueFull if is_full else connection.Ended)(_no_daemon(problems))
        self._request(packets.WELCOME, self._on_welcome, packets.encode_hello)

    def _leave(self, why):
        """Drops the connection. With the kernel's tracing, events stay usable without a daemon."""
        if why != self._why:
            explain(why)
        self._why = why
        if self._connection:
            self._connection.close()
        self._forget_connection()
        for event in list(self._events.values()):
            if event.is_registered and (self._is_embedded() or not event.place.stream.is_intact()):
                event.place = NOWHERE

    def _is_embedded(self):
        return self._welcome is not None and self._welcome.backend == packets.EMBEDDED

    def _forget_connection(self):
        self._connection, self._is_welcome = None, False
        self._serials, self._answered = itertools.count(1), 0
        self._pending.clear()
        self._streams.clear()
        self._unreleased.clear()
        self._troubled.clear()

    def _check_streams(self):
        if not all(stream.is_intact() for stream in list(self._streams.values())):
            raise connection.Ended("the program has closed a stream's file descriptor")

    def _request(self, kind, on_answer, encode, *arguments):
        serial = next(self._serials)
        self._pending.append(_Request(serial, kind, on_answer))
        self._connection.send(encode(serial, *arguments))

    def _ask(self):
        self._connection.flush()
        if self._is_welcome:
            self._ask_to_release()
            self._ask_for_events()
            self._report_losses()

    def _ask_to_release(self):
        bits = _take_all(self._unreleased)
        for first in range(0, len(bits), self._welcome.batch_max):
            some = bits[first:first + self._welcome.batch_max]
            self._request(packets.RELEASED, self._on_released, packets.encode_release, some)

    def _ask_for_events(self):
        items = []
        for event in _take_all(self._unasked):
            description = event.description.encode("ascii", "replace")
            if len(description) > packets.DESCRIPTION_MAX:
                event.refusal = packets.Refusal("bad-description", f"the description is longer than {packets.DESCRIPTION_MAX} bytes")
                explain_refusal(event)
            else:
                items.append((event, packets.encode_item(event.flags, description)))
        for batch in packets.batches(items, self._welcome.batch_max, self._welcome.packet_max):
            events = [event for event, _ in batch]
            self._request(packets.REGISTERED, lambda packet, files, events=events: self._on_registered(packet, files, events),
                          packets.encode_register, [item for _, item in batch])

    def _report_losses(self):
        queue_full, too_big = self.queue_full, self.too_big
        if (queue_full, too_big) != (self._told_queue_full, self._told_too_big):
            self._connection.send(packets.encode_lost(
                next(self._serials), queue_full - self._told_queue_full, too_big - self._told_too_big))
            self._told_queue_full, self._told_too_big = queue_full, too_big

    def _read(self, end):
        for taken in itertools.count(1):
            message = self._connection.receive(end if self._pending else 0)
            if message is None:
                return
            self._on_packet(*message)
            self._ask()
            # A constant flow of packets must not extend the deadline.
            if taken % 32 == 0 and time.monotonic() >= (end if self._pending else 0):
                return

    def _on_packet(self, packet, files):
        if packet.kind == packets.ERROR:
            self.refusal = packets.decode_error(packet.body)
            raise connection.Ended(str(self.refusal))
        if packet.kind == packets.TRACED and len(files) == 1:
            self._traces.take(packets.decode_traced(packet.body), files[0])
            return
        if packet.kind == packets.CHANGED or 0 < packet.serial <= self._answered:
            return  # A daemon that has replaced the former one may repeat the last answer. Its files are closed.
        if not self._pending or (packet.serial, packet.kind) != self._pending[0][:2]:
            raise packets.BadPacket(f"unexpected answer of kind {packet.kind}")
        if len(files) != len(packet.streams) + (packet.kind == packets.WELCOME):
            raise packets.BadPacket(f"answer of kind {packet.kind} with {len(files)} files")
        request = self._pending.popleft()
        self._answered = request.serial
        request.on_answer(packet, files)

    def _on_welcome(self, packet, files):
        welcome = packets.decode_welcome(packet.body)
        self._page = map_page(files[0], welcome.page_bytes, self._connection.socket)
        self._take_streams(packet, files[1:])
        self._welcome, self._is_welcome, self.refusal, self._why = welcome, True, None, None
        self._unasked.clear()
        self._unasked.extend(list(self._events.values()))

    def _take_streams(self, packet, files):
        for number, file in zip(packet.streams, files):
            if not file.is_stream():
                raise packets.BadPacket("a stream is neither a non-blocking socket nor a file")
            self._streams[number] = file

    def _on_registered(self, packet, files, events):
        self._take_streams(packet, files)
        answers = packets.decode_registered(packet.body)
        if len(answers) != len(events):
            raise packets.BadPacket(f"{len(answers)} answers for {len(events)} events")
        for event, answer in zip(events, answers):
            if answer.refusal:
                event.place, event.refusal = NOWHERE, packets.refusal(answer.refusal, answer.text)
                explain_refusal(event)
                if answer.refusal == packets.TROUBLE:
                    self._troubled.append(event)
            else:
                self._place(event, answer)

    def _place(self, event, answer):
        if not 0 < answer.bit < self._welcome.page_bits or answer.stream not in self._streams:
            raise packets.BadPacket("an event has a bit outside of the page, or an unknown stream")
        declared = self._events.get((event.description, event.flags))
        if declared is event:
            event.refusal = None
            event.place = Place(self._page, answer.bit, self._streams[answer.stream], answer.index, event.description)
        elif declared is None:
            self._unreleased.append(answer.bit)

    def _on_released(self, _packet, _files):
        """Closes streams without events: the tenant is charged for open ones."""
        used = {id(event.place.stream) for event in list(self._events.values())}
        self._streams = {number: stream for number, stream in self._streams.items() if id(stream) in used}

    # Forks.

    def after_fork_in_child(self):
        """Keeps page and streams; the connection is the parent's. The lock's owner does not exist here."""
        there = self._connection
        if there:
            there.close()
        unasked = self._unasked
        self._counters = threading.Lock()
        # The parent reports its own losses.
        self._told_queue_full, self._told_too_big = self.queue_full, self.too_big
        self._forget()
        self._unasked = unasked
        self.next_look = time.monotonic() + self._interval


_default = None
_default_lock = threading.Lock()


def default():
    """The program's default Userev, created by the first call."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Userev()
    return _default


def _no_daemon(problems):
    """Describes the first socket that exists, or the first one."""
    for path, error in problems:
        if error.errno != errno.ENOENT:
            return f"{path}: {error.strerror}"
    path, error = problems[0]
    advice = f" ({connection.IN_A_CONTAINER})" if path in connection.PATHS else ""
    return f"{path}: {error.strerror}{advice}"


def _take_all(queue):
    taken = []
    while queue:
        taken.append(queue.popleft())
    return taken


def _after_fork_in_child():
    for userev in list(_instances):
        userev.after_fork_in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
