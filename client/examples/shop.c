/* SPDX-License-Identifier: CC0-1.0 */
/* cc shop.c $(pkg-config --cflags --libs libuserev): a request every few milliseconds, until it is interrupted. */
#include <unistd.h>
#include <userev.h>

USEREV_EVENT(shop, request, (u32, status), (u64, us), (string, path));

int main(void)
{
	for (unsigned n = 0;; n++) {
		unsigned us = 1000u << n % 5; /* stands for the work */

		usleep(us);
		userev_emit(shop_request, us < 16000 ? 200 : 503, us, "/cart");
	}
}
