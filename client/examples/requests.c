/* SPDX-License-Identifier: CC0-1.0 */

/*
 * Simulates requests, twenty a second, and emits a record for each, with a description that is known only at run time.
 *
 *	requests [NAME [SECONDS]]
 *
 * cc requests.c $(pkg-config --cflags --libs libuserev)
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <userev.h>

static struct userev_event request;

/* "NAME_request u32 status; u64 ns; __rel_loc char[] path": the fields in this order, without gaps. */
static void emit_request(uint32_t status, uint64_t ns, const char *path)
{
	uint32_t length = (uint32_t)strlen(path) + 1;
	uint32_t where = length << 16; /* length, and the distance from the end of this word to the string: 0 */
	struct iovec payload[] = {
		{ &status, sizeof(status) },
		{ &ns, sizeof(ns) },
		{ &where, sizeof(where) },
		{ (void *)path, length },
	};

	userev_writev(&request, payload, 4);
}

int main(int argc, char **argv)
{
	static const char *const paths[] = { "/", "/login", "/cart", "/favicon.ico" };
	const char *name = argc > 1 ? argv[1] : "demo";
	double seconds = argc > 2 ? atof(argv[2]) : 10;
	struct userev *userev = userev_open(NULL, 0);
	char description[128];

	snprintf(description, sizeof(description), "%s_request u32 status; u64 ns; __rel_loc char[] path", name);
	if (!userev || userev_register(userev, &request, description, 0) < 0)
		fprintf(stderr, "%s: no trace events: %s\n", name, userev_refusal());

	for (int i = 0; i < seconds * 20; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
		if (userev_enabled(&request))
			emit_request(i % 4 == 3 ? 404 : 200, 1000 * (uint64_t)(i + 1), paths[i % 4]);
	}
	userev_close(userev);
	return 0;
}
