// SPDX-License-Identifier: GPL-2.0-or-later

// The driver of the client for Go: see README.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"userevd.dev/userev"
)

type field struct {
	kind, name string
	count      int // of an array; 0: a number
	element    int // bytes
	signed     bool
}

type driven struct {
	event  *userev.Event
	fields []field
}

var (
	connections [4]*userev.Conn
	current     *userev.Conn
	events                       = map[*userev.Conn]map[string]*driven{}
	order       binary.ByteOrder = binary.LittleEndian
	sizes                        = map[string]int{"8": 1, "16": 2, "32": 4, "64": 8, "char": 1, "short": 2, "int": 4}
	form                         = regexp.MustCompile(`^(__rel_loc |__data_loc )?((?:unsigned )?[a-z0-9]+)(?:\[(\d*)\])? (\w+)$`)
)

func parse(description string) (name string, fields []field) {
	name, rest, _ := strings.Cut(strings.TrimSpace(description), " ")
	name, _, _ = strings.Cut(name, ":")
	for _, one := range strings.Split(rest, ";") {
		words := strings.Fields(one)
		if len(words) == 4 && words[0] == "struct" {
			n, _ := strconv.Atoi(words[3])
			fields = append(fields, field{"struct", words[2], n, 1, false})
		} else if m := form.FindStringSubmatch(strings.Join(words, " ")); m != nil {
			of := strings.TrimPrefix(m[2], "unsigned ")
			f := field{strings.TrimSpace(m[1]), m[4], 0, sizes[strings.TrimLeft(of, "su")], of == m[2] && of[0] != 'u'}
			if of == "short" || of == "char" || of == "int" {
				f.element = sizes[of]
			}
			f.count, _ = strconv.Atoi(m[3])
			if f.kind == "" && f.count > 0 {
				f.kind = "chars"
			} else if f.kind != "" && of == "char" {
				f.kind += " text"
			}
			fields = append(fields, f)
		}
	}
	return name, fields
}

func number(out []byte, text string, f field) ([]byte, error) {
	value, ok := new(big.Int).SetString(text, 10)
	bits := uint(8 * f.element)
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), bits)
	if f.signed {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if !ok || value.Cmp(low) < 0 || value.Cmp(high) >= 0 {
		return out, fmt.Errorf("%s is outside of %s", text, f.name)
	}
	var b [8]byte
	order.PutUint64(b[:], new(big.Int).And(value, new(big.Int).SetUint64(1<<64-1)).Uint64())
	if order == binary.ByteOrder(binary.BigEndian) {
		return append(out, b[8-f.element:]...), nil
	}
	return append(out, b[:f.element]...), nil
}

func bytesOf(value string, f field) (out []byte, err error) {
	switch {
	case strings.HasPrefix(value, `"`):
		text, err := url.PathUnescape(value[1:])
		return []byte(text), err
	case strings.HasPrefix(value, "#"):
		return hex.DecodeString(value[1:])
	}
	for _, one := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("[],", r) }) {
		if out, err = number(out, one, f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func build(fields []field, values map[string]string) (payload []byte, err error) {
	type dynamic struct {
		at   int
		f    field
		data []byte
	}
	var later []dynamic
	for _, f := range fields {
		value, ok := values[f.name]
		if !ok {
			return nil, fmt.Errorf("%s has no value", f.name)
		}
		delete(values, f.name)
		data, err := bytesOf(value, f)
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasSuffix(f.kind, "text"):
			data = append(data, 0)
			fallthrough
		case strings.HasPrefix(f.kind, "__"):
			later = append(later, dynamic{len(payload), f, data})
			data = make([]byte, 4)
		case f.kind == "struct" && len(data) != f.count, f.kind == "chars" && len(data) > f.count:
			return nil, fmt.Errorf("%s takes %d bytes", f.name, f.count)
		case f.kind == "chars":
			data = append(data, make([]byte, f.count-len(data))...)
		}
		payload = append(payload, data...)
	}
	for name := range values {
		return nil, fmt.Errorf("%s is not a field", name)
	}
	for _, d := range later {
		offset := len(payload) - d.at - 4
		if strings.HasPrefix(d.f.kind, "__data") {
			offset = len(payload) + 8
		}
		order.PutUint32(payload[d.at:], uint32(len(d.data))<<16|uint32(offset)&0xffff)
		payload = append(payload, d.data...)
	}
	return payload, nil
}

func use(number string) string {
	i, _ := strconv.Atoi(number)
	if connections[i] == nil {
		connections[i], _ = userev.Open(context.Background())
		events[connections[i]] = map[string]*driven{}
	}
	current = connections[i]
	return "ok"
}

func register(description string) string {
	name, fields := parse(description)
	event, err := current.Register(description)
	if err != nil {
		return "refused " + err.Error()
	}
	if former := events[current][name]; former == nil || former.event.Err() != nil {
		events[current][name] = &driven{event, fields}
	}
	return "ok"
}

func await(name, wanted string) string {
	for end := time.Now().Add(time.Minute); events[current][name].event.On() != (wanted == "yes") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	if events[current][name].event.On() {
		return "yes"
	}
	return "no"
}

func write(name string, words []string) string {
	values := map[string]string{}
	for _, word := range words {
		field, value, _ := strings.Cut(word, "=")
		values[field] = value
	}
	payload, err := build(events[current][name].fields, values)
	if err != nil {
		return "wrong " + err.Error()
	}
	written, err := events[current][name].event.Write(payload)
	switch {
	case err != nil:
		return "lost " + err.Error()
	case written:
		return "written"
	}
	return "off"
}

func release(name string) string {
	events[current][name].event.Release()
	delete(events[current], name)
	return "ok"
}

func measure(name, turns string) string {
	event, begin := events[current][name].event, time.Now()
	n, _ := strconv.Atoi(turns)
	for i := 0; i < n; i++ {
		event.Begin().Uint32(404).Uint64(uint64(i)).String("/favicon.ico").End()
	}
	return strconv.FormatInt(time.Since(begin).Nanoseconds(), 10)
}

func main() {
	one := uint16(1)
	if *(*byte)(unsafe.Pointer(&one)) == 0 {
		order = binary.BigEndian
	}
	use("0")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		words := strings.Split(lines.Text(), "\t")
		answer := "error"
		switch {
		case words[0] == "can":
			answer = "hold answer connections"
		case words[0] == "use":
			answer = use(words[1])
		case words[0] == "register":
			answer = register(words[1])
		case events[current][words[1]] == nil:
			answer = "error: there is no event " + words[1]
		case words[0] == "await":
			answer = await(words[1], words[2])
		case words[0] == "write":
			answer = write(words[1], words[2:])
		case words[0] == "measure":
			answer = measure(words[1], words[2])
		case words[0] == "release":
			answer = release(words[1])
		}
		fmt.Println(answer)
	}
	for _, c := range connections {
		if c != nil {
			c.Close()
		}
	}
}
