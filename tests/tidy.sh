#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tidy.sh SOURCE…: clang-tidy, and cppcheck without the tests, both clean, and plain words. Suppressions and their reasons are in
# .clang-tidy and below.

# shellcheck disable=SC2089,SC2090 # the quotes in FLAGS are the compiler's

set -u
export FLAGS VERSION
VERSION=$(clang-tidy --version)
# Types are errors: some benchmarks are built nowhere else in CI.
FLAGS="-Werror=incompatible-pointer-types -std=c17 -D_GNU_SOURCE -DVERSION=\"0\" -I. -Iclient -isystem ${B:-build}/skeleton $(pkg-config --cflags libtracefs check)"
failed=0

# With comments, since some are for clang-tidy.
# shellcheck disable=SC2086 # words
check()
{
	{ echo "$VERSION"; cat .clang-tidy; clang -E -CC $FLAGS "$1"; } |
		tests/unless-known.sh clang-tidy --quiet "$1" -- $FLAGS 2>/dev/null
}
export -f check
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 bash -c 'check "$1"' bash || failed=1

# missingIncludeSystem, unknownMacro: about cppcheck itself. It does not find the loop macros of this header.
queue=$(echo '#include <sys/queue.h>' | gcc -E - | sed -n 's/^# 1 "\(.*queue\.h\)".*/\1/p')
# shellcheck disable=SC2046 # names without blanks
cppcheck --quiet --include="$queue" --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j"$(nproc)" \
	-D_GNU_SOURCE '-DVERSION="0"' -I. --suppress=missingIncludeSystem --suppress=unknownMacro \
	--suppress='*:/usr/include/*' $(printf '%s\n' "$@" | grep -v '^tests/') || failed=1

# Phrases that hide the actor, or are metaphors: name the client, the tenant or the daemon, and the effect (logs, returns, sends). A
# phrase is found across the ends of lines, too.
phrases='whoever|is told|himself|let go of|cut off|none of them is|second hand|said so'
while read -r file; do
	found=$(tr -s '[:space:]/*#.' ' ' <"$file" | grep -oEi ".{0,40}\b($phrases)\b.{0,20}") || continue
	printf '%s: not plain: %s\n' "$file" "$found"
	failed=1
done < <(git ls-files . ':!tests/tidy.sh' ':!tests/fuzz/corpus' ':!LICENSE' ':!systemd/debian/copyright')

# A conflict of a merge in a script is found by nothing else.
! git grep -nE '^(<<<<<<<|>>>>>>>) ' || failed=1

# The old text of each fault exists in the sources.
tests/mutants/mutants.py --check >/dev/null || failed=1

exit $failed
