/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * DELETE. A persistent event stays in the kernel, charged to its tenant, when its last program has ended: until it is deleted here, by
 * its name. The daemon refuses with the name of the program that has the event. The kernel also knows of tracers, and of programs
 * that registered it without the daemon, so it has the last word.
 */

#include <stdarg.h>
#include <stdio.h>

#include "daemon/admin/control.h"
#include "daemon/admin/listing.h"
#include "daemon/registry/declared.h"
#include "daemon/registry/event.h"
#include "daemon/registry/lease.h"
#include "daemon/registry/tenant.h"
#include "protocol/refusal.h"
#include "protocol/row.h"

struct deletion {
	struct client_task task;
	struct registry *registry;
	struct kernel_call call;
	uint32_t serial;
	char name[WIRE_DESCRIPTION_MAX + 1];
};

/* The first event of that name with a number above this, or NULL: there are several if they are multi-format. */
static struct event *event_of_name_after(struct registry *registry, const char *name, uint64_t number)
{
	struct event *event = event_after(registry, number);

	while (event &&
	       (event->name_length != strlen(name) || memcmp(event->description, name, event->name_length) != 0))
		event = event_after(registry, event->number);
	return event;
}

/* Whether the grant has any user that the daemon knows; says which, and what to do. */
static bool grant_is_used(const struct grant *grant, struct text *why)
{
	struct holder *holder = grant->leases > 0 ? LIST_FIRST(&grant->tenant->holders) : NULL;

	while (holder && !lease_by_bit(holder, grant->bit))
		holder = LIST_NEXT(holder, in_tenant);
	if (declared_is(grant)) {
		text_printf(why, "the policy declares it: take its [Event] out, 'userevctl reload', and try again");
	} else if (holder) {
		text_printf(why, "%s%s-%d of tenant ", grant->persistent ? "" : "it is not persistent, and ends with ",
			    *holder->comm ? holder->comm : client_comm(client_of(holder)), (int)holder->known.pid);
		text_excerpt(why, grant->tenant->path, strlen(grant->tenant->path));
		if (grant->persistent)
			text_printf(why, " has it: try again when it has ended");
	} else if (!LIST_EMPTY(&grant->registered)) {
		text_printf(why, "a data file with it is still open, or kept (KeepFor=), in tenant ");
		text_excerpt(why, grant->tenant->path, strlen(grant->tenant->path));
	} else {
		return false;
	}
	return true;
}

static bool name_is_used(struct registry *registry, const char *name, struct text *why)
{
	const struct event *event = event_of_name_after(registry, name, 0);
	const struct grant *grant;

	for (; event; event = event_of_name_after(registry, name, event->number))
		LIST_FOREACH(grant, &event->grants, in_event)
			if (grant_is_used(grant, why))
				return true;
	return false;
}

/* How many tenants were charged. */
static unsigned forget_name(struct registry *registry, const char *name)
{
	struct event *event = event_of_name_after(registry, name, 0);
	unsigned n = 0;

	while (event) {
		const uint64_t number = event->number;

		for (struct grant *grant = LIST_FIRST(&event->grants), *next; grant; grant = next) {
			next = LIST_NEXT(grant, in_event);
			if (!grant->persistent)
				continue;
			n++;
			grant_persists_no_more(grant);
		}
		event = event_of_name_after(registry, name, number);
	}
	return n;
}

static void delete_refuse(struct client *client, const struct deletion *deletion)
{
	const int answer = deletion->call.result;

	if (answer == KERNEL_E_NO_SUCH)
		control_refuse(client, deletion->serial, REFUSAL_NO_SUCH_EVENT, "the kernel has no event of that name");
	else if (answer == KERNEL_E_IN_USE)
		control_refuse(
			client, deletion->serial, REFUSAL_IN_USE,
			"a tracer uses it, or a program that registered it without the daemon: switch it off, or "
			"end the program, and try again");
	else if (answer == KERNEL_E_UNSUPPORTED)
		control_refuse(client, deletion->serial, REFUSAL_KERNEL_TOO_OLD, "%s",
			       deletion->registry->kernel->facts.backend == BACKEND_EMBEDDED
				       ? "with the embedded backend no event is persistent: each ends with its programs"
				       : "the keeper may not delete persistent events: start it with --allow-persist");
	else
		control_refuse(client, deletion->serial, REFUSAL_TROUBLE, "the kernel does not delete it: %s",
			       strerror(answer < 0 ? -answer : EIO));
}

/* If the kernel has no such event, the charge was for nothing. */
static void delete_on_answer(void *data, struct kernel_call *calls, size_t n _unused_)
{
	_cleanup_(freep) struct deletion *deletion = data;
	struct client *client = task_end(&deletion->task);
	unsigned tenants = 0;
	struct packet *packet;
	size_t list, row;

	if (calls->result == KERNEL_OK || calls->result == KERNEL_E_NO_SUCH)
		tenants = forget_name(deletion->registry, deletion->name);
	if (!client)
		return;
	if (calls->result != KERNEL_OK && tenants == 0) {
		delete_refuse(client, deletion);
		return;
	}
	packet = client_answer(client, KIND_ROWS, deletion->serial, 0);
	list = encode_list(packet, 0);
	row = encode_row_begin(packet);
	row_put_string(packet, "event", deletion->name);
	row_put_u64(packet, "tenants", tenants);
	encode_row_end(packet, row);
	encode_count(packet, list, 1);
	client_send(client, NULL, 0);
}

int handle_delete(struct client *client, const struct message *message)
{
	struct registry *registry = client->holder.registry;
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct string_item name;
	struct strings strings;
	struct deletion *deletion;

	if (decode_strings(message->body, &strings) != 0 || strings.flags != 0 || strings.count != 1 ||
	    !strings_next(&strings, &name) || name.flags != 0 || name.length > WIRE_DESCRIPTION_MAX)
		return REFUSAL_BAD_PACKET;
	/* Its rows could fill the socket, and then there would be no room for this answer. */
	if (control_has_listing(client, message->serial))
		return 0;
	deletion = calloc(1, sizeof(*deletion));
	if (!deletion)
		return -ENOMEM;
	string_copy(deletion->name, name.length + 1U, name.text);
	if (name_is_used(registry, deletion->name, &why)) {
		control_refuse(client, message->serial, REFUSAL_IN_USE, "%s", why.buffer);
		free(deletion);
		return 0;
	}
	deletion->registry = registry;
	deletion->serial = message->serial;
	deletion->call = (struct kernel_call){ .op = KERNEL_DELETE, .text = deletion->name, .fd = -1 };
	task_begin(&deletion->task, client);
	kernel_submit(registry->kernel, &deletion->call, 1, delete_on_answer, deletion);
	return 0;
}
