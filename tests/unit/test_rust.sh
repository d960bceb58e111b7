#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# The client for Rust, by Rust's own tools, and the machine code of an event that is off. Its behaviour:
# tests/integration/test_conformance.py.

cd "$(dirname "$0")/../.." || exit 1
. tests/checks.sh
export B
# Debian's, also where others are first in PATH.
export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTFMT=/usr/bin/rustfmt
export CARGO_HOME=$B/rust/home CARGO_TARGET_DIR=$B/rust CARGO_NET_OFFLINE=true RUSTFLAGS='-D warnings' RUSTDOCFLAGS='-D warnings'
off=$B/rust/off

# instructions FUNCTION: what it executes while the event is off: up to its first jump.
instructions()
{
	objdump -d --no-show-raw-insn --disassemble="$1" "$off" | sed -n "/<$1>:/,/^\$/p" | sed '1d; s/^[^:]*:\t*//; /^j/q'
}

loads()
{
	instructions "$1" | tee /dev/stderr | grep -v '^lea\|^push' | [ "$(grep -c '(')" -eq "$2" ]
}

branches()
{
	instructions "$1" | tee /dev/stderr | [ "$(grep -c '^j\|^call')" -eq 1 ] && instructions "$1" | tail -n 1 | grep '^j[^m]'
}

packs()
{
	local wanted='Cargo.toml README.md examples/hello.rs src/lib.rs src/sys.rs' files file
	make B="$B" DEPENDENCIES=skip crate || return
	files=$(tar -tzf "$B"/userev-0.1.0.crate) || return
	for file in $wanted; do
		has_line "^userev-0\.1\.0/$file\$" "$files" || return
	done
	! grep /tests/ <<<"$files"
}

runs_without_daemon()
{
	USEREV_SOCKET=/nonexistent timeout 20 "$@"
}

cd client/rust || exit 1
check 'rustfmt changes nothing' rustfmt --config-path . --edition 2021 --check src/lib.rs tests/client/main.rs examples/*.rs \
	../../tests/conformance/driver.rs
check 'clippy finds nothing' cargo clippy --quiet --all-targets
check 'the documentation has no faults' cargo doc --quiet --no-deps
check 'its tests pass' cargo test
check 'the example runs without a daemon' runs_without_daemon "$CARGO_TARGET_DIR/debug/examples/hello" 1
check 'an optimised example compiles' rustc --edition 2021 -O --extern userev="$B/rust/libuserev.rlib" -o "$off" examples/off.rs
cd ../..
if [ "$(uname -m)" = x86_64 ]; then
	check 'an event that is off costs two loads' loads visit 2
	check '… and one branch' branches visit
fi
runs_without_daemon "$off"
check 'the crate has what it needs' packs
check 'the driver is a static program' says_nothing eval 'readelf -d "$B/tests/driver_rust" 2>/dev/null | grep NEEDED'
sum_up
