module userevd.dev/userev/slog

go 1.21

require userevd.dev/userev v0.1.0

replace userevd.dev/userev => ../
