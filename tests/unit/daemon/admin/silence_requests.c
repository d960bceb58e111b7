/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/unit/daemon/admin/silence_requests.h"

#include "protocol/row.h"

void say_silence(struct end *admin, uint16_t asked, const char *const *items)
{
	struct packet packet = begin(admin, KIND_SILENCE);
	const size_t mark = encode_list(&packet, asked);
	uint16_t n = 0;

	for (; items[n]; n++) {
		const uint16_t flags = *items[n] == '=' ? SILENCE_OF_EVENT : *items[n] == '<' ? SILENCE_OF_PROCESS : 0;
		const char *text = items[n] + (flags != 0);

		encode_string(&packet, flags, text, strlen(text));
	}
	encode_count(&packet, mark, n);
	say(admin, &packet);
}

struct outcome expect_done(struct end *admin, uint16_t patterns)
{
	struct outcome outcome = { 0 };
	struct cursor rows, row;
	uint16_t count;

	ck_assert_int_eq(decode_rows(expect(admin, KIND_ROWS)->body, &count, &rows), 0);
	ck_assert_uint_eq(count, 1 + patterns);
	row = next_row(&rows);
	outcome.on = row_get_u64(row, "on");
	outcome.off = row_get_u64(row, "off");
	while (patterns-- > 0)
		row = next_row(&rows);
	outcome.tenants = row_get_u64(row, "tenants");
	outcome.events = row_get_u64(row, "events");
	outcome.files = row_get_u64(row, "files");
	outcome.connections = row_get_u64(row, "connections");
	outcome.changes = row_get_u64(row, "changes");
	row_get_string(row, "tenant", outcome.tenant, sizeof(outcome.tenant));
	return outcome;
}

bool is_silent_on(uint32_t page, const char *text)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (fake.slot[i].there && fake.slot[i].page == page && streq(fake.slot[i].text, text))
			return fake.slot[i].silent;
	ck_abort_msg("the kernel has no %s on that page", text);
}
