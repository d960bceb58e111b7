#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-or-later
#
# coverage.sh BUILD: line and branch coverage of each file and folder after the tests ran in a build with COVERAGE=1, here and in guests.
# Fails below 85 % of a folder's lines. Enablers always end by SIGKILL, so their file has no counts.

set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
build=$1 least=85

# Guests write their counts to their share (run-tests.sh), below the path of the build on this machine.
for counted in "$build"/logs/*/coverage; do
	[ -d "$counted" ] || continue
	gcov-tool merge -o "$build/merged" "$build" "$counted$(realpath "$build")" 2>/dev/null && cp -r "$build/merged/." "$build" && rm -rf "$build/merged" "$counted" || exit
done

# "File 'x.c'", "Lines executed:97.12% of 314" and "Taken at least once:81.25% of 80" follow each other; a header's lines count for its includers.
find "$build" -name '*.gcda' -exec gcov -n -b {} + 2>/dev/null |
	awk -v least=$least '
		function part(count, hit) {
			return count ? sprintf("%6.1f %%", 100 * hit / count) : "       -"
		}
		function print_of(name) {
			printf "%s %s  %s (%d lines)\n", part(count[name, "lines"], hit[name, "lines"]), part(count[name, "branches"], hit[name, "branches"]), \
				name, count[name, "lines"]
		}
		function add(what,    field, names, i) {
			split($0, field, /[:% ]+/)
			folder = file
			sub(/[^\/]*$/, "", folder)
			split(file " " folder " together", names, " ")
			for (i = 1; i <= 3; i++) {
				count[names[i], what] += field[length(field)]
				hit[names[i], what] += field[length(field)] * field[length(field) - 2] / 100
				all[names[i]]
			}
		}
		/^File / { split($0, quoted, "\047"); file = quoted[2]; skip = file !~ /^(protocol|kernel|daemon|client)\/[a-z_0-9\/]*\.c$/ || file in all || file == "kernel/user_events/enabler.c" }
		/^Lines executed:/ && !skip { add("lines") }
		/^Taken at least once:/ && !skip { add("branches") }
		/^(Calls executed|No calls)/ { skip = 1 } # sums follow the last file
		END {
			for (name in all) {
				print_of(name)
				if (name ~ /\/$/ && 100 * hit[name, "lines"] < least * count[name, "lines"])
					low = 1
			}
			exit low
		}' | sort -b -k5
