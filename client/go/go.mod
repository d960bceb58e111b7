module userevd.dev/userev

go 1.19
