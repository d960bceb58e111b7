#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# coverage.sh DIRECTORY: the share of lines that the corpora of all harnesses reach, in each file that reads foreign input and in the
# whole daemon. The harnesses there were built with clang's -fprofile-instr-generate -fcoverage-mapping.

set -eu -o pipefail
cd "$(dirname "$0")/../.."
directory=$1 programs=("$1"/fuzz_*)
files=(protocol/{decode,row}.c protocol/event/{description,record}.c daemon/identity/cgroup.c daemon/ledger/ledger.c daemon/policy
	kernel/rpc/message.c client/userevctl/tracing/text.c daemon)

for program in "${programs[@]}"; do
	harness=${program##*/fuzz_}
	LLVM_PROFILE_FILE=$directory/$harness.profraw "$program" -runs=0 "tests/fuzz/corpus/$harness" >"$directory/$harness.log" 2>&1
done
llvm-profdata merge -o "$directory/all.profdata" "$directory"/*.profraw

for file in "${files[@]}"; do
	llvm-cov export --summary-only --instr-profile="$directory/all.profdata" "${programs[0]}" "${programs[@]/#/--object=}" -- "$file" |
		jq --raw-output --arg file "$file" '.data[0].totals.lines | [.percent, .count, $file] | @tsv'
done | awk -F '\t' '{ printf "  %6.1f %%  of %5d lines  %s\n", $1, $2, $3 }'
