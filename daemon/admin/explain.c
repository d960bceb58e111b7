/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Follows a registration, with a tenant that is made for it if there is none, up to the charge: so the answer is the one that a
 * client in that cgroup would get.
 */

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/daemon.h"
#include "daemon/quota/reserve.h"
#include "daemon/registry/admission.h"
#include "daemon/registry/event.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"
#include "protocol/event/description.h"
#include "protocol/row.h"

struct question {
	struct tenant *tenant;
	struct string_item asked;
	char name[DESCRIPTION_NAME_MAX + 1]; /* with its prefix; "" while the description is not parsed */
	bool is_held;			     /* this tenant has it */
	bool is_one_of_many;		     /* it would be multi-format */
	bool is_there;			     /* the machine has paid for it */
	struct reserve *reserve;	     /* it would be charged to */
};

/* Sets the question's answers from the policy and the registered events. 0, or a refusal with a sentence. */
static int explain_decide(struct question *question, struct text *why)
{
	static struct description description; /* large */
	struct policy_verdict verdict;
	const struct quota_event none = { .machine = &question->tenant->registry->machine };
	struct event *event;
	const struct grant *grant;
	uint16_t flags = question->asked.flags;
	int r = policy_admit(&question->tenant->rules.values, question->asked.text, question->asked.length,
			     question->asked.flags, &description, &verdict, why);

	if (r == 0 || verdict.key != POLICY_KEYS)
		string_copy(question->name, description.name_length + 1, description.canonical);
	if (r != 0)
		return r;
	event = event_meant(question->tenant, &description, (struct event_key){ .text = "" }, &flags).found;
	question->is_one_of_many = flags & REGISTER_MULTI_FORMAT;
	if (event && !streq(event->description, description.canonical)) {
		grant = LIST_FIRST(&event->grants);
		text_printf(why, "the name is taken by an event with other fields");
		/* For the admin; the refusal that a client gets does not name the tenant. */
		if (grant) {
			text_printf(why, ", of the tenant ");
			text_excerpt(why, grant->tenant->path, strlen(grant->tenant->path));
		}
		text_printf(why, ": %s", event->description);
		return REFUSAL_NAME_TAKEN;
	}
	question->is_held = grant_find(question->tenant, event);
	question->is_there = event && !LIST_EMPTY(&event->account.common);
	if (question->is_held)
		return 0;
	return admission_ask(question->tenant, event ? &event->account : &none, &question->reserve, why);
}

static void explain_put_answer(struct packet *packet, const struct question *question, int r, const char *sentence)
{
	const struct machine *machine = &question->tenant->registry->machine;
	size_t row = encode_row_begin(packet);

	row_put_string(packet, "tenant", question->tenant->path);
	row_put_string(packet, "event", question->name);
	row_put_bool(packet, "granted", r == 0);
	row_put_string(packet, "reason", r == 0 ? "" : refusal_name((uint32_t)r));
	row_put_string(packet, "sentence", sentence);
	row_put_bool(packet, "multi_format", question->is_one_of_many);
	row_put_bool(packet, "held", question->is_held);
	row_put_bool(packet, "shared", question->is_there);
	row_put_bool(packet, "reserved", question->reserve);
	row_put_u64(packet, "capacity", machine->capacity);
	row_put_u64(packet, "claimed", machine->claimed);
	row_put_u64(packet, "pool", machine_pool(machine));
	row_put_u64(packet, "common", machine->common);
	row_put_u64(packet, "foreign", question->tenant->registry->foreign);
	encode_row_end(packet, row);
}

static void explain_put_resource(struct packet *packet, const char *held, const char *maximum,
				 const struct quota *quota)
{
	row_put_u64(packet, held, quota_held(quota));
	if (quota->maximum != QUOTA_NO_MAXIMUM)
		row_put_u64(packet, maximum, quota->maximum);
}

static void explain_put_level(struct packet *packet, const char *path, const struct quota quota[RESOURCES])
{
	size_t row = encode_row_begin(packet);

	row_put_string(packet, "level", path);
	explain_put_resource(packet, "held", "maximum", quota);
	explain_put_resource(packet, "files", "files_max", &quota[RESOURCE_FILES]);
	explain_put_resource(packet, "leases", "leases_max", &quota[RESOURCE_LEASES]);
	row_put_u64(packet, "paid", quota->paid);
	row_put_bool(packet, "own_maximum", quota->has_own_maximum);
	if (quota->parent)
		row_put_u64(packet, "sharing", quota->parent->sharing);
	encode_row_end(packet, row);
}

/* The tenant itself, then the cgroups around it; and the reserves that it may fill. The number of rows. */
static size_t explain_put_rooms(struct packet *packet, const struct tenant *tenant)
{
	const struct level *level = tenant->level;
	const struct rules *rules = &tenant->rules;
	size_t n = 1 + rules->n_reserves;

	explain_put_level(packet, tenant->path, level->own);
	for (; level; level = level->parent, n++)
		explain_put_level(packet, level->path, level->quota);
	for (size_t i = 0; i < rules->n_reserves; i++) {
		size_t row = encode_row_begin(packet);

		row_put_u64(packet, "reserve", rules->reserve[i]->maximum);
		row_put_u64(packet, "filled", rules->reserve[i]->filled);
		row_put_u64(packet, "files", rules->reserve[i]->files->maximum);
		row_put_u64(packet, "files_filled", rules->reserve[i]->files->filled);
		encode_row_end(packet, row);
	}
	return n;
}

int handle_explain(struct client *client, const struct message *message)
{
	struct question question = { 0 };
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct packet *packet;
	struct string_item cgroup;
	struct strings strings;
	char path[PATH_MAX];
	size_t mark;
	int r;

	if (decode_strings(message->body, &strings) != 0 || strings.count != 2 || !strings_next(&strings, &cgroup) ||
	    !strings_next(&strings, &question.asked) || cgroup.length >= sizeof(path))
		return REFUSAL_BAD_PACKET;
	string_copy(path, cgroup.length + 1, cgroup.text);
	question.asked.flags = strings.flags;
	if (*path != '/') {
		control_refuse(client, message->serial, REFUSAL_BAD_PACKET, "a cgroup's path begins with a slash");
		return 0;
	}
	if (tenant_of_cgroup(client->holder.registry, path, &question.tenant) < 0)
		return -ENOMEM;
	r = explain_decide(&question, &why);
	packet = client_answer(client, KIND_ROWS, message->serial, 0);
	mark = encode_list(packet, 0);
	explain_put_answer(packet, &question, r, why.buffer);
	encode_count(packet, mark, (uint16_t)(1 + explain_put_rooms(packet, question.tenant)));
	client_send(client, NULL, 0);
	/* Frees a tenant that was made for this. */
	tenant_release(question.tenant);
	return 0;
}
