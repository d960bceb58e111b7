/* SPDX-License-Identifier: CC0-1.0 */
/* cc shop.c $(pkg-config --cflags --libs libuserev): a request every few milliseconds, until it is interrupted. */
#include <stdlib.h>
#include <unistd.h>
#include <userev.h>

USEREV_EVENT(shop, request, (u32, status), (u64, us), (string, path));

int main(void)
{
	for (;;) {
		unsigned us = 1000u << rand() % 5; /* stands for the work */

		usleep(us);
		userev_emit(shop_request, us < 16000 ? 200 : 503, us, "/cart");
	}
}
