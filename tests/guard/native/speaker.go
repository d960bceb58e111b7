// SPDX-License-Identifier: GPL-2.0-or-later

// As speaker.c.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	events   = 64
	regBytes = 28
	diagIreg = 0xC0082A00
)

// Variables of a package do not move.
var enabled [events]uint32
var reg [events][regBytes]byte

func register(file int, i int, name string) {
	description := append([]byte(name+" u32 number"), 0)
	order := binary.LittleEndian

	order.PutUint32(reg[i][0:], regBytes)
	reg[i][5] = 4
	order.PutUint64(reg[i][8:], uint64(uintptr(unsafe.Pointer(&enabled[i]))))
	order.PutUint64(reg[i][16:], uint64(uintptr(unsafe.Pointer(&description[0]))))
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(file), diagIreg, uintptr(unsafe.Pointer(&reg[i][0])))
	if errno != 0 {
		fmt.Printf("%s: error %d\n", name, int(errno))
	} else {
		fmt.Printf("%s: registered\n", name)
	}
}

func main() {
	file, err := syscall.Open("/sys/kernel/tracing/user_events_data", syscall.O_WRONLY, 0)
	if err != nil {
		fmt.Printf("open: error %d\n", int(err.(syscall.Errno)))
		os.Exit(1)
	}
	for i, name := range os.Args[1:] {
		register(file, i, name)
	}
	for number := uint32(0); ; number++ {
		for i := range os.Args[1:] {
			if atomic.LoadUint32(&enabled[i])&1 == 0 {
				continue
			}
			record := append([]byte{}, reg[i][24:28]...)
			record = append(record, 0, 0, 0, 0)
			binary.LittleEndian.PutUint32(record[4:], number)
			if _, err := syscall.Write(file, record); err != nil {
				fmt.Println("write:", err)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
