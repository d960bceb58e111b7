/* SPDX-License-Identifier: GPL-2.0-or-later */

/* A program whose threads do nothing but write one event, as fast as they can: hammer DESCRIPTION THREADS. */

#include <pthread.h>
#include <stdio.h>

#include "client/userev.h"
#include "protocol/base/base.h"

static struct userev_event event;

static void *write_on(void *argument _unused_)
{
	for (uint64_t n = 0;; n++)
		userev_write(&event, &n, sizeof(n));
	return NULL;
}

int main(int argc, char **argv)
{
	struct userev *userev = userev_open(NULL, 0);
	pthread_t thread;

	if (argc != 3 || !userev || userev_connected(userev) != 0 || userev_register(userev, &event, argv[1], 0) != 0)
		return EXIT_FAILURE;
	for (int i = 1; i < atoi(argv[2]); i++)
		if (pthread_create(&thread, NULL, write_on, NULL) != 0)
			return EXIT_FAILURE;
	puts("ready");
	fflush(stdout);
	write_on(NULL);
}
