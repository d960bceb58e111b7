/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The values of --since. */

#include <time.h>

#include "client/userevctl/ctl.h"
#include "client/userevctl/tracing/record.h"
#include "protocol/base/number.h"

bool since_parse(const char *text, uint64_t now, uint64_t *ret)
{
	static const char *const formats[] = { "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
					       "%Y-%m-%d",	    "%H:%M:%S",		 "%H:%M" };
	static const char units[] = "smhd";
	static const uint64_t unit_seconds[] = { 1, 60, 3600, 86400 };
	const time_t seconds = (time_t)(now / 1000000000);
	const size_t length = strlen(text);
	const char *unit = length > 0 ? strchr(units, text[length - 1]) : NULL;
	uint64_t n;

	/* "90s", "5m", "2h", "1d" ago. */
	if (unit && *unit && number_parse(text, length - 1, 36500, &n) == NUMBER_GOOD) {
		*ret = now - MIN(now, n * unit_seconds[unit - units] * UINT64_C(1000000000));
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		struct tm time = { 0 };
		const char *end;
		time_t since;

		localtime_r(&seconds, &time);
		time.tm_hour = time.tm_min = time.tm_sec = 0;
		time.tm_isdst = -1;
		end = strptime(text, formats[i], &time);
		since = end && *end == '\0' ? mktime(&time) : -1;
		if (since >= 0) {
			*ret = (uint64_t)since * UINT64_C(1000000000);
			return true;
		}
	}
	return false;
}

bool record_view_set_since(struct record_view *view, const char *command, const char *since)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (!since || since_parse(since, (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec, &view->since))
		return true;
	ctl_error("%s: --since=%s is no time: give 90s, 5m, 2h or 1d ago, 12:34, or '2026-11-26 12:34:56'.", command,
		  excerpt_of(since).text);
	return false;
}
