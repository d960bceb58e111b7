/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/tracing/hist_line.h"
#include "tests/suite.h"

TEST(line_of_a_histogram_has_keys_hits_and_sums)
{
	static const struct hist_names one = { { "us", "ns" }, 1, 2 }, two = { { "path", "us" }, 2, 2 };
	static const struct {
		const char *line;
		const struct hist_names *names;
		const char *first, *second; /* NULL: it is no line with values */
		uint64_t hits;
	} cases[] = {
		{ "{ us: ~ 2^10 } hitcount:         60  ns:        123", &one, "~ 2^10", "123", 60 },
		{ "{ us:          7 } hitcount:          1  ns:          0", &one, "7", "0", 1 },
		{ "{ path: /cart                              , us:          5 } hitcount:          2", &two, "/cart",
		  "5", 2 },
		{ "{ path:                                    , us:          5 } hitcount:          2", &two, "", "5",
		  2 },
		/* text of a program */
		{ "{ path: } hitcount: 9, us: 3 } hitcount:          2", &two, "} hitcount: 9", "3", 2 },
		{ "{ path: a, us: 1, us:          5 } hitcount:          2", &two, "a", "1, us:          5", 2 },
		{ "{ path:                , us:         3 } hitcount:          4", &two, "", "3", 4 },
		{ "{ path: /, us:    } hitcount:          4", &two, "/", "", 4 },
		{ "# trigger info: hist:keys=us:vals=hitcount", &one, NULL, NULL, 0 },
		{ "Totals:", &one, NULL, NULL, 0 },
		{ "{ us: 7 } hitcount: 1", &one, NULL, NULL, 0 },
		{ "{ other: 7 } hitcount: 1  ns: 2", &one, NULL, NULL, 0 },
		{ "{ path: x } hitcount: 1", &two, NULL, NULL, 0 },
		{ "{", &one, NULL, NULL, 0 },
		{ "", &one, NULL, NULL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct hist_line line;

		ck_assert_int_eq(hist_line_read(cases[i].line, cases[i].names, &line), cases[i].first != NULL);
		if (!cases[i].first)
			continue;
		ck_assert_uint_eq(line.length[0], strlen(cases[i].first));
		ck_assert(memcmp(line.at[0], cases[i].first, line.length[0]) == 0);
		ck_assert_uint_eq(line.length[1], strlen(cases[i].second));
		ck_assert(memcmp(line.at[1], cases[i].second, line.length[1]) == 0);
		ck_assert_uint_eq(line.hits, cases[i].hits);
	}
}
