/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The status page: one bit for each event, set while the event is enabled. */

#include <stdbool.h>
#include <stdint.h>

/*
 * Maps the page that came over `socket`. If there is a page at `*page` already, the new one replaces it at the same address.
 * 0; 1 with the bytes for traces behind it; -ENOMEM; or -EPROTO if it is no status page, or could be truncated later.
 */
int page_map(int fd, int socket, uint8_t **page);
void page_unmap(uint8_t *page);

/*
 * Bit 0 belongs to no event. When no daemon serves the page any longer, all of its bits are set, so that the next test of any
 * event calls the library.
 */
static inline bool page_is_abandoned(const uint8_t *page)
{
	return (*(const volatile uint8_t *)page & 1) != 0;
}
