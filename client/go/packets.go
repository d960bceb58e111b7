// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The packets of userevd-protocol(7).

const (
	packetMax      = 131072
	batchMax       = 512
	descriptionMax = 511
	fdsMax         = 8
	pageBytes      = 4096
	tracedAt       = 4096
	tracesAt       = 8192
	pageFileBytes  = 40960
	tracesMax      = 4
	tracedOnly     = 0x80

	kindHello      = 1
	kindWelcome    = 2
	kindRegister   = 3
	kindRegistered = 4
	kindRelease    = 5
	kindReleased   = 6
	kindChanged    = 11
	kindLost       = 12
	kindError      = 13
	kindTraced     = 16

	registerPersist     = 1
	registerMultiFormat = 2

	featurePersist     = 2
	featureMultiFormat = 4
	featureOwnTraces   = 16

	headerBytes = 16
)

var reasons = [...]string{1: "bad-packet", 2: "unknown-kind", 3: "unexpected-fds", 4: "hello-first", 5: "feature-missing",
	6: "wrong-user", 7: "unknown-peer", 8: "too-slow", 9: "too-many-connections", 10: "bad-description", 11: "name-taken",
	12: "quota-exceeded", 13: "page-full", 14: "machine-full", 15: "not-permitted", 16: "kernel-too-old", 17: "no-such-event",
	18: "trouble", 19: "not-the-tracer", 20: "self-registered", 21: "in-use"}

// A Refusal is the daemon's answer to an event, or to a connection, that it does not grant.
type Refusal struct {
	Reason   string // one of the protocol's names, for programs: "quota-exceeded"
	Sentence string // for people: what to change
}

func (r *Refusal) Error() string { return "userev: " + r.Sentence + " (" + r.Reason + ")" }

func refusalOf(number uint16, sentence []byte) *Refusal {
	if int(number) < len(reasons) && number > 0 {
		return &Refusal{reasons[number], string(sentence)}
	}
	return &Refusal{fmt.Sprintf("reason-%d", number), string(sentence)}
}

var errPacket = errors.New("userev: the daemon has sent a malformed packet")

// A cursor reads little-endian numbers; behind the end of its bytes it is bad, and reads zeros.
type cursor struct {
	rest []byte
	bad  bool
}

func (c *cursor) bytes(n int) []byte {
	if n > len(c.rest) {
		c.bad, c.rest = true, nil
		return make([]byte, n)
	}
	taken := c.rest[:n]
	c.rest = c.rest[n:]
	return taken
}

func (c *cursor) u16() uint16 { return binary.LittleEndian.Uint16(c.bytes(2)) }
func (c *cursor) u32() uint32 { return binary.LittleEndian.Uint32(c.bytes(4)) }
func (c *cursor) u64() uint64 { return binary.LittleEndian.Uint64(c.bytes(8)) }

type packet struct {
	kind    uint16
	serial  uint32
	streams []uint32
	body    cursor
}

func decode(data []byte) (p packet, err error) {
	c := cursor{rest: data}
	size := c.u32()
	p.kind = c.u16()
	c.bytes(1)
	count := int(c.bytes(1)[0])
	p.serial = c.u32()
	c.u32()
	for i := 0; i < count && count <= fdsMax; i++ {
		p.streams = append(p.streams, c.u32())
	}
	p.body = c
	if c.bad || int(size) != len(data) || count > fdsMax {
		return p, errPacket
	}
	return p, nil
}

func encode(kind uint16, serial uint32, body []byte) []byte {
	data := make([]byte, headerBytes, headerBytes+len(body))
	binary.LittleEndian.PutUint32(data, uint32(headerBytes+len(body)))
	binary.LittleEndian.PutUint16(data[4:], kind)
	binary.LittleEndian.PutUint32(data[8:], serial)
	return append(data, body...)
}

func helloBody() []byte {
	body := make([]byte, 16)
	binary.LittleEndian.PutUint64(body, featurePersist|featureMultiFormat|featureOwnTraces)
	return body
}

// appendItem adds an event to the body of REGISTER.
func appendItem(body []byte, flags uint16, description string) []byte {
	body = binary.LittleEndian.AppendUint16(body, flags)
	body = binary.LittleEndian.AppendUint16(body, uint16(len(description)))
	body = append(body, description...)
	return append(body, make([]byte, -len(description)&3)...)
}

func lostBody(queueFull, tooBig uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, queueFull), tooBig)
}

type answer struct {
	refusal            uint16
	text               []byte
	bit, stream, index uint32
}

func decodeRegistered(c cursor) (answers []answer, err error) {
	count := c.u16()
	c.u16()
	for i := 0; i < int(count) && !c.bad; i++ {
		a := answer{refusal: c.u16()}
		length := int(c.u16())
		a.bit, a.stream, a.index = c.u32(), c.u32(), c.u32()
		a.text = c.bytes(length)
		c.bytes(-length & 3)
		answers = append(answers, a)
	}
	if c.bad || len(c.rest) > 0 {
		return nil, errPacket
	}
	return answers, nil
}
