// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// PayloadMax is the largest payload of a record: some tracers lose larger ones.
const PayloadMax = 4064

// Flags of an event: it outlives its programs, or its name may be used with other fields, too.
const (
	Persist     = registerPersist
	MultiFormat = registerMultiFormat
)

var (
	// ErrTooBig: the record is larger than PayloadMax, or than the whole queue. It is counted as lost.
	ErrTooBig = errors.New("userev: the record is too big")
	// ErrQueueFull: the daemon, which is the tracer here, has not read the earlier records. It is counted as lost.
	ErrQueueFull = errors.New("userev: the queue is full")
)

// An Event is registered with the daemon, or will be when there is one.
type Event struct {
	place       atomic.Pointer[place]
	conn        *Conn
	description string
	flags       uint16

	answered     chan struct{}
	answeredOnce sync.Once
	refusal      *Refusal
	isReleased   bool
}

// A place is where an event's bit is, and where its records go.
type place struct {
	word   *uint32
	mask   uint32
	bit    uint32
	stream *stream
	index  uint32
}

// Of events that are not granted: off.
var nowhere = place{word: new(uint32), mask: 1}

// Register asks for an event, described as in userevd-protocol(7): "shop_request u32 status; __rel_loc char[] path". It fails if the
// daemon refuses that, with a *Refusal; the event is off then. Without a daemon it succeeds, and Err says later whether the event was
// refused. It waits for the answer, two seconds at most, and not again while the daemon does not answer.
func (c *Conn) Register(description string, flags ...uint16) (*Event, error) {
	if len(description) > descriptionMax {
		e := c.refuse("the description is longer than 511 bytes")
		return e, e.refusal
	}
	e := &Event{conn: c, description: description, answered: make(chan struct{})}
	for _, flag := range flags {
		e.flags |= flag
	}
	e.place.Store(&nowhere)
	c.mu.Lock()
	c.events = append(c.events, e)
	c.unasked = append(c.unasked, e)
	waits, down := c.ask() == nil && c.up && !c.hangs, c.down
	c.mu.Unlock()
	if waits {
		limit := time.NewTimer(answerTimeout)
		defer limit.Stop()
		select {
		case <-e.answered:
		case <-down:
		case <-limit.C:
			c.mu.Lock()
			c.hangs = true
			c.mu.Unlock()
		}
	}
	return e, e.Err()
}

// refuse makes an event that is off for ever.
func (c *Conn) refuse(sentence string) *Event {
	e := &Event{conn: c, refusal: &Refusal{"bad-description", sentence}, isReleased: true}
	e.place.Store(&nowhere)
	return e
}

// Err is the daemon's refusal of the event, or nil.
func (e *Event) Err() error {
	e.conn.mu.Lock()
	defer e.conn.mu.Unlock()
	if e.refusal != nil {
		return e.refusal
	}
	return nil
}

// Release gives the event back. It is off from now on.
func (e *Event) Release() {
	c := e.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.isReleased {
		return
	}
	e.isReleased = true
	for i := range c.unasked {
		if c.unasked[i] == e {
			c.unasked = append(c.unasked[:i:i], c.unasked[i+1:]...)
			c.forget(e)
			return
		}
	}
	if c.asked != nil {
		for _, asked := range c.asked.events {
			if asked == e {
				e.place.Store(&nowhere)
				return // when the answer comes
			}
		}
	}
	c.release(e)
	c.ask()
}

// On tells whether anybody traces the event.
func (e *Event) On() bool {
	p := e.place.Load()
	return atomic.LoadUint32(p.word)&p.mask != 0 && !e.conn.isAbandoned()
}

// Write writes a record if the event is on: its payload is the fields in their order, without padding. It never waits. False without an
// error: the event is off.
func (e *Event) Write(payload []byte) (written bool, err error) {
	if !e.On() {
		return false, nil
	}
	r := records.Get().(*Record)
	r.fixed = append(r.fixed[:4], payload...)
	written, err = e.write(r.fixed)
	r.free()
	return written, err
}

// write takes four bytes for the index, and the payload.
func (e *Event) write(record []byte) (written bool, err error) {
	c, p := e.conn, e.place.Load()
	if len(record)-4 > PayloadMax {
		c.lose(&c.tooBig)
		return false, ErrTooBig
	}
	if p.stream == nil {
		return false, nil
	}
	if len(record) == 4 {
		record = append(record, 0) // before Linux 6.4 an empty payload is refused
	}
	if c.traced.Load() {
		if word, mask := c.word(tracedAt, p.bit); atomic.LoadUint32(word)&mask != 0 {
			which := *(*byte)(unsafe.Add(c.page, uintptr(tracesAt)+uintptr(p.bit)))
			written = c.writeTraces(which, e.description, record[4:])
			if which&tracedOnly != 0 {
				return written, nil
			}
		}
	}
	*(*uint32)(unsafe.Pointer(&record[0])) = p.index
	switch errno := p.stream.write(record); errno {
	case 0:
		return true, nil
	case syscall.EBADF, syscall.EPIPE, syscall.ECONNRESET: // nobody traces it any more
		return written, nil
	case syscall.EAGAIN, syscall.ENOBUFS:
		c.lose(&c.queueFull)
		return written, ErrQueueFull
	case syscall.EMSGSIZE:
		c.lose(&c.tooBig)
		return written, ErrTooBig
	default:
		return written, errno
	}
}

// --- traces of the tenant's own ---

type trace struct {
	stream
	lost atomic.Uint32
}

func (c *Conn) setTrace(i int, t *trace) {
	if former := c.traces[i].Swap(t); former != nil {
		former.close()
	}
}

// writeTraces writes the record to the sockets of these traces. A new one's is on its way to the goroutine that reads.
func (c *Conn) writeTraces(which byte, description string, payload []byte) (written bool) {
	for i := range c.traces {
		if which>>i&1 == 0 {
			continue
		}
		for {
			t := c.traces[i].Load()
			if t != nil && t.write(description, payload) {
				written = true
				break
			}
			c.traces[i].CompareAndSwap(t, nil)
			if c.looks.Add(1) > looksMax { // nothing has come for a while
				break
			}
			time.Sleep(50 * time.Microsecond)
		}
	}
	return written
}

// write is false if nothing reads the trace.
func (t *trace) write(description string, payload []byte) bool {
	lost := t.lost.Swap(0)
	head := make([]byte, 16, 16+len(description)+len(payload))
	native.PutUint64(head, uint64(time.Now().UnixNano()))
	native.PutUint32(head[8:], lost)
	native.PutUint32(head[12:], uint32(len(description)))
	head = append(append(head, description...), payload...)
	t.mu.RLock()
	err := syscall.Sendmsg(t.fd, head, nil, nil, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
	t.mu.RUnlock()
	if err == syscall.EAGAIN || err == syscall.ENOBUFS || err == syscall.ENOMEM || err == syscall.EMSGSIZE {
		t.lost.Add(lost + 1)
		err = nil
	}
	return err == nil
}

var native = func() binary.ByteOrder {
	if isBig {
		return binary.BigEndian
	}
	return binary.LittleEndian
}()
