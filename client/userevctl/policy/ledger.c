/* SPDX-License-Identifier: GPL-2.0-or-later */

/* What a daemon that runs here makes of a request: what is used up, at every level, and what is left. */

#include <inttypes.h>

#include "client/userevctl/policy/policy.h"

bool ledger_ask(const struct policy_question *question, const char *path, struct ledger *ret)
{
	const char *const strings[] = { path, question->ctl->argv[1] };
	_cleanup_(control_freep) struct control *control = NULL;

	if (!question->is_ours || control_open(question->ctl->control_socket, &control) < 0)
		return false;
	if (control_ask_strings(control, KIND_EXPLAIN, (uint16_t)question->flags, strings, ARRAY_SIZE(strings)) < 0 ||
	    control_next_row(control, &ret->answer) <= 0)
		return false;
	ret->granted = row_get_u64(ret->answer, "granted");
	ret->one_of_many = row_get_u64(ret->answer, "multi_format");
	row_get_string(ret->answer, "sentence", ret->sentence, sizeof(ret->sentence));
	ret->control = steal_pointer(control);
	return true;
}

void ledger_deinit(struct ledger *ledger)
{
	ledger->control = control_free(ledger->control);
}

static void ledger_put_count(struct table *table, struct cursor row, const char *key)
{
	struct row_field field;

	if (row_find(row, key, &field))
		table_put_number(table, STYLE_PLAIN, field.number);
	else
		table_put(table, STYLE_DIM, "-");
}

static void ledger_put_level(struct table *table, struct cursor row)
{
	struct row_field level = { 0 };

	row_find(row, "level", &level);
	table_put_safe(table, STYLE_NAME, (const char *)level.value, level.length);
	ledger_put_count(table, row, "held");
	ledger_put_count(table, row, "maximum");
	ledger_put_count(table, row, "paid");
	ledger_put_count(table, row, "sharing");
	ledger_put_count(table, row, "files");
	ledger_put_count(table, row, "files_max");
	ledger_put_count(table, row, "leases");
	ledger_put_count(table, row, "leases_max");
}

static void print_reserve(const struct output *output, struct cursor row)
{
	fprintf(output->file,
		"a reserve of %" PRIu64 " events, of which %" PRIu64 " are filled, and of %" PRIu64
		" data files, of which %" PRIu64 " are\n",
		row_get_u64(row, "reserve"), row_get_u64(row, "filled"), row_get_u64(row, "files"),
		row_get_u64(row, "files_filled"));
}

static void print_pool(const struct output *output, const struct ledger *ledger)
{
	fprintf(output->file,
		"the pool has %" PRIu64 " of %" PRIu64 " events; %" PRIu64 " more are reserved, %" PRIu64
		" are others'\n",
		row_get_u64(ledger->answer, "common"), row_get_u64(ledger->answer, "pool"),
		row_get_u64(ledger->answer, "claimed"), row_get_u64(ledger->answer, "foreign"));
}

int ledger_print(struct ledger *ledger, const struct output *output)
{
	static const struct column columns[] = {
		{ "LEVEL", COLUMN_PATH },      { "HOLDS", COLUMN_NUMBER },   { "MAX", COLUMN_NUMBER },
		{ "PAYS FOR", COLUMN_NUMBER }, { "SHARING", COLUMN_NUMBER }, { "FILES", COLUMN_NUMBER },
		{ "FILE MAX", COLUMN_NUMBER }, { "LEASES", COLUMN_NUMBER },  { "LEASE MAX", COLUMN_NUMBER },
	};
	_cleanup_(table_deinit) struct table table = table_make(columns, ARRAY_SIZE(columns));
	struct cursor row;
	int r;

	/* Behind another table numbers without titles mean nothing in a pipe. */
	for (size_t i = 0; !output->terminal && i < ARRAY_SIZE(columns); i++)
		table_put(&table, STYLE_PLAIN, columns[i].title);
	print_pool(output, ledger);
	while ((r = control_next_row(ledger->control, &row)) > 0) {
		struct row_field level;

		if (row_find(row, "level", &level))
			ledger_put_level(&table, row);
		else
			print_reserve(output, row);
	}
	return r < 0 ? r : table_print(&table, output);
}

int ledger_print_json(struct ledger *ledger, struct json *json)
{
	struct cursor row = ledger->answer;
	int r;

	do
		json_row(json, row);
	while ((r = control_next_row(ledger->control, &row)) > 0);
	return r;
}
