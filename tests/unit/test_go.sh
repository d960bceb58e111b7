#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The client for Go, by Go's own tools. Its behaviour: tests/integration/test_conformance.py.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
cd client/go || exit 1
export B GOCACHE=$B/go CGO_ENABLED=0 GOFLAGS=-mod=mod GOPROXY=off

check 'gofmt changes nothing' says_nothing gofmt -l . ../../tests/conformance
check 'go vet finds nothing' go vet ./...
check 'its tests pass' go test -count=1 .
check 'the driver is a static program' says_nothing eval 'readelf -d "$B/tests/driver_go" 2>/dev/null | grep NEEDED'

# Debian 12 has no newer Go.
skipped=
if [ "$(printf '%s\n' go1.21 "$(go env GOVERSION)" | sort -V | head -1)" = go1.21 ]; then
	check 'the handler for log/slog passes its tests' eval 'cd slog && go vet . && go test -count=1 .'
else
	skipped='1 skipped: the handler for log/slog (needs Go 1.21)'
fi

# Debian's packages of Go are found below a GOPATH.
workspace=$(mktemp -d)
trap 'rm -rf "$workspace"' EXIT
mkdir -p "$workspace/src/userevd.dev" && ln -s "$PWD" "$workspace/src/userevd.dev/userev"
check 'the example for OpenTelemetry is right' \
	eval 'cd "$workspace/src/userevd.dev/userev/examples/otel" && GO111MODULE=off GOFLAGS= GOPATH=$workspace:/usr/share/gocode go vet .'
sum_up "$skipped"
