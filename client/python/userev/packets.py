# SPDX-License-Identifier: LGPL-2.1-or-later
"""Encodes and decodes the packets of userevd-protocol(7). Does no I/O. Decoders raise BadPacket for any invalid bytes."""

import collections
import struct

PACKET_MAX = 131072
BATCH_MAX = 512
DESCRIPTION_MAX = 511
FDS_MAX = 8
PAYLOAD_MAX = 4064

HELLO, WELCOME, REGISTER, REGISTERED, RELEASE, RELEASED = 1, 2, 3, 4, 5, 6
CHANGED, LOST, ERROR, TRACED = 11, 12, 13, 16

PERSIST, MULTI_FORMAT = 1, 2  # flags of REGISTER
FEATURE_PERSIST, FEATURE_MULTI_FORMAT, FEATURE_OWN_TRACES = 2, 4, 16

EMBEDDED, STATUS_PAGE, ENABLE_ADDRESS = 1, 2, 3
BACKENDS = {EMBEDDED: "embedded", STATUS_PAGE: "status-page", ENABLE_ADDRESS: "enable-address"}

TROUBLE = 18
REASONS = {
    1: "bad-packet", 2: "unknown-kind", 3: "unexpected-fds", 4: "hello-first", 5: "feature-missing", 6: "wrong-user",
    7: "unknown-peer", 8: "too-slow", 9: "too-many-connections", 10: "bad-description", 11: "name-taken", 12: "quota-exceeded",
    13: "page-full", 14: "machine-full", 15: "not-permitted", 16: "kernel-too-old", 17: "no-such-event", TROUBLE: "trouble",
    19: "not-the-tracer", 20: "self-registered", 21: "in-use",
}

_HEADER = struct.Struct("<IHBBII")
_WELCOME = struct.Struct("<QIIIIIIHHI")
_COUNT = struct.Struct("<HH")
_ANSWER = struct.Struct("<HHIII")

Packet = collections.namedtuple("Packet", "kind streams serial body")
Answer = collections.namedtuple("Answer", "refusal text bit stream index")
Welcome = collections.namedtuple(
    "Welcome", "features page_bytes page_bits payload_max packet_max batch_max events_max backend tenant")


class Refusal(collections.namedtuple("Refusal", "reason sentence")):
    """A refusal of the daemon: `reason` is one of the protocol's names, `sentence` a text for people."""

    __slots__ = ()

    def __str__(self):
        return f"{self.reason}: {self.sentence}"


class BadPacket(ValueError):
    pass


def refusal(number, text):
    """Accepts unknown numbers, of a newer daemon."""
    return Refusal(REASONS.get(number, f"reason-{number}"), text.decode("utf-8", "replace"))


# Encoding.

def encode(kind, serial, body=b""):
    return _HEADER.pack(_HEADER.size + len(body), kind, 0, 0, serial, 0) + body


def encode_hello(serial):
    return encode(HELLO, serial, struct.pack("<QQ", FEATURE_PERSIST | FEATURE_MULTI_FORMAT | FEATURE_OWN_TRACES, 0))


def encode_item(flags, description):
    """One item of REGISTER; the description is bytes."""
    return _COUNT.pack(flags, len(description)) + description + bytes(-len(description) % 4)


def encode_register(serial, items):
    return encode(REGISTER, serial, _COUNT.pack(len(items), 0) + b"".join(items))


def encode_release(serial, bits):
    return encode(RELEASE, serial, _COUNT.pack(len(bits), 0) + struct.pack(f"<{len(bits)}I", *bits))


def encode_lost(serial, queue_full, too_big):
    return encode(LOST, serial, struct.pack("<QQ", queue_full, too_big))


def batches(items, count_max, packet_max):
    """Splits [(event, item)] into lists that each fit in one packet."""
    batch, room = [], packet_max - _HEADER.size - _COUNT.size
    for event, item in items:
        if batch and (len(batch) == count_max or len(item) > room):
            yield batch
            batch, room = [], packet_max - _HEADER.size - _COUNT.size
        batch.append((event, item))
        room -= len(item)
    if batch:
        yield batch


# Decoding.

def _unpack(layout, data, offset=0):
    try:
        return layout.unpack_from(data, offset)
    except struct.error as error:
        raise BadPacket(str(error)) from None


def decode(data):
    size, kind, _, count, serial, _ = _unpack(_HEADER, data)
    if size != len(data) or count > FDS_MAX:
        raise BadPacket("a packet has a wrong size, or too many streams")
    streams = _unpack(struct.Struct(f"<{count}I"), data, _HEADER.size)
    return Packet(kind, streams, serial, data[_HEADER.size + 4 * count:])


def decode_welcome(body):
    *numbers, tenant_length, _ = _unpack(_WELCOME, body)
    tenant = body[_WELCOME.size:]
    welcome = Welcome(*numbers, tenant.decode("utf-8", "surrogateescape"))
    # Bits must be within the page, and at least one item must fit in a packet.
    if len(tenant) != tenant_length or welcome.page_bits > 8 * welcome.page_bytes or not welcome.page_bytes:
        raise BadPacket("WELCOME is inconsistent")
    if welcome.batch_max == 0 or welcome.packet_max < 2 * DESCRIPTION_MAX:
        raise BadPacket("WELCOME leaves no room for events")
    return welcome


def decode_registered(body):
    count, _ = _unpack(_COUNT, body)
    answers, offset = [], _COUNT.size
    for _ in range(count):
        number, length, bit, stream, index = _unpack(_ANSWER, body, offset)
        offset += _ANSWER.size
        answers.append(Answer(number, body[offset:offset + length], bit, stream, index))
        offset += length + -length % 4
    if offset != len(body):
        raise BadPacket("REGISTERED has a wrong size")
    return answers


def decode_traced(body):
    number, = _unpack(struct.Struct("<I"), body)
    if len(body) != 4 or number > 3:
        raise BadPacket("TRACED is wrong")
    return number


def decode_error(body):
    number, length = _unpack(_COUNT, body)
    if _COUNT.size + length != len(body):
        raise BadPacket("ERROR has a wrong size")
    return refusal(number, body[_COUNT.size:])
