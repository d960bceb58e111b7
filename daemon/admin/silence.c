/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * SILENCE: mutes and blocks tenants, and keeps events on for some tenants alone. It is answered when the kernel has been told, and the
 * clients of blocked tenants are disconnected, with a row for each pattern: what it matches now. SILENCES lists the rules.
 */

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/daemon.h"
#include "daemon/process/log.h"
#include "daemon/recovery/last_silence.h"
#include "daemon/registry/event.h"
#include "daemon/registry/silencing.h"
#include "daemon/registry/tenant.h"
#include "protocol/row.h"

/* Of the tenants that a pattern matches. */
struct matched {
	uint64_t tenants, events, files, connections;
	bool changes; /* the rule was not there; or it was, and is to end */
	char pattern[PATH_MAX];
};

struct silence_request {
	struct client_task task;
	struct silence_waiter waiter;
	struct registry *registry;
	const void *owner; /* of the rules; NULL: they stay */
	uint32_t serial;
	enum silence_asked asked;
	uint64_t on, off; /* tenants with one of the events, and those of them in which it is silent */
	size_t n_events, n;
	int kept; /* a negative errno: the next daemon without a ledger does not find the rules */
	bool is_kept;
	const char *event[WIRE_BATCH_MAX]; /* in `names` */
	struct matched matched[SILENCE_PATTERNS_MAX];
	char names[];
};

static enum silence_kind kind_of(enum silence_asked asked)
{
	return asked == ASK_MUTE || asked == ASK_UNMUTE	    ? SILENCE_MUTE
	       : asked == ASK_BLOCK || asked == ASK_UNBLOCK ? SILENCE_BLOCK
							    : SILENCE_ONLY;
}

/* --- the request --- */

/* A pattern without wildcards of the tenant of a process in that cgroup. */
static int take_process(struct registry *registry, const struct string_item *item, char ret[PATH_MAX])
{
	struct tenant *tenant;
	char path[PATH_MAX];
	size_t n = 0;

	string_copy(path, item->length + 1, item->text);
	if (*path != '/')
		return -EINVAL;
	if (tenant_of_cgroup(registry, path, &tenant) < 0)
		return -ENOMEM;
	for (const char *c = tenant->path; *c && n < PATH_MAX - 2; c++) {
		if (strchr("*?[", *c))
			ret[n++] = '\\';
		ret[n++] = *c;
	}
	ret[n] = '\0';
	/* Frees a tenant that was made for this. */
	tenant_release(tenant);
	return 0;
}

/* 0, a positive refusal with its sentence, or -ENOMEM. */
static int request_take_item(struct silence_request *request, const struct string_item *item, char **to,
			     struct text *why)
{
	struct matched *matched = &request->matched[request->n];
	const char *fault = NULL;
	char *name = *to;
	int r = 0;

	*to = mempcpy(*to, item->text, item->length);
	*(*to)++ = '\0';
	if (item->flags == SILENCE_OF_EVENT) {
		request->event[request->n_events++] = name;
		fault = silence_check(name, "/");
	} else if (request->n == SILENCE_PATTERNS_MAX || item->length >= PATH_MAX) {
		text_printf(why, "there are too many patterns of tenants, or one is too long");
		return REFUSAL_BAD_PACKET;
	} else {
		string_copy(matched->pattern, sizeof(matched->pattern), name);
		if (item->flags == SILENCE_OF_PROCESS)
			r = take_process(request->registry, item, matched->pattern);
		fault = r == -EINVAL ? "a cgroup's path begins with a slash" : silence_check("", matched->pattern);
		request->n++;
	}
	if (!fault)
		return r;
	text_excerpt(why, name, strlen(name));
	text_printf(why, ": %s", fault);
	return REFUSAL_BAD_PACKET;
}

static void request_count(struct silence_request *request, struct matched *matched)
{
	struct silence_rule rule = { .tenant = matched->pattern };
	char room[2 * PATH_MAX + 2];

	if (*matched->pattern == '/')
		pattern_parse(matched->pattern, room, &rule.pattern);
	for (const struct tenant *tenant = request->registry->tenants; tenant; tenant = tenant->by_number.next) {
		if (streq(tenant->path, TENANT_OF_POLICY) || !silence_matches(&rule, tenant))
			continue;
		matched->tenants++;
		matched->events += tenant->n_grants;
		matched->files += tenant->streams;
		matched->connections += tenant->connections;
	}
}

/* 0, SILENCE_E_FULL, or -ENOMEM. */
static int request_change(struct silence_request *request, struct matched *matched, const char *event)
{
	const enum silence_kind kind = kind_of(request->asked);
	const unsigned before = request->registry->silence ? request->registry->silence->n : 0;
	int r = 0;

	if (request->asked == ASK_UNMUTE || request->asked == ASK_UNBLOCK)
		silence_remove(request->registry, kind, event, matched->pattern);
	else
		r = silence_add(request->registry, kind, event, matched->pattern, request->owner);
	matched->changes |= request->registry->silence && request->registry->silence->n != before;
	return r;
}

/* How many tenants have one of the events, and in how many it is silent. */
static void request_count_events(struct silence_request *request)
{
	const struct event *event;
	const struct grant *grant;

	for (size_t i = 0; i < request->n_events; i++) {
		event = event_by_name(request->registry, request->event[i], strlen(request->event[i]));
		if (!event)
			continue;
		LIST_FOREACH(grant, &event->grants, in_event) {
			if (streq(grant->tenant->path, TENANT_OF_POLICY))
				continue;
			if (silence_is_wanted(grant->tenant, event->description, event->name_length))
				request->off++;
			else
				request->on++;
		}
	}
}

static int request_carry_out(struct silence_request *request)
{
	int r = 0;

	for (size_t i = 0; i < request->n; i++)
		request_count(request, &request->matched[i]);
	for (size_t j = 0; request->asked == ASK_ALL && j < request->n_events; j++)
		silence_remove(request->registry, SILENCE_ONLY, request->event[j], NULL);
	for (size_t i = 0; i < request->n && r == 0; i++) {
		if (request->n_events == 0)
			r = request_change(request, &request->matched[i], "");
		for (size_t j = 0; j < request->n_events && r == 0; j++)
			r = request_change(request, &request->matched[i], request->event[j]);
	}
	request_count_events(request);
	return r;
}

/* --- the answer --- */

static void silence_answer(struct client *client, const struct silence_request *request)
{
	struct packet *packet = client_answer(client, KIND_ROWS, request->serial, 0);
	const size_t list = encode_list(packet, 0);
	size_t row = encode_row_begin(packet);

	row_put_u64(packet, "on", request->on);
	row_put_u64(packet, "off", request->off);
	row_put_bool(packet, "kept", request->is_kept);
	row_put_string(packet, "kept_error", request->kept < 0 ? strerror(-request->kept) : "");
	encode_row_end(packet, row);
	for (size_t i = 0; i < request->n; i++) {
		const struct matched *matched = &request->matched[i];

		row = encode_row_begin(packet);
		row_put_string(packet, "tenant", matched->pattern);
		row_put_bool(packet, "changes", matched->changes);
		row_put_u64(packet, "tenants", matched->tenants);
		row_put_u64(packet, "events", matched->events);
		row_put_u64(packet, "files", matched->files);
		row_put_u64(packet, "connections", matched->connections);
		encode_row_end(packet, row);
	}
	encode_count(packet, list, (uint16_t)(1 + request->n));
	client_send(client, NULL, 0);
}

static void silence_on_done(struct silence_waiter *waiter)
{
	_cleanup_(freep) struct silence_request *request = container_of(waiter, struct silence_request, waiter);
	struct client *client = task_end(&request->task);

	if (client)
		silence_answer(client, request);
}

static void request_keep(struct silence_request *request, const char *directory)
{
	if (!directory || request->owner)
		return;
	request->kept = last_silence_keep(directory, request->registry);
	if (request->kept < 0)
		log_warning("can't keep the list of muted and blocked tenants in %s: %s", directory,
			    strerror(-request->kept));
	request->is_kept = request->kept == 0;
}

/* Whether the request has what it needs. */
static bool request_is_whole(const struct silence_request *request)
{
	switch (request->asked) {
	case ASK_MUTE:
	case ASK_UNMUTE:
	case ASK_BLOCK:
	case ASK_UNBLOCK:
		return request->n > 0 && request->n_events == 0;
	case ASK_ONLY:
	case ASK_WHILE:
		return request->n > 0 && request->n_events > 0;
	case ASK_ALL:
		return request->n == 0 && request->n_events > 0;
	default:
		return false;
	}
}

/* 0, a positive refusal, perhaps with its sentence, or -ENOMEM. */
static int request_decode(struct silence_request *request, struct strings *strings, struct text *why)
{
	struct string_item item;
	char *to = request->names;
	int r = 0;

	while (r == 0 && strings_next(strings, &item))
		r = item.flags > SILENCE_OF_PROCESS ? REFUSAL_BAD_PACKET : request_take_item(request, &item, &to, why);
	if (r == 0 && !request_is_whole(request))
		r = REFUSAL_BAD_PACKET;
	if (r != 0 || silence_is_possible(request->registry) ||
	    (request->asked != ASK_MUTE && request->asked != ASK_ONLY && request->asked != ASK_WHILE))
		return r;
	text_printf(why, "before Linux 6.4 all tenants have the kernel's one page: an event is on for all or for none");
	return REFUSAL_KERNEL_TOO_OLD;
}

/* 0, a positive refusal with its sentence, or -ENOMEM. */
static int request_put_in_force(struct silence_request *request, const struct daemon *daemon, struct text *why)
{
	const int r = request_carry_out(request);

	/* Also after a part of it. */
	silencing_begin(request->registry);
	request_keep(request, daemon->options.state_directory);
	if (r != SILENCE_E_FULL)
		return r;
	text_printf(why, "there are %u rules, as many as there may be; a part of this is done", SILENCE_RULES_MAX);
	return REFUSAL_TROUBLE;
}

int handle_silence(struct client *client, const struct message *message)
{
	char sentence[WIRE_SENTENCE_MAX + 1];
	struct text why = text_make(sentence, sizeof(sentence));
	struct silence_request *request;
	struct strings strings;
	int r;

	if (decode_strings(message->body, &strings) != 0)
		return REFUSAL_BAD_PACKET;
	/* Its rows could fill the socket, and then there would be no room for this answer. */
	if (control_has_listing(client, message->serial))
		return 0;
	request = calloc(1, sizeof(*request) + message->body.left + strings.count);
	if (!request)
		return -ENOMEM;
	request->registry = client->holder.registry;
	request->serial = message->serial;
	request->asked = (enum silence_asked)strings.flags;
	request->owner = request->asked == ASK_WHILE ? client : NULL;
	request->waiter.done = silence_on_done;
	r = request_decode(request, &strings, &why);
	if (r == 0)
		r = request_put_in_force(request, daemon_of(client), &why);
	if (r == 0) {
		task_begin(&request->task, client);
		silencing_wait(request->registry, &request->waiter);
		return 0;
	}
	free(request);
	if (r < 0 || !*sentence)
		return r;
	control_refuse(client, message->serial, (uint32_t)r, "%s", sentence);
	return 0;
}

/* --- SILENCES --- */

static int silences_next(struct listing *listing, struct packet *packet)
{
	static const char *const kinds[SILENCE_KINDS] = {
		[SILENCE_MUTE] = "muted",
		[SILENCE_BLOCK] = "blocked",
		[SILENCE_ONLY] = "only",
	};
	const struct silence_rule *rule = silence_after(listing->client->holder.registry, listing->after);

	if (!rule)
		return LISTING_END;
	listing->after = rule->number;
	row_put_string(packet, "rule", kinds[rule->kind]);
	if (*rule->event)
		row_put_string(packet, "event", rule->event);
	row_put_string(packet, "tenant", rule->tenant);
	row_put_bool(packet, "temporary", rule->owner != NULL);
	return LISTING_ROW;
}

const struct listing_kind silences_listing = { .size = sizeof(struct listing), .next = silences_next };
