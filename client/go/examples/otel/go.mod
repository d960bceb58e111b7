module userevd.dev/userev/examples/otel

go 1.19

require (
	go.opentelemetry.io/otel v1.1.0
	go.opentelemetry.io/otel/sdk v1.1.0
	userevd.dev/userev v0.1.0
)

replace userevd.dev/userev => ../..
