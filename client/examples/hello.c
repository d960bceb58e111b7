/* SPDX-License-Identifier: CC0-1.0 */
/* cc hello.c $(pkg-config --cflags --libs libuserev): says hello once a second; `userevctl tail hello` shows it. */
#include <stdio.h>
#include <unistd.h>
#include <userev.h>

static struct userev_event hello;

int main(void)
{
	struct userev *userev = userev_open(NULL, 0);

	if (userev_register(userev, &hello, "hello u32 count", 0) < 0)
		fprintf(stderr, "hello: %s\n", userev_refusal());
	for (uint32_t count = 1; count <= 60; count++, sleep(1))
		if (userev_enabled(&hello))
			userev_write(&hello, &count, sizeof(count));
	userev_close(userev);
	return 0;
}
