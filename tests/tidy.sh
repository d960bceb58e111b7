#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# tidy.sh SOURCE…: clang-tidy and cppcheck, both clean. Suppressions and their reasons are in .clang-tidy and below.

set -u
flags=(-std=c17 -D_GNU_SOURCE '-DVERSION="0"' -I. -Iclient -isystem "${B:-build}/skeleton" $(pkg-config --cflags libtracefs check))
failed=0

# Two at a time: the machines have two cores.
printf '%s\0' "$@" | xargs -0 -P "$(nproc)" -n 4 sh -c '
	out=$(clang-tidy --quiet "$@" -- '"$(printf '%q ' "${flags[@]}")"' 2>/dev/null)
	[ -z "$out" ] || { printf "%s\n" "$out"; exit 1; }' sh || failed=1

# normalCheckLevelMaxBranches, missingIncludeSystem: about cppcheck itself. unusedStructMember: wire structs name padding.
# ConfigurationNotChecked: kernel versions. constParameter…: callbacks have the types that their callers want.
cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j"$(nproc)" \
	-D_GNU_SOURCE '-DVERSION="0"' -I. --suppress=missingIncludeSystem --suppress=unknownMacro \
	--suppress='*:/usr/include/*' --suppress='*:tests/*' "$@" || failed=1

exit $failed
