/* SPDX-License-Identifier: GPL-2.0-or-later */

/* session list and session show: what is in tracefs. */

#include "client/userevctl/session/session.h"
#include "protocol/base/array.h"

struct session_state {
	bool on, overwrites;
	uint64_t events, size;
	struct buffer_stats stats;
};

/* Without its last line break. "": it is empty, or not there. */
static char *read_file(struct tracefs_instance *instance, const char *file)
{
	char *text = tracefs_instance_file_read(instance, file, NULL);
	size_t length = text ? strlen(text) : 0;

	if (length > 0 && text[length - 1] == '\n')
		text[length - 1] = '\0';
	return text ? text : must(strdup(""));
}

void session_sum_stats(struct tracefs_instance *instance, struct buffer_stats *ret)
{
	const size_t cpus = (size_t)MAX(sysconf(_SC_NPROCESSORS_CONF), 1L);

	*ret = (struct buffer_stats){ 0 };
	for (size_t i = 0; i < cpus; i++) {
		struct buffer_stats stats = { 0 };

		buffer_read_stats(instance, i, &stats);
		ret->entries += stats.entries;
		ret->overrun += stats.overrun;
		ret->dropped += stats.dropped;
	}
}

static uint64_t read_number(struct tracefs_instance *instance, const char *file)
{
	_cleanup_(freep) char *text = read_file(instance, file);

	return strtoull(text, NULL, 10);
}

/* The next "SYSTEM:NAME" of a set_event that is recorded: an event that only has a probe is not. False: the end. */
static bool next_event(struct tracefs_instance *instance, char **text, const char **ret_system, const char **ret_name)
{
	for (char *name; (name = strsep(text, "\n"));) {
		const char *system = strsep(&name, ":");
		_cleanup_(freep) char *on = name && text_is_file_name(name)
						    ? tracefs_event_file_read(instance, system, name, "enable", NULL)
						    : NULL;

		*ret_system = system;
		*ret_name = name;
		if (on && on[0] == '1')
			return true;
	}
	return false;
}

static void read_state(struct tracefs_instance *instance, struct session_state *ret)
{
	_cleanup_(freep) char *events = read_file(instance, "set_event");
	const char *system, *name;
	char *rest = events;

	*ret = (struct session_state){
		.on = read_number(instance, "tracing_on") != 0,
		.overwrites = read_number(instance, "options/overwrite") != 0,
		.size = read_number(instance, "buffer_size_kb") * 1024,
	};
	while (next_event(instance, &rest, &system, &name))
		ret->events++;
	session_sum_stats(instance, &ret->stats);
}

static void put_state_json(struct json *json, const char *name, const struct session_state *state)
{
	json_put(json, json_text("session", name), json_bool("on", state->on),
		 json_text("mode", session_modes[!state->overwrites]), json_u64("events", state->events),
		 json_u64("records", state->stats.entries),
		 json_u64("lost", state->stats.overrun + state->stats.dropped), json_u64("size", state->size));
}

struct names {
	char **name;
	size_t n;
};

static int add_name(const char *instance, void *data)
{
	const char *name = session_of_instance(instance);
	struct names *names = data;

	if (!name)
		return 0;
	names->name = must(array_grow(names->name, names->n, sizeof(*names->name)));
	names->name[names->n++] = must(strdup(name));
	return 0;
}

static int compare_sessions(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void list_one(const struct output *output, struct table *table, const char *name)
{
	struct tracefs_instance *instance = session_instance(name);
	struct session_state state;

	if (!instance)
		return;
	read_state(instance, &state);
	tracefs_instance_free(instance);
	if (output->json) {
		struct json json = { .file = output->file };

		json_begin(&json, '{');
		put_state_json(&json, name, &state);
		json_end(&json, '}');
		return;
	}
	table_put(table, STYLE_NAME, name);
	table_put(table, state.on ? STYLE_GOOD : STYLE_DIM, state.on ? "on" : "stopped");
	table_put(table, STYLE_PLAIN, session_modes[!state.overwrites]);
	table_put_number(table, STYLE_PLAIN, state.events);
	table_put_number(table, STYLE_BOLD, state.stats.entries);
	table_put_number(table, STYLE_PLAIN, state.stats.overrun + state.stats.dropped);
	table_put_number(table, STYLE_PLAIN, state.size);
}

int session_list(struct session *session)
{
	static const struct column columns[] = {
		{ "SESSION", COLUMN_TEXT, 0 },	{ "STATE", COLUMN_TEXT, 0 },	 { "MODE", COLUMN_TEXT, 2 },
		{ "EVENTS", COLUMN_NUMBER, 0 }, { "RECORDS", COLUMN_NUMBER, 0 }, { "LOST", COLUMN_NUMBER, 0 },
		{ "SIZE", COLUMN_NUMBER, 1 },
	};
	const struct output *output = &session->ctl->output;
	struct table table = table_make(columns, ARRAY_SIZE(columns));
	struct names names = { 0 };

	tracefs_instances_walk(add_name, &names);
	if (names.n > 0)
		qsort(names.name, names.n, sizeof(*names.name), compare_sessions);
	for (size_t i = 0; i < names.n; i++) {
		list_one(output, &table, names.name[i]);
		free(names.name[i]);
	}
	free(names.name);
	if (table.n_cells > 0)
		table_print(&table, output);
	table_deinit(&table);
	return EXIT_DONE;
}

/* One of show's output: rows of a table with a title, or members of an object. */
struct shown {
	struct session *session;
	struct table table;
	struct json json;
	bool is_json;
};

static void show_text(struct shown *shown, const char *key, const char *text)
{
	if (shown->is_json) {
		json_put(&shown->json, json_text(key, text));
		return;
	}
	table_put(&shown->table, STYLE_BOLD, key);
	table_put_safe(&shown->table, STYLE_PLAIN, text, strlen(text));
}

/* A file of an event; NULL: it has no filter, or no trigger (then it has a comment). */
static char *read_event_file(struct session *session, const char *system, const char *name, const char *file)
{
	char *text =
		text_is_file_name(name) ? tracefs_event_file_read(session->instance, system, name, file, NULL) : NULL;

	if (text && (text[0] == '#' || strncmp(text, "none", 4) == 0 || !text[0])) {
		free(text);
		return NULL;
	}
	return text;
}

static void show_lines(struct shown *shown, const char *key, const char *name, char *text)
{
	for (char *line; (line = strsep(&text, "\n"));) {
		_cleanup_(freep) char *whole = NULL;

		must(asprintf(&whole, "%s: %s", name, line) < 0 ? NULL : whole);
		if (*line && shown->is_json)
			json_string(&shown->json, line, strlen(line));
		else if (*line)
			show_text(shown, key, whole);
	}
}

static void show_event(struct shown *shown, const char *system, const char *name)
{
	_cleanup_(freep) char *filter = read_event_file(shown->session, system, name, "filter"),
			      *trigger = read_event_file(shown->session, system, name, "trigger"), *whole = NULL;

	must(asprintf(&whole, "%s:%s", system, name) < 0 ? NULL : whole);
	if (shown->is_json) {
		json_begin(&shown->json, '{');
		json_put(&shown->json, json_text("event", name), json_text("system", system));
		if (filter)
			filter[strcspn(filter, "\n")] = '\0';
		json_put(&shown->json, json_text("filter", filter));
		json_put_begin(&shown->json, "triggers", '[');
	} else {
		show_text(shown, "event", whole);
		show_lines(shown, "filter", name, filter);
	}
	show_lines(shown, "trigger", name, trigger);
	if (shown->is_json) {
		json_end(&shown->json, ']');
		json_end(&shown->json, '}');
	}
}

static void show_events(struct shown *shown)
{
	_cleanup_(freep) char *events = read_file(shown->session->instance, "set_event");
	const char *system, *name;
	char *rest = events;

	if (shown->is_json)
		json_put_begin(&shown->json, "event_list", '[');
	while (next_event(shown->session->instance, &rest, &system, &name))
		show_event(shown, system, name);
	if (shown->is_json)
		json_end(&shown->json, ']');
}

static int show_probe(void *data, const char *group, const char *event _unused_, const char *line)
{
	struct shown *shown = data;
	char ours[SESSION_GROUP_MAX];

	if (!session_group(shown->session->name, ours) || !streq(group, ours))
		return 0;
	if (shown->is_json)
		json_string(&shown->json, line, strlen(line));
	else
		show_text(shown, "probe", line);
	return 0;
}

static void show_processes(struct shown *shown)
{
	_cleanup_(freep) char *pids = read_file(shown->session->instance, "set_event_pid");

	for (char *at = pids; *at; at++)
		*at = *at == '\n' ? ',' : *at;
	if (!*pids)
		return;
	show_text(shown, "pids", pids);
	if (shown->is_json)
		json_put(&shown->json,
			 json_bool("children", read_number(shown->session->instance, "options/event-fork") != 0));
	else if (read_number(shown->session->instance, "options/event-fork") != 0)
		show_text(shown, "children", "yes");
}

static void show_numbers(struct shown *shown, const struct session_state *state)
{
	const struct {
		const char *key;
		uint64_t number;
	} numbers[] = {
		{ "size", state->size },
		{ "records", state->stats.entries },
		{ "lost", state->stats.overrun + state->stats.dropped },
	};

	show_text(shown, "session", shown->session->name);
	show_text(shown, "state", state->on ? "on" : "stopped");
	show_text(shown, "mode", session_modes[!state->overwrites]);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		table_put(&shown->table, STYLE_BOLD, numbers[i].key);
		table_put_number(&shown->table, STYLE_PLAIN, numbers[i].number);
	}
}

int session_show(struct session *session)
{
	static const struct column columns[] = { { "WHAT", COLUMN_TEXT, 0 }, { "VALUE", COLUMN_TEXT, 0 } };
	const struct output *output = &session->ctl->output;
	_cleanup_(freep) char *tracer = read_file(session->instance, "current_tracer");
	struct shown shown = { .session = session,
			       .table = table_make(columns, ARRAY_SIZE(columns)),
			       .json = { .file = output->file },
			       .is_json = output->json };
	struct session_state state;
	uint64_t lost;

	read_state(session->instance, &state);
	if (output->json) {
		json_begin(&shown.json, '{');
		put_state_json(&shown.json, session->name, &state);
	} else {
		show_numbers(&shown, &state);
	}
	show_text(&shown, "snapshot", session_has_snapshot(session->instance, &lost) ? "taken" : "none");
	if (!streq(tracer, "nop"))
		show_text(&shown, "tracer", tracer);
	show_processes(&shown);
	show_events(&shown);
	if (output->json)
		json_put_begin(&shown.json, "probes", '[');
	session_probes_walk(show_probe, &shown);
	if (output->json) {
		json_end(&shown.json, ']');
		json_end(&shown.json, '}');
	} else {
		table_print(&shown.table, output);
	}
	table_deinit(&shown.table);
	return EXIT_DONE;
}
