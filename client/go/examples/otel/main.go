// SPDX-License-Identifier: LGPL-2.1-or-later

// Spans of OpenTelemetry as trace events: each span that ends is a record, beside those of the kernel and of other programs. Nothing is
// exported, and a span costs nothing more while nobody traces the event.
package main

import (
	"context"
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"userevd.dev/userev"
)

// Columns of fixed size first, so that filters and histograms of the kernel can use them.
const description = "otel_span u64 duration_ns; u32 kind; u32 status; char[32] trace_id; char[16] span_id; char[16] parent_id; " +
	"__rel_loc char[] name; __rel_loc char[] attributes"

// A processor is a [sdk.SpanProcessor].
type processor struct{ event *userev.Event }

func newProcessor(conn *userev.Conn) (processor, error) {
	event, err := conn.Register(description)
	return processor{event}, err
}

func (p processor) OnStart(context.Context, sdk.ReadWriteSpan) {}

func (p processor) OnEnd(span sdk.ReadOnlySpan) {
	r := p.event.Begin()
	if r == nil {
		return
	}
	trace, id, parent := span.SpanContext().TraceID(), span.SpanContext().SpanID(), span.Parent().SpanID()
	set := attribute.NewSet(span.Attributes()...)
	r.Uint64(uint64(span.EndTime().Sub(span.StartTime()))).Uint32(uint32(span.SpanKind())).Uint32(uint32(span.Status().Code)).
		Fixed([]byte(trace.String()), 32).Fixed([]byte(id.String()), 16).Fixed([]byte(parent.String()), 16).
		String(span.Name()).String(set.Encoded(attribute.DefaultEncoder())).End()
}

func (p processor) Shutdown(context.Context) error {
	p.event.Release()
	return nil
}

func (p processor) ForceFlush(context.Context) error { return nil }

func main() {
	conn, err := userev.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	spans, err := newProcessor(conn)
	if err != nil {
		log.Print(err) // the program runs the same
	}
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans))
	defer provider.Shutdown(context.Background())
	otel.SetTracerProvider(provider)

	ctx, order := otel.Tracer("shop").Start(context.Background(), "order")
	_, payment := otel.Tracer("shop").Start(ctx, "payment")
	payment.SetAttributes(attribute.Int("cents", 399))
	payment.End()
	order.End()
}
