// SPDX-License-Identifier: LGPL-2.1-or-later

// Package userevslog makes an event of each record of log/slog: fixed columns, and the attributes as one JSON text. Records are not even
// formatted while nobody traces the event.
//
//	handler, err := userevslog.New(conn, "shop_log", slog.LevelDebug)
//	logger := slog.New(handler)
//	logger.Info("sold", "item", 12, "price", 3.5)
package userevslog

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"sync"
	"unicode/utf8"

	"userevd.dev/userev"
)

// Together they fit into the smallest payload, so that a long text is cut and not lost.
const (
	functionMax   = 200
	messageMax    = 1800
	attributesMax = 1800
)

// The attributes are in a group of this name, so that they are not taken for the columns.
const group = "a"

// A Handler emits a record for each record of a logger.
type Handler struct {
	event *userev.Event
	level slog.Leveler
	json  slog.Handler // writes attributes into text
	text  *text
}

type text struct {
	mu sync.Mutex
	bytes.Buffer
}

// New registers the event: "NAME s32 level; u32 line; __rel_loc char[] function; __rel_loc char[] message; __rel_loc char[] attributes".
// Records below the level are left out. It fails as [userev.Conn.Register] does; the handler can be used, and its event is off then.
func New(conn *userev.Conn, name string, level slog.Leveler) (*Handler, error) {
	event, err := conn.Register(name + " s32 level; u32 line; __rel_loc char[] function; __rel_loc char[] message; __rel_loc char[] attributes")
	return newHandler(event, level), err
}

func newHandler(event *userev.Event, level slog.Leveler) *Handler {
	h := &Handler{event: event, level: level, text: &text{}}
	withoutColumns := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 {
			return slog.Attr{}
		}
		return a
	}
	h.json = slog.NewJSONHandler(h.text, &slog.HandlerOptions{ReplaceAttr: withoutColumns}).WithGroup(group)
	return h
}

// Enabled tells whether the event is traced, and the level high enough.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool {
	return h.event.On() && level >= h.level.Level()
}

// Handle writes a record. Errors are counted as losses.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	h.text.mu.Lock()
	defer h.text.mu.Unlock()
	attributes, err := h.attributes(ctx, r)
	if err != nil {
		return err
	}
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	h.event.Begin().Uint32(uint32(int32(r.Level))).Uint32(uint32(frame.Line)).String(cut(frame.Function, functionMax)).
		String(cut(r.Message, messageMax)).String(cut(attributes, attributesMax)).End()
	return nil
}

// attributes is their JSON text, "{}" if there are none.
func (h *Handler) attributes(ctx context.Context, r slog.Record) (string, error) {
	h.text.Reset()
	if err := h.json.Handle(ctx, r); err != nil {
		return "", err
	}
	all := bytes.TrimSpace(h.text.Bytes())
	inner := bytes.TrimPrefix(all, []byte(`{"`+group+`":`))
	if len(inner) < len(all) {
		inner = inner[:len(inner)-1]
	}
	return string(inner), nil
}

// cut truncates at the end of a character.
func cut(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// WithAttrs returns a handler of the same event whose records have these attributes, too.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.event, h.level, h.json.WithAttrs(attrs), h.text}
}

// WithGroup returns a handler of the same event whose further attributes are in this group.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.event, h.level, h.json.WithGroup(name), h.text}
}
