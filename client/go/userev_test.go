// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"bytes"
	"context"
	"testing"
)

type visit struct {
	Status      uint32
	PayloadSize int64
	Load        float64
	Hit         bool
	Method      [4]byte `userev:"verb"`
	Path        string
	Body        []byte
	hidden      int
	Other       chan int `userev:"-"`
}

// Declared events describe themselves, and cost nothing while they are off.
func Example() {
	conn, err := Open(context.Background())
	if err != nil {
		return
	}
	defer conn.Close()
	requests, _ := Declare[visit](conn, "shop_request")
	requests.Emit(visit{Status: 404, Path: "/favicon.ico"})

	event, _ := conn.Register("shop_started u32 pid; __rel_loc char[] version")
	event.Begin().Uint32(1).String("1.0").End()
	// Output:
}

func alone(t *testing.T) *Conn {
	t.Setenv("USEREV_SOCKET", t.TempDir()+"/nobody")
	conn, err := Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestWithoutDaemonEventsAreOff(t *testing.T) {
	conn := alone(t)
	event, err := conn.Register("e u32 x")
	if err != nil || event.On() || conn.Err() == nil {
		t.Fatal(err, event.On(), conn.Err())
	}
	if written, err := event.Write([]byte{1, 2, 3, 4}); written || err != nil {
		t.Fatal(written, err)
	}
	event.Release()
	event.Release()
}

func TestFieldsOfAStruct(t *testing.T) {
	requests, err := Declare[visit](alone(t), "r")
	wanted := "r u32 status; s64 payload_size; u64 load_f64; u8 hit; char[4] verb; __rel_loc char[] path; __rel_loc u8[] body"
	if err != nil || requests.description != wanted {
		t.Fatal(err, requests.description)
	}
	if _, err := Declare[struct{ Size int }](alone(t), "r"); err == nil {
		t.Fatal("an int has no fixed size")
	}
}

func TestAnEventThatIsOffAllocatesNothing(t *testing.T) {
	requests, _ := Declare[visit](alone(t), "r")
	if n := testing.AllocsPerRun(1000, func() {
		requests.Emit(visit{Status: 404, Path: "/"})
		requests.Begin().Uint32(404).String("/").End()
	}); n != 0 {
		t.Fatalf("%g allocations", n)
	}
}

func TestRecordHasItsDynamicFieldsBehindTheOthers(t *testing.T) {
	r := &Record{fixed: make([]byte, 4)}
	got := r.Uint8(1).String("ab").Uint16(2).Bytes([]byte{9}).finish()[4:]
	wanted := []byte{1, 6, 0, 3, 0, 2, 0, 3, 0, 1, 0, 'a', 'b', 0, 9}
	if !isBig && !bytes.Equal(got, wanted) {
		t.Fatal(got)
	}
}

// Whatever comes from a socket is refused or read, and nothing else.
func FuzzPackets(f *testing.F) {
	f.Add(encode(kindRegistered, 1, []byte{1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}))
	f.Add(encode(kindWelcome, 1, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := decode(data); err == nil {
			decodeRegistered(p.body)
		}
	})
}
