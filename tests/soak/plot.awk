# SPDX-License-Identifier: GPL-2.0-or-later
#
# The lines of figures of tests/soak/test_soak, as one line of bars for each: from its smallest to its largest number over the time.

BEGIN {
	split("▁ ▂ ▃ ▄ ▅ ▆ ▇ █", bar, " ")
	width = 60
}

$1 == "figures:" && !columns {
	columns = NF
	for (i = 2; i <= NF; i++)
		name[i] = $i
	next
}

$1 == "figures:" {
	n++
	for (i = 2; i <= columns; i++) {
		figure[n, i] = $i
		least[i] = n == 1 || $i < least[i] ? $i + 0 : least[i]
		most[i] = n == 1 || $i > most[i] ? $i + 0 : most[i]
	}
}

END {
	for (i = 4; i <= columns && n; i++) {
		line = ""
		for (at = 0; at < (n < width ? n : width); at++) {
			number = figure[1 + int(at * n / (n < width ? n : width)), i]
			line = line bar[1 + int((number - least[i]) * 7 / (most[i] > least[i] ? most[i] - least[i] : 1))]
		}
		printf "%-14s %s %d to %d\n", name[i], line, least[i], most[i]
	}
}
