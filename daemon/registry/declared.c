/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * Declared events are registered on data files of the daemon's own, for a tenant of its own. So each costs the machine one
 * event, and no other tenant anything; a program that registers the same event joins it.
 *
 * Events can't be removed from a data file. So after any change all declared events are registered on new files, which
 * changes nothing for those that exist already. Then the old files are closed, with the events that are no longer declared.
 */

#include "daemon/registry/declared.h"

#include <stdio.h>

#include "daemon/limits.h"
#include "daemon/policy/policy.h"
#include "daemon/process/log.h"
#include "daemon/registry/event.h"
#include "daemon/registry/fd_budget.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/refusals.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/stream.h"
#include "daemon/registry/tenant.h"
#include "protocol/event/description.h"

struct item {
	const struct section *event;
	struct grant *grant;   /* NULL: refused */
	struct stream *stream; /* NULL: refused, or no memory */
	uint16_t flags;
	bool asked; /* a call of the kernel is under way for it */
	bool held;
};

/* All that was declared at one time. */
struct declared {
	struct registry *registry;
	struct policy *policy; /* whose items they are; NULL: the last daemon's */
	struct tenant *tenant;
	size_t n;
	struct item *items;
	struct settling settling;
	size_t n_page;	/* calls for the page, which come first; then those for the streams, and then those for items */
	size_t n_files; /* calls before those for items */
	struct kernel_call *calls;
};

static struct declared *declared_free(struct declared *declared)
{
	if (!declared)
		return NULL;
	for (size_t i = 0; i < declared->n; i++) {
		if (declared->items[i].held)
			grant_lease_ends(declared->items[i].grant);
		grant_unref(declared->items[i].grant);
	}
	/* The last: they end. */
	for (size_t i = 0; i < declared->n; i++)
		if (declared->items[i].stream)
			stream_unuse(declared->items[i].stream);
	policy_unref(declared->policy);
	free(declared->items);
	free(declared->calls);
	free(declared);
	return NULL;
}

static struct declared *declared_new(struct registry *registry, struct tenant *tenant, size_t n)
{
	struct declared *declared = calloc(1, sizeof(*declared));

	if (!declared)
		return NULL;
	declared->registry = registry;
	declared->tenant = tenant;
	declared->items = calloc(MAX(n, 1), sizeof(*declared->items));
	/* For two files of the page, and at most as many streams as items. */
	declared->calls = calloc(2 + 2 * n, sizeof(*declared->calls));
	if (!declared->items || !declared->calls)
		return declared_free(declared);
	return declared;
}

static void declared_complain(const struct section *event, const char *why)
{
	TEXT(origin, PATH_MAX + 32);

	policy_origin_text(&event->origin, &origin);
	log_error("%s: [%s] can't be had: %s", origin.buffer, event->name, why);
}

static bool item_hold(struct item *item, struct stream *stream, uint32_t index)
{
	uint32_t asked = 0;

	if (!reference_get(stream, item->grant, index, &asked))
		return false;
	grant_lease_begins(item->grant);
	item->held = true;
	return true;
}

/* --- registering --- */

/* 0; or a refusal, with the reason in `why`. */
static int declared_describe(const struct section *event, struct description *ret, struct text *why)
{
	char text[WIRE_DESCRIPTION_MAX + 2];
	const char *fields = event->values[POLICY_FIELDS].text;
	int length = snprintf(text, sizeof(text), "%s %s", policy_event_name(event->name), fields ? fields : "");

	return description_parse(text, MIN((size_t)length, sizeof(text) - 1), ret, why);
}

static bool can_persist(const struct declared *declared)
{
	return declared->registry->kernel->facts.flags & REGISTER_PERSIST;
}

/* 0, or a negative errno. An event that can't be had is left out. */
static int declared_add_item(struct declared *declared, const struct section *event)
{
	static struct description description; /* large */
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct item *item = &declared->items[declared->n];
	int r = declared_describe(event, &description, &why);

	*item = (struct item){ .event = event, .asked = true };
	if (event->values[POLICY_PERSIST].number && can_persist(declared))
		item->flags = REGISTER_PERSIST;
	else if (event->values[POLICY_PERSIST].number)
		log_warning("[%s]: this machine can't make it persist; it ends with the daemon", event->name);
	if (r == 0)
		r = grant_get(declared->tenant, &description, 0, 0, &item->grant, &why);
	if (r != 0) {
		declared_complain(event, r < 0 ? strerror(-r) : why.buffer);
		return 0;
	}
	if (declared->n++ % STREAM_EVENTS_MAX > 0) {
		item->stream = stream_use(item[-1].stream);
		return 0;
	}
	if (!fd_budget_has_room(declared->registry) ||
	    stream_new(declared->tenant, geteuid(), &declared->calls[declared->n_files], &item->stream, &why) != 0)
		return -ENOMEM;
	declared->n_files++;
	return 0;
}

static void declared_on_answer(void *, struct kernel_call *, size_t);

/* With calls for all items that are asked, behind those for files. */
static void declared_submit(struct declared *declared)
{
	size_t n = declared->n_files;

	for (size_t i = 0; i < declared->n; i++) {
		const struct item *item = &declared->items[i];

		if (item->asked)
			declared->calls[n++] = (struct kernel_call){
				.op = KERNEL_REGISTER,
				.page = declared->tenant->number,
				.stream = item->stream->number,
				.flags = item->flags,
				.text = item->grant->event->description,
				.fd = -1,
			};
	}
	declared->registry->others.registering += (uint32_t)n;
	kernel_submit(declared->registry->kernel, declared->calls, n, declared_on_answer, declared);
}

/* --- the kernel's answers --- */

static void item_take(struct item *item, const struct kernel_call *call)
{
	int answer = call->result;
	const char *sentence;
	uint32_t refusal;

	item->asked = false;
	if (answer == KERNEL_OK) {
		item->grant->bit = call->bit;
		answer = item_hold(item, item->stream, call->index) ? KERNEL_OK : -ENOMEM;
	}
	if (answer == KERNEL_OK && call->flags & REGISTER_PERSIST)
		grant_persists(item->grant);
	if (answer == KERNEL_OK)
		return;
	sentence = refusal_for_kernel(answer, &refusal);
	declared_complain(item->event, sentence ? sentence : strerror(answer < 0 ? -answer : EIO));
	/* Otherwise no tenant could register the name with the fields that the kernel has. */
	item->grant = grant_unref(item->grant);
	stream_unuse(item->stream);
	item->stream = NULL;
}

/* Whether some names are about to be free: these items stay asked. */
static bool declared_take_items(struct declared *declared, const struct kernel_call *call)
{
	bool settles = false;

	for (size_t i = 0; i < declared->n; i++) {
		struct item *item = &declared->items[i];

		if (!item->asked)
			continue;
		if (call->result == KERNEL_E_SETTLING && settling_goes_on(&declared->settling))
			settles = true;
		else
			item_take(item, call);
		call++;
	}
	return settles;
}

static void declared_on_settled(struct settling *settling)
{
	declared_submit(container_of(settling, struct declared, settling));
}

static void declared_on_answer(void *data, struct kernel_call *calls _unused_, size_t n)
{
	struct declared *declared = data;
	struct registry *registry = declared->registry;
	bool has_changed = declared->policy != registry->policy;
	const struct kernel_call *first = declared->calls + declared->n_files;
	int r;

	registry->others.registering -= (uint32_t)n;
	r = declared->n_page > 0 ? tenant_take_page(registry, declared->calls, declared->n_page) : 0;
	for (size_t i = declared->n_page; i < declared->n_files; i++) {
		struct kernel_call *call = &declared->calls[i];
		int answer = stream_came(stream_by_number(registry, call->stream), call);

		r = MIN(answer, r);
	}
	declared->n_page = declared->n_files = 0;
	if (r == 0 && declared_take_items(declared, first)) {
		settling_wait(registry, &declared->settling, declared_on_settled);
		return;
	}
	registry->declaring = false;
	if (r < 0) {
		if (r != -ECANCELED)
			log_error("no page or data file (%s): the events that the policy declares stay as they were",
				  strerror(-r));
		registry->declared = registry->declared_before;
		registry->declared_before = declared;
	}
	registry->declared_before = declared_free(registry->declared_before);
	if (has_changed)
		declared_adopt(registry);
}

/* --- before and after a reload --- */

static bool declared_has(const struct declared *declared, const struct section *wanted)
{
	static struct description description; /* large */
	TEXT(why, WIRE_SENTENCE_MAX + 1);
	struct event *event;
	const struct grant *grant;

	if (declared_describe(wanted, &description, &why) != 0)
		return false;
	event = event_by_name(declared->registry, description.canonical, description.name_length);
	grant = grant_find(declared->tenant, event);
	return grant && grant->leases > 0 && streq(event->description, description.canonical) &&
	       (grant->persistent || !wanted->values[POLICY_PERSIST].number || !can_persist(declared));
}

/* NULL: no memory. */
static struct declared *declared_make(struct registry *registry)
{
	const struct sections *events = &registry->policy->events;
	struct declared *declared;
	struct tenant *tenant;
	int r = tenant_of_policy(registry, &tenant);

	if (r < 0)
		return NULL;
	declared = declared_new(registry, tenant, events->n);
	if (!declared) {
		tenant_release(tenant);
		return NULL;
	}
	declared->policy = policy_ref(registry->policy);
	if (tenant->page_fd < 0)
		declared->n_page = declared->n_files = tenant_page_calls(tenant, tenant->path, declared->calls);
	for (size_t i = 0; r == 0 && i < events->n; i++)
		r = declared_add_item(declared, events->at[i]);
	/* With items, it is freed with the last of its grants. */
	if (declared->n == 0)
		tenant_release(tenant);
	return r == 0 ? declared : declared_free(declared);
}

void declared_adopt(struct registry *registry)
{
	const struct sections *events = &registry->policy->events;
	struct declared *declared = registry->declared;
	size_t n = 0;

	/* It looks again when the kernel has answered. */
	if (registry->declaring)
		return;
	while (declared && n < events->n && declared_has(declared, events->at[n]))
		n++;
	if (n == events->n && (!declared || declared->n == n))
		return;
	declared = declared_make(registry);
	if (!declared) {
		log_error("out of memory or fds: the events that the policy declares stay as they were");
		return;
	}
	registry->declared_before = registry->declared;
	registry->declared = declared->n > 0 ? declared : declared_free(declared);
	registry->declaring = registry->declared;
	if (!registry->declaring) {
		registry->declared_before = declared_free(registry->declared_before);
		return;
	}
	declared_submit(declared);
}

int declared_begin(struct registry *registry)
{
	declared_adopt(registry);
	return settling_await(registry, &registry->declaring);
}

void declared_inherit(struct registry *registry)
{
	const struct reference *reference;
	struct declared *declared;
	struct tenant *tenant;
	size_t n = 0;

	if (tenant_of_policy(registry, &tenant) < 0)
		return;
	for (const struct stream *stream = registry->streams; stream; stream = stream->by_number.next)
		if (stream->tenant == tenant && stream->fd >= 0)
			n += stream->references.n;
	declared = n > 0 ? declared_new(registry, tenant, n) : NULL;
	for (struct stream *stream = registry->streams; declared && stream; stream = stream->by_number.next)
		if (stream->tenant == tenant && stream->fd >= 0)
			ID_TABLE_FOREACH(reference, &stream->references) {
				struct item *item = &declared->items[declared->n++];

				item->grant = grant_ref(reference->grant);
				item->stream = stream_use(stream);
				item_hold(item, stream, reference->index);
			}
	if (!declared)
		tenant_release(tenant);
	registry->declared = declared;
}

void declared_deinit(struct registry *registry)
{
	registry->declared_before = declared_free(registry->declared_before);
	registry->declared = declared_free(registry->declared);
}

bool declared_is(const struct grant *grant)
{
	const struct declared *declared = grant->tenant->registry->declared;

	return declared && grant->tenant == declared->tenant && grant->leases > 0;
}
