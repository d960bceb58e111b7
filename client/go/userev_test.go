// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
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

// hostile is a daemon that answers each packet with the next of these functions, and then with nothing.
func hostile(t *testing.T, answers ...func(fd int, serial uint32)) *Conn {
	path := t.TempDir() + "/socket"
	listener, _ := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err := syscall.Bind(listener, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	syscall.Listen(listener, 10)
	t.Cleanup(func() { syscall.Shutdown(listener, syscall.SHUT_RDWR) })
	go func() {
		for {
			fd, _, err := syscall.Accept(listener)
			if err != nil {
				return
			}
			go func() {
				data := make([]byte, packetMax)
				for i := 0; ; i++ {
					n, err := syscall.Read(fd, data)
					if n < headerBytes || err != nil {
						syscall.Close(fd)
						return
					}
					if i < len(answers) {
						answers[i](fd, binary.LittleEndian.Uint32(data[8:]))
					}
				}
			}()
		}
	}()
	t.Setenv("USEREV_SOCKET", path)
	conn, err := Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func reply(kind uint16, streams []uint32, body []byte, fds ...int) func(int, uint32) {
	return func(fd int, serial uint32) {
		numbers := []byte{}
		for _, number := range streams {
			numbers = binary.LittleEndian.AppendUint32(numbers, number)
		}
		data := encode(kind, serial, append(numbers, body...))
		data[7] = byte(len(streams))
		syscall.Sendmsg(fd, data, syscall.UnixRights(fds...), nil, syscall.MSG_NOSIGNAL)
	}
}

func welcome(page int) func(int, uint32) {
	body := make([]byte, 40)
	binary.LittleEndian.PutUint32(body[8:], pageBytes)
	return reply(kindWelcome, nil, body, page)
}

// A page whose bits are all set but the first, so that a wrong one is noticed; and a file that takes records.
func pageAndStream(t *testing.T) (page, stream int) {
	name := fmt.Sprintf("/dev/shm/userev-test-%d", os.Getpid())
	page, err := syscall.Open(name, syscall.O_RDWR|syscall.O_CREAT|syscall.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	syscall.Unlink(name)
	content := bytes.Repeat([]byte{0xff}, pageBytes)
	content[0] = 0xfe
	syscall.Write(page, content)
	pair, _ := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_NONBLOCK, 0)
	return page, pair[0]
}

// registered grants an event.
func registered(bit, number uint32) []byte {
	body := append([]byte{1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 12)...)
	binary.LittleEndian.PutUint32(body[8:], bit)
	binary.LittleEndian.PutUint32(body[12:], number)
	return body
}

func TestHostileDaemons(t *testing.T) {
	page, stream := pageAndStream(t)
	pipe := make([]int, 2)
	syscall.Pipe(pipe)
	for name, one := range map[string]struct {
		on      bool
		answers []func(int, uint32)
	}{
		"all is right":             {true, []func(int, uint32){welcome(page), reply(kindRegistered, []uint32{1}, registered(5, 1), stream)}},
		"nonsense":                 {false, []func(int, uint32){func(fd int, _ uint32) { syscall.Write(fd, []byte("nonsense")) }}},
		"no page":                  {false, []func(int, uint32){reply(kindWelcome, nil, make([]byte, 40))}},
		"a page that is a pipe":    {false, []func(int, uint32){welcome(pipe[0])}},
		"a stream that is a pipe":  {false, []func(int, uint32){welcome(page), reply(kindRegistered, []uint32{1}, registered(5, 1), pipe[1])}},
		"a bit beyond the page":    {false, []func(int, uint32){welcome(page), reply(kindRegistered, []uint32{1}, registered(1<<30, 1), stream)}},
		"a stream that never came": {false, []func(int, uint32){welcome(page), reply(kindRegistered, nil, registered(5, 1))}},
		"too few answers":          {false, []func(int, uint32){welcome(page), reply(kindRegistered, nil, make([]byte, 4))}},
		"another serial":           {false, []func(int, uint32){func(fd int, s uint32) { welcome(page)(fd, s+1) }}},
		"no answer":                {false, []func(int, uint32){welcome(page)}},
	} {
		t.Run(name, func(t *testing.T) {
			conn := hostile(t, one.answers...)
			began := time.Now()
			event, err := conn.Register("e u32 x")
			conn.Register("f u32 x") // does not wait again
			if err != nil || event.On() != one.on {
				t.Fatal(err, event.On())
			}
			if written, err := event.Write([]byte{1, 2, 3, 4}); written != one.on || err != nil {
				t.Fatal(written, err)
			}
			conn.Close()
			if time.Since(began) > 5*time.Second {
				t.Fatal(time.Since(began))
			}
		})
	}
}

// A daemon that welcomes programs and disconnects them at once is tried at growing intervals.
func TestShortConnectionsAreFailures(t *testing.T) {
	page, _ := pageAndStream(t)
	var welcomed atomic.Int32
	conn := hostile(t, func(fd int, serial uint32) {
		welcomed.Add(1)
		welcome(page)(fd, serial)
		syscall.Shutdown(fd, syscall.SHUT_RDWR)
	})
	time.Sleep(500 * time.Millisecond)
	conn.Close()
	if n := welcomed.Load(); n < 2 || n > 10 {
		t.Fatalf("%d connections", n)
	}
}

// A daemon shares the file of a stream, and could make it block.
func TestAFullStreamDoesNotBlock(t *testing.T) {
	page, stream := pageAndStream(t)
	conn := hostile(t, welcome(page), reply(kindRegistered, []uint32{1}, registered(5, 1), stream))
	defer conn.Close()
	event, err := conn.Register("e u32 x")
	if err != nil || !event.On() {
		t.Fatal(err)
	}
	syscall.SetNonblock(stream, false)
	for i := 0; i < 1e6; i++ {
		if _, err := event.Write([]byte{1, 2, 3, 4}); err == ErrQueueFull {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the stream takes a million records")
}

func TestStreamsWithoutEventsDoNotAddUp(t *testing.T) {
	page, stream := pageAndStream(t)
	open := func() (n int) {
		wanted, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", stream))
		fds, _ := os.ReadDir("/proc/self/fd")
		for _, fd := range fds {
			if link, _ := os.Readlink("/proc/self/fd/" + fd.Name()); link == wanted {
				n++
			}
		}
		return n
	}
	var welcomed atomic.Int32
	body := make([]byte, 40)
	binary.LittleEndian.PutUint32(body[8:], pageBytes)
	conn := hostile(t, func(fd int, serial uint32) {
		reply(kindWelcome, []uint32{1, 2, 3}, body, page, stream, stream, stream)(fd, serial)
		welcomed.Add(1)
		syscall.Shutdown(fd, syscall.SHUT_RDWR)
	})
	defer conn.Close()
	conn.Register("e u32 x") // it has no answer, so that streams are kept for it
	for end := time.Now().Add(time.Minute); welcomed.Load() < 5 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if n := open(); n > 1+2*3 {
		t.Fatalf("%d files", n)
	}
}

// Another event with the same bit is released while this one is being registered: the daemon has not seen that release.
func TestGrantedBitIsNotReleased(t *testing.T) {
	page, stream := pageAndStream(t)
	var packets atomic.Int32
	release := make(chan struct{})
	count := func(answer func(int, uint32)) func(int, uint32) {
		return func(fd int, serial uint32) {
			if packets.Add(1) == 3 {
				<-release
			}
			answer(fd, serial)
		}
	}
	grant := reply(kindRegistered, []uint32{1}, registered(5, 1), stream)
	nothing := count(func(int, uint32) {})
	conn := hostile(t, count(welcome(page)), count(grant), count(reply(kindRegistered, nil, registered(5, 1))), nothing, nothing)
	defer conn.Close()
	first, err := conn.Register("e u32 x")
	if err != nil || !first.On() {
		t.Fatal(err)
	}
	done := make(chan *Event)
	go func() { second, _ := conn.Register("e u32 x"); done <- second }()
	for packets.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	first.Release()
	close(release)
	second := <-done
	time.Sleep(200 * time.Millisecond)
	if written, err := second.Write([]byte{1, 2, 3, 4}); packets.Load() != 3 || !written || err != nil {
		t.Fatal(packets.Load(), written, err)
	}
}
