/* SPDX-License-Identifier: CC0-1.0 */
/* cc hello.c $(pkg-config --cflags --libs libuserev): one record a second; `userevctl tail hello_said` prints them. */
#include <unistd.h>
#include <userev.h>

USEREV_EVENT(hello, said, (u32, count), (string, whom));

int main(void)
{
	for (uint32_t count = 1; count <= 60; count++, sleep(1))
		userev_emit(hello_said, count, "world");
	return 0;
}
