/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The answer of a daemon that runs here to a request: the events, files and leases in use at every level, and the limits. */

#include <inttypes.h>

#include "client/userevctl/policy/policy.h"

void ledger_ask(struct ledger *ledger, const struct policy_question *question, const char *path)
{
	const char *const strings[] = { path, question->ctl->argv[1] };
	struct cursor row;

	if (!question->is_ours || control_open(question->ctl->control_socket, &ledger->control) < 0)
		return;
	if (control_ask_strings(ledger->control, KIND_EXPLAIN, policy_question_flags(question), strings,
				ARRAY_SIZE(strings)) == 0 &&
	    control_next_row(ledger->control, &row) > 0)
		ledger->answer = row_copy(row);
	else
		ledger->control = control_free(ledger->control);
}

void ledger_deinit(struct ledger *ledger)
{
	ledger->control = control_free(ledger->control);
	free((void *)ledger->answer.at);
}

static const struct column columns[] = {
	{ "LEVEL", COLUMN_PATH },      { "HOLDS", COLUMN_NUMBER },   { "MAX", COLUMN_NUMBER },
	{ "PAYS FOR", COLUMN_NUMBER }, { "SHARING", COLUMN_NUMBER }, { "FILES", COLUMN_NUMBER },
	{ "FILE MAX", COLUMN_NUMBER }, { "LEASES", COLUMN_NUMBER },  { "LEASE MAX", COLUMN_NUMBER },
};
static const char *const column_keys[ARRAY_SIZE(columns)] = {
	"level", "held", "maximum", "paid", "sharing", "files", "files_max", "leases", "leases_max",
};

static void put_level(struct table *table, struct cursor row)
{
	struct row_field field;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		if (!row_find(row, column_keys[i], &field))
			table_put(table, STYLE_DIM, "-");
		else if (columns[i].kind == COLUMN_NUMBER)
			table_put_number(table, STYLE_PLAIN, field.number);
		else
			table_put_safe(table, STYLE_NAME, (const char *)field.value, field.length);
	}
}

int ledger_print(struct ledger *ledger, const struct output *output)
{
	_cleanup_(table_deinit) struct table table = table_make(columns, ARRAY_SIZE(columns));
	struct cursor row = ledger->answer;
	struct row_field level;
	int r;

	/* Behind another table numbers without titles mean nothing in a pipe. */
	for (size_t i = 0; !output->terminal && i < ARRAY_SIZE(columns); i++)
		table_put(&table, STYLE_PLAIN, columns[i].title);
	fprintf(output->file,
		"the pool has %" PRIu64 " of %" PRIu64 " events; %" PRIu64 " more are reserved, %" PRIu64
		" are others'\n",
		row_get_u64(row, "common"), row_get_u64(row, "pool"), row_get_u64(row, "claimed"),
		row_get_u64(row, "foreign"));
	while ((r = control_next_row(ledger->control, &row)) > 0) {
		if (row_find(row, "level", &level))
			put_level(&table, row);
		else
			fprintf(output->file,
				"a reserve of %" PRIu64 " events, of which %" PRIu64 " are filled, and of %" PRIu64
				" data files, of which %" PRIu64 " are\n",
				row_get_u64(row, "reserve"), row_get_u64(row, "filled"), row_get_u64(row, "files"),
				row_get_u64(row, "files_filled"));
	}
	if (r == 0)
		table_print(&table, output);
	return r;
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
