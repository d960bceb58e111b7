#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tidy.sh SOURCE…: clang-tidy and cppcheck, both clean, and plain words. Suppressions and their reasons are in .clang-tidy and below.

# shellcheck disable=SC2089,SC2090 # the quotes in FLAGS are the compiler's

set -u
export FLAGS
FLAGS="-std=c17 -D_GNU_SOURCE -DVERSION=\"0\" -I. -Iclient -isystem ${B:-build}/skeleton $(pkg-config --cflags libtracefs check)"
failed=0

# With comments, for some are addressed to clang-tidy.
# shellcheck disable=SC2086 # words
check()
{
	{ clang-tidy --version; cat .clang-tidy; clang -E -CC $FLAGS "$1"; } |
		tests/unless-known.sh clang-tidy --quiet "$1" -- $FLAGS 2>/dev/null
}
export -f check
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 1 bash -c 'check "$1"' bash || failed=1

# normalCheckLevelMaxBranches, missingIncludeSystem: about cppcheck itself. unusedStructMember: wire structs name padding.
# ConfigurationNotChecked: kernel versions. constParameter…: callbacks have the types that their callers want.
# Its loops are macros, which cppcheck does not find by itself.
queue=$(echo '#include <sys/queue.h>' | gcc -E - | sed -n 's/^# 1 "\(.*queue\.h\)".*/\1/p')
cppcheck --quiet --include="$queue" --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j"$(nproc)" \
	-D_GNU_SOURCE '-DVERSION="0"' -I. --suppress=missingIncludeSystem --suppress=unknownMacro \
	--suppress='*:/usr/include/*' --suppress='*:tests/*' "$@" || failed=1

# Phrases that hide the actor, or are metaphors: name the client, the tenant or the daemon, and the effect (logs, returns, sends). The
# list of places grows as they are cleaned. A phrase is found across the ends of lines, too.
plain=(README.md SECURITY.md client/TUTORIAL.md client/*.[3h] client/examples client/library client/python systemd/policy.d-examples
	daemon/admin daemon/identity daemon/ledger daemon/policy daemon/process daemon/quota daemon/recovery
	tests/unit/daemon/identity tests/unit/daemon/ledger tests/unit/daemon/policy tests/unit/daemon/process
	tests/unit/daemon/quota tests/unit/daemon/recovery
	systemd/userevd-containers.7 tests/bench/REPORT.md tests/conformance tests/unit/client/library)
phrases='whoever|is told|himself|let go of|cut off|none of them is'
while read -r file; do
	found=$(tr -s '[:space:]/*#.' ' ' <"$file" | grep -oEi ".{0,40}\b($phrases)\b.{0,20}") || continue
	printf '%s: not plain: %s\n' "$file" "$found"
	failed=1
done < <(git ls-files "${plain[@]}")

# The faults that tests have to find have to be in the sources.
tests/mutants/mutants.py --check >/dev/null || failed=1

exit $failed
