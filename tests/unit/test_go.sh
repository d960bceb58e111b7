#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The client for Go, by Go's own tools. Its behaviour: tests/integration/test_conformance.py.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
cd client/go || exit 1
export GOCACHE=$B/go CGO_ENABLED=0 GOFLAGS=-mod=mod GOPROXY=off

check 'gofmt changes nothing' says_nothing gofmt -l . ../../tests/conformance
check 'go vet finds nothing' go vet .
check 'its tests pass' go test -count=1 .
check 'the driver is a static program' says_nothing eval 'readelf -d "$B/tests/driver_go" 2>/dev/null | grep NEEDED'
sum_up
