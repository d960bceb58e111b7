/* SPDX-License-Identifier: GPL-2.0-or-later */

#include <stdlib.h>
#include <time.h>

#include "client/userevctl/tracing/record.h"
#include "tests/suite.h"

/* 2026-11-26 12:00:30 UTC */
enum { NOW = 1795694430 };

static const uint64_t second = 1000000000;

/* In seconds; 0: it is no time. */
static uint64_t since(const char *text)
{
	uint64_t ret = 0;

	setenv("TZ", "UTC", 1);
	tzset();
	ck_assert_int_eq(since_parse(text, NOW * second + 5, &ret), ret > 0);
	return (ret + second - 1) / second;
}

TEST(time_ago)
{
	ck_assert_uint_eq(since("90s"), NOW - 90 + 1);
	ck_assert_uint_eq(since("5m"), NOW - 300 + 1);
	ck_assert_uint_eq(since("2h"), NOW - 7200 + 1);
	ck_assert_uint_eq(since("1d"), NOW - 86400 + 1);
	ck_assert_uint_eq(since("0s"), NOW + 1);
}

TEST(time_of_today)
{
	ck_assert_uint_eq(since("12:00"), NOW - 30);
	ck_assert_uint_eq(since("00:00:01"), NOW - 12 * 3600 - 29);
}

TEST(date)
{
	ck_assert_uint_eq(since("2026-11-26 12:00:30"), NOW);
	ck_assert_uint_eq(since("2026-11-26T12:00:30"), NOW);
	ck_assert_uint_eq(since("2026-11-26 12:00"), NOW - 30);
	ck_assert_uint_eq(since("2026-11-25"), NOW - 36 * 3600 - 30);
}

TEST(no_time)
{
	static const char *const texts[] = { "",   "s",	  "5",	   "5x",	"-5m",		"5m ago",
					     "12", "12:", "25:00", "yesterday", "99999999999d", "2026-11" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		ck_assert_msg(since(texts[i]) == 0, "'%s'", texts[i]);
}
