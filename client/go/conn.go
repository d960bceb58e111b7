// SPDX-License-Identifier: LGPL-2.1-or-later

// Package userev emits trace events through userevd, without privilege and without cgo. A program declares an event, tests whether
// anybody traces it, which costs two loads and a branch, and writes a record by one system call. It runs the same without a daemon: its
// events are off until there is one, and again after the daemon was restarted.
package userev

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	answerTimeout = 2 * time.Second
	pauseMin      = 10 * time.Millisecond
	pauseMax      = 5 * time.Second
	lossPause     = time.Second
	shortSession  = time.Second // a daemon that ends connections sooner is not tried again at once
	msgCloexec    = 0x40000000  // MSG_CMSG_CLOEXEC
	mremapMayMove = 1
	mremapFixed   = 2
	looksMax      = 20 // of all writers, for the socket of a trace that has not come yet
)

var defaultPaths = []string{"/run/userevd/client/userevd.sock", "/run/userevd.sock"}

// A Conn is a connection with the daemon, made again whenever that was restarted. All methods may be called by several goroutines.
type Conn struct {
	paths  []string
	page   unsafe.Pointer // reserved once: each daemon's page is mapped there
	traced atomic.Bool    // behind the page are bits and bytes for traces of the tenant's own
	traces [tracesMax]atomic.Pointer[trace]
	looks  atomic.Int32

	queueFull, tooBig atomic.Uint64
	nextReport        atomic.Int64

	mu                     sync.Mutex
	fd                     int
	up, closed, hangs      bool
	err                    error // of the last attempt to connect
	serial                 uint32
	asked                  *request // the one without an answer
	events, unasked        []*Event
	released               map[uint32]bool    // bits
	streams                map[uint32]*stream // of this connection
	outdated               []*stream          // of former ones, open until all events are granted again
	untidy                 bool               // there may be streams without events
	queueFullSent, bigSent uint64
	tried                  chan struct{} // closed after the first attempt
	stop, ended            chan struct{}
	down                   chan struct{} // closed when this connection ends
	triedOnce              sync.Once
}

type request struct {
	answer uint16
	serial uint32
	events []*Event
}

// A stream is a file for records. Writers hold its lock for reading, so that its number is not another file's meanwhile.
type stream struct {
	mu       sync.RWMutex
	fd       int
	isSocket bool
}

// write never waits, whatever the daemon does with its end of the file.
func (s *stream) write(record []byte) (errno syscall.Errno) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	at, size := uintptr(unsafe.Pointer(&record[0])), uintptr(len(record))
	if s.isSocket {
		_, _, errno = syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(s.fd), at, size, syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
	} else {
		_, _, errno = syscall.RawSyscall(syscall.SYS_WRITE, uintptr(s.fd), at, size)
	}
	runtime.KeepAlive(record)
	return errno
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		syscall.Close(s.fd)
		s.fd = -1
	}
}

// Open connects in the background, and waits for the first attempt until ctx is done, two seconds at most. It fails only for lack of
// memory: without a daemon events are off, and Err says why.
func Open(ctx context.Context) (*Conn, error) {
	page, _, errno := syscall.Syscall6(syscall.SYS_MMAP, 0, pageFileBytes, syscall.PROT_READ,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE, ^uintptr(0), 0)
	if errno != 0 {
		return nil, errno
	}
	c := &Conn{paths: defaultPaths, fd: -1, streams: map[uint32]*stream{}, released: map[uint32]bool{}, tried: make(chan struct{}),
		stop: make(chan struct{}), ended: make(chan struct{}), down: make(chan struct{})}
	c.page = *(*unsafe.Pointer)(unsafe.Pointer(&page))
	if path := os.Getenv("USEREV_SOCKET"); path != "" && os.Getuid() == os.Geteuid() && os.Getgid() == os.Getegid() {
		c.paths = []string{path}
	}
	go c.run()
	limit := time.NewTimer(answerTimeout)
	defer limit.Stop()
	select {
	case <-c.tried:
	case <-limit.C:
	case <-ctx.Done():
	}
	return c, nil
}

// Err says why there is no daemon; nil if there is one.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.up {
		return nil
	}
	return c.err
}

// Close reports lost records, and releases all events, which are off from now on. The page stays: somebody may be testing a bit.
func (c *Conn) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.reportLosses()
		close(c.stop)
	}
	c.closed = true
	for _, e := range c.events {
		e.place.Store(&nowhere)
	}
	if c.fd >= 0 {
		syscall.Shutdown(c.fd, syscall.SHUT_RDWR)
	}
	c.mu.Unlock()
	<-c.ended
	return nil
}

// Lost returns how many records were lost because a queue was full, and because they were too big.
func (c *Conn) Lost() (queueFull, tooBig uint64) { return c.queueFull.Load(), c.tooBig.Load() }

// word returns a word of the page's file. Pages are counted byte by byte, so that its bits are turned on a big-endian machine.
func (c *Conn) word(at uintptr, bit uint32) (*uint32, uint32) {
	bitInWord := bit % 32
	if isBig {
		bitInWord ^= 24
	}
	return (*uint32)(unsafe.Add(c.page, at+uintptr(bit/32*4))), 1 << bitInWord
}

var isBig = func() bool { one := uint16(1); return *(*byte)(unsafe.Pointer(&one)) == 0 }()

// isAbandoned: no daemon updates the page any longer, and all of its bits are set.
func (c *Conn) isAbandoned() bool {
	word, mask := c.word(0, 0)
	return atomic.LoadUint32(word)&mask != 0
}

// run reads what the daemon sends. It is the only goroutine that does, and connects again when the connection has ended.
func (c *Conn) run() {
	pause := time.Duration(0)
	for {
		began := time.Now()
		wasUp, err := c.session()
		c.triedOnce.Do(func() { close(c.tried) })
		if wasUp && time.Since(began) > shortSession {
			pause = 0
		} else if !errors.Is(err, syscall.EAGAIN) {
			pause = min(max(2*pause, pauseMin), pauseMax)
		}
		if c.end(err) {
			break
		}
		select {
		case <-c.stop:
		case <-time.After(max(pause, 2*time.Millisecond)):
		}
	}
	close(c.ended)
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func max(a, b time.Duration) time.Duration { return a + b - min(a, b) }

// end closes the connection: events go on, until their page is abandoned or a new daemon has granted them. True when all is over.
func (c *Conn) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		syscall.Close(c.fd)
	}
	c.fd, c.up, c.hangs, c.err, c.asked, c.released = -1, false, false, err, nil, map[uint32]bool{}
	close(c.down)
	c.down = make(chan struct{})
	for _, s := range c.streams {
		c.outdated = append(c.outdated, s)
	}
	c.streams = map[uint32]*stream{}
	c.unasked = append([]*Event(nil), c.events...)
	c.closeOutdated(c.usedStreams())
	if c.closed {
		c.closeOutdated(nil)
		for i := range c.traces {
			c.setTrace(i, nil)
		}
	}
	return c.closed
}

func (c *Conn) closeOutdated(used map[*stream]bool) {
	outdated := c.outdated
	c.outdated = nil
	for _, s := range outdated {
		if used[s] {
			c.outdated = append(c.outdated, s)
		} else {
			s.close()
		}
	}
}

func (c *Conn) usedStreams() map[*stream]bool {
	used := map[*stream]bool{}
	for _, e := range c.events {
		used[e.place.Load().stream] = true
	}
	return used
}

func connect(paths []string) (fd int, err error) {
	for i, path := range paths {
		fd, err2 := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
		if err2 != nil {
			return -1, err2
		}
		limit := syscall.NsecToTimeval(int64(answerTimeout))
		syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit)
		syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 2*packetMax)
		if err2 = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path}); err2 == nil {
			return fd, nil
		}
		syscall.Close(fd)
		if i == 0 || errors.Is(err, syscall.ENOENT) {
			err = &os.PathError{Op: "connect", Path: path, Err: err2}
		}
	}
	return -1, err
}

// session is one connection, until its end.
func (c *Conn) session() (wasUp bool, err error) {
	fd, err := connect(c.paths)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	c.fd = fd
	if c.closed {
		err = errors.New("userev: closed")
	} else {
		err = c.send(kindHello, kindWelcome, helloBody(), nil)
	}
	c.mu.Unlock()
	data, control := make([]byte, packetMax), make([]byte, syscall.CmsgSpace(fdsMax*4))
	for err == nil {
		var n, m, flags int
		n, m, flags, _, err = syscall.Recvmsg(fd, data, control, msgCloexec)
		if err == syscall.EINTR {
			err = nil
			continue
		}
		if err == nil && n == 0 {
			err = errors.New("userev: the daemon has ended the connection")
		}
		if err != nil {
			break
		}
		fds := rights(control[:m])
		if flags&(syscall.MSG_TRUNC|syscall.MSG_CTRUNC) != 0 {
			err = errPacket
		} else {
			c.mu.Lock()
			err = c.take(data[:n], &fds)
			wasUp = wasUp || c.up
			c.mu.Unlock()
		}
		for _, fd := range fds { // those that nobody took
			syscall.Close(fd)
		}
	}
	return wasUp, err
}

func rights(control []byte) (fds []int) {
	messages, _ := syscall.ParseSocketControlMessage(control)
	for i := range messages {
		some, _ := syscall.ParseUnixRights(&messages[i])
		fds = append(fds, some...)
	}
	return fds
}

func takeFd(fds *[]int) (int, error) {
	if len(*fds) == 0 {
		return -1, errPacket
	}
	fd := (*fds)[0]
	*fds = (*fds)[1:]
	return fd, nil
}

// send sends a request, or LOST, which has no answer.
func (c *Conn) send(kind, answer uint16, body []byte, events []*Event) error {
	if answer == 0 {
		return syscall.Sendmsg(c.fd, encode(kind, 0, body), nil, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
	}
	c.serial++
	if c.serial == 0 {
		c.serial++
	}
	err := syscall.Sendmsg(c.fd, encode(kind, c.serial, body), nil, nil, syscall.MSG_NOSIGNAL|syscall.MSG_DONTWAIT)
	if err == nil {
		c.asked = &request{answer, c.serial, events}
	}
	return err
}

// ask sends the next request. There is one at a time, so that neither side waits for room while the other one does.
func (c *Conn) ask() error {
	if !c.up || c.asked != nil {
		return nil
	}
	if len(c.released) > 0 {
		n, body := 0, make([]byte, 4)
		for bit := range c.released {
			if n < batchMax {
				delete(c.released, bit)
				body = binary.LittleEndian.AppendUint32(body, bit)
				n++
			}
		}
		binary.LittleEndian.PutUint16(body, uint16(n))
		return c.send(kindRelease, kindReleased, body, nil)
	}
	n, body := 0, make([]byte, 4)
	for n < len(c.unasked) && n < batchMax && len(body) < packetMax-2*descriptionMax {
		body = appendItem(body, c.unasked[n].flags, c.unasked[n].description)
		n++
	}
	if n == 0 {
		if c.untidy {
			c.closeUnused()
		}
		return nil
	}
	binary.LittleEndian.PutUint16(body, uint16(n))
	err := c.send(kindRegister, kindRegistered, body, c.unasked[:n:n])
	if err == nil {
		c.unasked = c.unasked[n:]
	}
	return err
}

// closeUnused closes streams without events, which are charged as long as they are open. Nothing is asked.
func (c *Conn) closeUnused() {
	c.untidy = false
	used := c.usedStreams()
	for number, s := range c.streams {
		if !used[s] {
			s.close()
			delete(c.streams, number)
		}
	}
	c.closeOutdated(nil)
}

func (c *Conn) take(data []byte, fds *[]int) error {
	c.hangs = false
	p, err := decode(data)
	if err != nil || c.closed { // what is still queued has no effect
		return errPacket
	}
	switch {
	case p.kind == kindError:
		number, length := p.body.u16(), p.body.u16()
		return refusalOf(number, p.body.bytes(int(length)))
	case p.kind == kindChanged && p.serial == 0:
		return nil
	case p.kind == kindTraced && p.serial == 0:
		number := p.body.u32()
		fd, err := takeFd(fds)
		if err == nil && number >= tracesMax {
			syscall.Close(fd)
			err = errPacket
		}
		if err == nil {
			c.setTrace(int(number), &trace{stream: stream{fd: fd}})
			c.looks.Store(0)
		}
		return err
	case c.asked == nil && int32(p.serial-c.serial) <= 0, c.asked != nil && int32(p.serial-c.asked.serial) < 0:
		return nil // the answer of a daemon that was replaced comes twice
	case c.asked == nil, p.serial != c.asked.serial, p.kind != c.asked.answer:
		return errPacket
	}
	request := c.asked
	c.asked = nil
	if p.kind == kindWelcome {
		err = c.takeWelcome(p.body, fds)
	}
	for _, number := range p.streams {
		var fd int
		if fd, err = takeFd(fds); err != nil {
			return err
		}
		isSocket, ok := checkDataFile(fd)
		if !ok {
			syscall.Close(fd)
			return errPacket
		}
		if former := c.streams[number]; former != nil {
			c.outdated = append(c.outdated, former)
		}
		c.streams[number] = &stream{fd: fd, isSocket: isSocket}
		c.untidy = true
	}
	if err == nil && p.kind == kindRegistered {
		err = c.takeRegistered(p.body, request.events)
	}
	if err == nil {
		err = c.ask()
	}
	if err == nil && p.kind == kindWelcome {
		c.triedOnce.Do(func() { close(c.tried) })
	}
	return err
}

func (c *Conn) takeWelcome(body cursor, fds *[]int) error {
	page, err := takeFd(fds)
	if err != nil {
		return err
	}
	defer syscall.Close(page)
	body.u64()
	if bytes := body.u32(); body.bad || bytes != pageBytes {
		return errPacket
	}
	size, err := pageSize(page, c.fd)
	if err != nil {
		return err
	}
	c.traced.Store(false)
	// It takes the place of the last page at once: other goroutines may be testing its bits.
	mapped, _, errno := syscall.Syscall6(syscall.SYS_MMAP, 0, size, syscall.PROT_READ, syscall.MAP_SHARED, uintptr(page), 0)
	if errno == 0 {
		_, _, errno = syscall.Syscall6(syscall.SYS_MREMAP, mapped, size, size, mremapMayMove|mremapFixed, uintptr(c.page), 0)
	}
	if errno != 0 {
		return errno
	}
	// The events' places are the last daemon's until they are granted again.
	for _, e := range c.events {
		e.place.Store(&nowhere)
	}
	for i := range c.traces {
		c.setTrace(i, nil)
	}
	c.traced.Store(size == pageFileBytes)
	c.up = true
	return nil
}

func (c *Conn) takeRegistered(body cursor, events []*Event) error {
	answers, err := decodeRegistered(body)
	if err != nil || len(answers) != len(events) {
		return errPacket
	}
	for i, a := range answers {
		e := events[i]
		if a.refusal != 0 {
			e.refusal = refusalOf(a.refusal, a.text)
			c.forget(e)
		} else {
			s := c.streams[a.stream]
			if s == nil || a.bit == 0 || a.bit >= 8*pageBytes {
				return errPacket
			}
			word, mask := c.word(0, a.bit)
			e.place.Store(&place{word, mask, a.bit, s, a.index})
			delete(c.released, a.bit) // of another event
			if e.isReleased {
				c.release(e)
			}
		}
		e.answeredOnce.Do(func() { close(e.answered) })
	}
	return nil
}

// forget takes the event from the list; it is off.
func (c *Conn) forget(e *Event) {
	e.place.Store(&nowhere)
	for i := range c.events {
		if c.events[i] == e {
			c.events = append(c.events[:i:i], c.events[i+1:]...)
			return
		}
	}
}

// release gives the event back, unless another one of this connection is the same.
func (c *Conn) release(e *Event) {
	p := e.place.Load()
	c.forget(e)
	if p.stream == nil {
		return
	}
	for _, other := range c.events {
		if other.place.Load().bit == p.bit {
			return
		}
	}
	c.released[p.bit] = true
	c.untidy = true
}

// lose counts a lost record, and now and then tells the daemon.
func (c *Conn) lose(count *atomic.Uint64) {
	count.Add(1)
	now, next := time.Now().UnixNano(), c.nextReport.Load()
	if now >= next && c.nextReport.CompareAndSwap(next, now+int64(lossPause)) {
		c.mu.Lock()
		c.reportLosses()
		c.mu.Unlock()
	}
}

func (c *Conn) reportLosses() {
	full, big := c.queueFull.Load(), c.tooBig.Load()
	if c.up && (full != c.queueFullSent || big != c.bigSent) &&
		c.send(kindLost, 0, lostBody(full-c.queueFullSent, big-c.bigSent), nil) == nil {
		c.queueFullSent, c.bigSent = full, big
	}
}
