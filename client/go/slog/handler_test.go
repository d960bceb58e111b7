// SPDX-License-Identifier: LGPL-2.1-or-later

package userevslog

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"userevd.dev/userev"
)

func alone(t *testing.T) *Handler {
	t.Setenv("USEREV_SOCKET", t.TempDir()+"/nobody")
	conn, err := userev.Open(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	handler, err := New(conn, "go_log", slog.LevelInfo)
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

func TestNothingIsFormattedWhileTheEventIsOff(t *testing.T) {
	logger := slog.New(alone(t))
	if n := testing.AllocsPerRun(100, func() { logger.Error("sold") }); n != 0 {
		t.Fatalf("%g allocations", n)
	}
}

func TestAttributesAreOneText(t *testing.T) {
	h := alone(t)
	r := slog.NewRecord(time.Now(), slog.LevelInfo, "sold", 0)
	for _, one := range []struct {
		handler slog.Handler
		attrs   []slog.Attr
		wanted  string
	}{
		{h, nil, `{}`},
		{h, []slog.Attr{slog.Int("item", 12), slog.String("msg", "mine"), slog.String("level", "low")}, `{"item":12,"msg":"mine","level":"low"}`},
		{h.WithAttrs([]slog.Attr{slog.Bool("new", true)}).WithGroup("g"), []slog.Attr{slog.String("a", "{\"")}, `{"new":true,"g":{"a":"{\""}}`},
	} {
		r := r.Clone()
		r.AddAttrs(one.attrs...)
		if got, err := one.handler.(*Handler).attributes(context.Background(), r); err != nil || got != one.wanted {
			t.Errorf("%s instead of %s (%v)", got, one.wanted, err)
		}
	}
}

func TestLongTextsAreCutBetweenCharacters(t *testing.T) {
	if got := cut(strings.Repeat("ä", 1000), 1801); len(got) != 1800 {
		t.Fatal(len(got))
	}
	if got := cut("short", 1800); got != "short" {
		t.Fatal(got)
	}
}
