#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tidy.sh SOURCE…: clang-tidy, and cppcheck without the tests, both clean, and plain words. Suppressions and their reasons are in
# .clang-tidy and below.

set -u
. tests/foreign_headers.sh
failed=0

# unless_known VERSION COMMAND SOURCE…: runs the command for each source, whose name replaces {}, and options for its headers HEADERS.
unless_known()
{
	local version=$1 template=$2 command
	shift 2
	printf '%s\n' "$@" | while read -r source; do
		command=${template/HEADERS/$(foreign_headers "$source")}
		printf '%s\t%s\n' "$source" "${command//\{\}/$source}"
	done | tests/unless-known.py "$version" || failed=1
}

# Types are errors: some benchmarks are built nowhere else in CI.
unless_known "$(clang-tidy --version; cat .clang-tidy)" "clang-tidy --quiet {} -- -Werror=incompatible-pointer-types -std=c17 -D_GNU_SOURCE \
	-DVERSION='\"0\"' -I. -Iclient -isystem ${B:-build}/skeleton $(pkg-config --cflags libtracefs check)HEADERS 2>/dev/null" "$@"

# missingIncludeSystem, unknownMacro: about cppcheck itself. ctuuninitvar: calls a struct uninitialised that a function fills in. cppcheck does
# not find the loop macros of this header.
queue=$(echo '#include <sys/queue.h>' | gcc -E - | sed -n 's/^# 1 "\(.*queue\.h\)".*/\1/p')
# shellcheck disable=SC2046 # names without blanks
unless_known "$(cppcheck --version)" "cppcheck --quiet --include=$queue --std=c11 --enable=warning,performance,portability --inline-suppr \
	--error-exitcode=1 -D_GNU_SOURCE -DVERSION='\"0\"' -I. --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=ctuuninitvar \
	--suppress='*:/usr/include/*' {}" $(printf '%s\n' "$@" | grep -v '^tests/')

# Phrases that hide the actor, or are metaphors: name the client, the tenant or the daemon, and the effect (logs, returns, sends). A
# phrase is found across the ends of lines, too.
phrases='whoever|is told|himself|let go of|cut off|none of them is|second hand|said so'
git ls-files -z . ':!tests/tidy.sh' ':!tests/fuzz/corpus' ':!LICENSE' ':!systemd/debian/copyright' |
	PHRASES=$phrases xargs -0 perl -0777 -ne 'tr!\x00-\x20/*#.! !s; while (/(.{0,40}\b(?:$ENV{PHRASES})\b.{0,20})/gi) { print "$ARGV: not plain: $1\n"; $bad = 1 }
		END { exit $bad }' || failed=1

# A conflict of a merge in a script is found by nothing else.
! git grep -nE '^(<<<<<<<|>>>>>>>) ' || failed=1

# The old text of each fault exists in the sources.
tests/mutants/mutants.py --check >/dev/null || failed=1

exit $failed
