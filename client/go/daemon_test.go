// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

const quota = 5000

// start runs the daemon of the build $B on the socket of $USEREV_SOCKET.
func start(t *testing.T) (kill func()) {
	if os.Getenv("B") == "" {
		t.Skip("B= names the build with the daemon")
	}
	ready, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	socket := os.Getenv("USEREV_SOCKET")
	daemon := exec.Command(os.Getenv("B")+"/userevd", "--foreground", "--backend=embedded", "--ready-fd=3", fmt.Sprintf("--max-events=%d", quota),
		"--socket="+socket, "--control-socket="+socket+".control")
	daemon.ExtraFiles = []*os.File{end}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	end.Close()
	ready.Read(make([]byte, 1))
	ready.Close()
	kill = func() {
		daemon.Process.Kill()
		daemon.Wait()
	}
	t.Cleanup(kill)
	return kill
}

func eventually(t *testing.T, what string, is func() bool) {
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func isGranted(e *Event) bool { return e.place.Load() != &nowhere }

func TestThousandsOfEventsSurviveTheirDaemon(t *testing.T) {
	t.Setenv("USEREV_SOCKET", t.TempDir()+"/socket")
	kill := start(t)
	conn, err := Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	events := make([]*Event, quota)
	for i := range events {
		if events[i], err = conn.Register(fmt.Sprintf("go_%d u32 x", i)); err != nil || !isGranted(events[i]) {
			t.Fatal(i, err)
		}
	}
	var refusal *Refusal
	if _, err := conn.Register("one_more"); !errors.As(err, &refusal) || !strings.Contains(err.Error(), fmt.Sprintf("%d of %d events", quota, quota)) {
		t.Fatal(err)
	}

	var emitters sync.WaitGroup
	stop := make(chan struct{})
	for i := 0; i < 8; i++ {
		emitters.Add(1)
		go func(i int) {
			defer emitters.Done()
			for {
				select {
				case <-stop:
					return
				default:
					events[i].Begin().Uint32(1).End()
				}
			}
		}(i)
	}
	kill()
	eventually(t, "the connection did not end", func() bool { return conn.Err() != nil })
	start(t)
	eventually(t, "the new daemon is not found", func() bool { return conn.Err() == nil })
	for i, event := range events {
		eventually(t, fmt.Sprintf("event %d is not granted again", i), func() bool { return isGranted(event) })
	}
	close(stop)
	emitters.Wait()
	events[0].Release()
	if _, err := conn.Register("another"); err != nil {
		t.Fatal(err)
	}
}
