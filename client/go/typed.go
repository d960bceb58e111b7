// SPDX-License-Identifier: LGPL-2.1-or-later

package userev

import (
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unsafe"
)

// A Typed is an event whose fields are those of a struct:
//
//	type request struct {
//		Status uint32
//		Ns     uint64
//		Path   string
//	}
//	requests, err := userev.Declare[request](conn, "shop_request")
//	requests.Emit(request{404, 4000, "/favicon.ico"})
//
// An event that is off costs no allocation.
type Typed[T any] struct {
	*Event
	fields []field
}

type field struct {
	offset uintptr
	kind   reflect.Kind
	size   int
}

// Declare registers an event with the exported fields of T: numbers, bool, string, []byte and [N]byte. A field is named status for Status
// and payload_size for PayloadSize, or by its tag `userev:"name"`; "-" leaves it out. Floats have their suffix, _f32 or _f64, added.
// It fails as Register does, and an event that failed is off, too.
func Declare[T any](c *Conn, name string, flags ...uint16) (*Typed[T], error) {
	var zero T
	of := reflect.TypeOf(zero)
	typed, described := &Typed[T]{}, []string{}
	if of == nil || of.Kind() != reflect.Struct {
		typed.Event = c.refuse(fmt.Sprintf("%v is not a struct", of))
		return typed, typed.Err()
	}
	for i := 0; i < of.NumField(); i++ {
		one := of.Field(i)
		named := one.Tag.Get("userev")
		if !one.IsExported() || named == "-" {
			continue
		}
		if named == "" {
			named = snake(one.Name)
		}
		description, size, err := describe(one.Type, named)
		if err != nil {
			typed.Event = c.refuse(fmt.Sprintf("the field %s of %v: %v", one.Name, of, err))
			return typed, typed.Err()
		}
		described = append(described, description)
		typed.fields = append(typed.fields, field{one.Offset, one.Type.Kind(), size})
	}
	event, err := c.Register(strings.TrimSpace(name+" "+strings.Join(described, "; ")), flags...)
	typed.Event = event
	return typed, err
}

// Emit writes a record if the event is on. Errors are counted as losses.
func (t *Typed[T]) Emit(v T) {
	if t.On() {
		t.emit(v)
	}
}

// Not inlined: only here is v moved to the heap.
//
//go:noinline
func (t *Typed[T]) emit(v T) {
	r := t.Begin()
	if r == nil {
		return
	}
	at := unsafe.Pointer(&v)
	for _, f := range t.fields {
		f.add(r, unsafe.Add(at, f.offset))
	}
	r.End()
}

func (f *field) add(r *Record, at unsafe.Pointer) {
	switch f.kind {
	case reflect.String:
		r.String(*(*string)(at))
	case reflect.Slice:
		r.Bytes(*(*[]byte)(at))
	default:
		r.number(at, f.size)
	}
}

var types = map[reflect.Kind]string{
	reflect.Bool: "u8", reflect.Uint8: "u8", reflect.Int8: "s8", reflect.Uint16: "u16", reflect.Int16: "s16", reflect.Uint32: "u32",
	reflect.Int32: "s32", reflect.Uint64: "u64", reflect.Int64: "s64", reflect.Float32: "u32", reflect.Float64: "u64",
}

func describe(of reflect.Type, name string) (description string, size int, err error) {
	switch kind := of.Kind(); {
	case kind == reflect.Float32:
		name = strings.TrimSuffix(name, "_f32") + "_f32"
	case kind == reflect.Float64:
		name = strings.TrimSuffix(name, "_f64") + "_f64"
	case kind == reflect.String:
		return "__rel_loc char[] " + name, 0, nil
	case kind == reflect.Slice && of.Elem().Kind() == reflect.Uint8:
		return "__rel_loc u8[] " + name, 0, nil
	case kind == reflect.Array && of.Elem().Kind() == reflect.Uint8:
		return fmt.Sprintf("char[%d] %s", of.Len(), name), of.Len(), nil
	}
	if known, ok := types[of.Kind()]; ok {
		return known + " " + name, int(of.Size()), nil
	}
	return "", 0, fmt.Errorf("%v has no fixed size, or is no type of an event: use int64, uint64, string, []byte or [N]byte", of)
}

// snake makes payload_size of PayloadSize.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(rune(name[i-1])) {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
