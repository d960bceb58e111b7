// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Record is built field by field, in the order of the event's description:
//
//	event.Begin().Uint32(404).String("/favicon.ico").End()
//
// Begin returns nil while the event is off, and then nothing is done.
type Record struct {
	event *Event
	fixed []byte // behind four bytes for the index
	data  []byte // of dynamic fields
	locs  []loc
}

type loc struct{ at, from, length int }

var records = sync.Pool{New: func() any { return &Record{fixed: make([]byte, 4, 256)} }}

// Begin begins a record; nil if the event is off.
func (e *Event) Begin() *Record {
	if p := e.place.Load(); atomic.LoadUint32(p.word)&p.mask == 0 {
		return nil
	}
	return e.begin()
}

// begin is a function of its own, since Begin needs no stack then while the event is off.
func (e *Event) begin() *Record {
	if e.conn.isAbandoned() {
		return nil
	}
	r := records.Get().(*Record)
	r.event = e
	return r
}

func (r *Record) free() {
	r.event, r.fixed, r.data, r.locs = nil, r.fixed[:4], r.data[:0], r.locs[:0]
	records.Put(r)
}

// Uint8 adds a u8, or an s8 or a char that was converted.
func (r *Record) Uint8(v uint8) *Record {
	if r != nil {
		r.fixed = append(r.fixed, v)
	}
	return r
}

// Uint16 adds a u16 or s16.
func (r *Record) Uint16(v uint16) *Record { return r.number(unsafe.Pointer(&v), 2) }

// Uint32 adds a u32 or s32.
func (r *Record) Uint32(v uint32) *Record { return r.number(unsafe.Pointer(&v), 4) }

// Uint64 adds a u64 or s64.
func (r *Record) Uint64(v uint64) *Record { return r.number(unsafe.Pointer(&v), 8) }

// number adds bytes as they lie in memory: a record has the machine's own order.
func (r *Record) number(at unsafe.Pointer, size int) *Record {
	if r != nil {
		r.fixed = append(r.fixed, unsafe.Slice((*byte)(at), size)...)
	}
	return r
}

// Float32 adds a u32 whose name ends with _f32.
func (r *Record) Float32(v float32) *Record { return r.Uint32(math.Float32bits(v)) }

// Float64 adds a u64 whose name ends with _f64.
func (r *Record) Float64(v float64) *Record { return r.Uint64(math.Float64bits(v)) }

// Bool adds a u8.
func (r *Record) Bool(v bool) *Record {
	if v {
		return r.Uint8(1)
	}
	return r.Uint8(0)
}

// Fixed adds a char[n] or a struct of n bytes: bytes that are missing are zeros, and others are left out.
func (r *Record) Fixed(v []byte, n int) *Record {
	if r != nil {
		for i := 0; i < n; i++ {
			if i < len(v) {
				r.fixed = append(r.fixed, v[i])
			} else {
				r.fixed = append(r.fixed, 0)
			}
		}
	}
	return r
}

// String adds a __rel_loc char[].
func (r *Record) String(v string) *Record {
	if r != nil {
		from := len(r.data)
		r.data = append(append(r.data, v...), 0)
		r.dynamic(from)
	}
	return r
}

// Bytes adds another __rel_loc array, such as u8[].
func (r *Record) Bytes(v []byte) *Record {
	if r != nil {
		from := len(r.data)
		r.data = append(r.data, v...)
		r.dynamic(from)
	}
	return r
}

func (r *Record) dynamic(from int) {
	r.locs = append(r.locs, loc{len(r.fixed), from, len(r.data) - from})
	r.fixed = append(r.fixed, 0, 0, 0, 0)
}

// finish brings the dynamic fields behind the others. What does not fit is too big.
func (r *Record) finish() []byte {
	size := len(r.fixed)
	for _, l := range r.locs {
		native.PutUint32(r.fixed[l.at:], uint32(l.length)<<16|uint32(size+l.from-l.at-4)&0xffff)
	}
	r.fixed = append(r.fixed, r.data...)
	return r.fixed
}

// End writes the record. False without an error: the event is off.
func (r *Record) End() (written bool, err error) {
	if r == nil {
		return false, nil
	}
	return r.end()
}

func (r *Record) end() (written bool, err error) {
	written, err = r.event.write(r.finish())
	r.free()
	return written, err
}
