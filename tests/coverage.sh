#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# coverage.sh BUILD: line coverage of each folder after the tests ran in a build with COVERAGE=1. Fails below 85 %.

set -u
cd "$(dirname "$0")/.." || exit 1
build=$1 least=85 status=0

# "Lines executed:97.12% of 314" follows "File 'x.c'"; a header's lines count for its includers.
find "$build" -name '*.gcda' -exec gcov -n {} + 2>/dev/null |
	awk -v least=$least '
		/^File / { split($0, quoted, "\047"); file = quoted[2] }
		/^Lines executed:/ && file ~ /^(protocol|kernel|daemon|client)\/[a-z_0-9\/]*\.c$/ && !(file in seen) {
			seen[file] = 1
			split($0, part, /[:% ]+/)
			folder = file
			sub(/\/[^\/]*$/, "", folder)
			lines[folder] += part[5]
			hit[folder] += part[5] * part[3] / 100
			printf "  %6.1f %%  %s\n", part[3], file
		}
		END {
			for (folder in lines) {
				percent = 100 * hit[folder] / lines[folder]
				printf "%6.1f %%  %s/ (%d lines)\n", percent, folder, lines[folder]
				if (percent < least)
					low = 1
			}
			exit low
		}' | sort -k3 || status=1
[ "${PIPESTATUS[1]:-0}" = 0 ] || status=1
exit $status
