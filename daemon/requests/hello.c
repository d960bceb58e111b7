/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/native/native.h"
#include "daemon/requests/requests.h"

#include "daemon/registry/own_trace.h"
#include "daemon/registry/rules.h"
#include "daemon/registry/silence.h"
#include "daemon/registry/tenant.h"

static uint64_t hello_features(const struct tenant *tenant)
{
	uint16_t flags = tenant->registry->kernel->facts.flags & rules_flags(tenant);
	uint64_t features = WIRE_FEATURE_WATCH;

	if (flags & REGISTER_PERSIST)
		features |= WIRE_FEATURE_PERSIST;
	if (flags & REGISTER_MULTI_FORMAT)
		features |= WIRE_FEATURE_MULTI_FORMAT;
	if (tenant->muted)
		features |= WIRE_FEATURE_MUTED;
	if (silence_is_possible(tenant->registry) && rules_trace_bytes(tenant) > 0)
		features |= WIRE_FEATURE_OWN_TRACES;
	if (native_is_allowed(tenant))
		features |= WIRE_FEATURE_NATIVE;
	return features;
}

static void hello_welcome(struct client *client, uint32_t serial, uint64_t understands)
{
	struct tenant *tenant = client->holder.tenant;
	const struct kernel_facts *facts = &client->holder.registry->kernel->facts;
	const struct wire_welcome welcome = {
		.features = hello_features(tenant) & understands,
		.page_bytes = WIRE_PAGE_BYTES,
		.page_bits = facts->page_bits,
		.payload_max = facts->payload_max,
		.packet_max = WIRE_PACKET_MAX,
		.batch_max = WIRE_BATCH_MAX,
		.events_max = tenant->level->own[RESOURCE_EVENTS].maximum,
		.backend = facts->backend,
	};

	encode_welcome(client_answer(client, KIND_WELCOME, serial, 0), &welcome, tenant->path);
	client->holder.known.takes_traces = (understands & WIRE_FEATURE_OWN_TRACES) != 0;
	client_greet(client);
	client_send(client, &tenant->page_fd, 1);
	own_traces_tell(&client->holder);
}

/* A tenant's first client has its page made, and may be gone when it is. */
struct page_task {
	struct client_task task;
	struct registry *registry;
	struct kernel_call calls[2];
	uint32_t serial;
	uint64_t understands;
	char path[]; /* the calls need it even when there is no tenant any more */
};

static void hello_on_page(void *data, struct kernel_call *calls, size_t n)
{
	_cleanup_(freep) struct page_task *page = data;
	struct client *client = task_end(&page->task);
	int r = tenant_take_page(page->registry, calls, n);

	/* This page, or the one for another client that asked at the same time. */
	if (client && client->holder.tenant->page_fd >= 0)
		hello_welcome(client, page->serial, page->understands);
	else if (client)
		client_disconnect(client, page->serial, REFUSAL_TROUBLE, "no status page could be made: %s",
				  strerror(-r));
}

static int hello_ask_for_page(struct client *client, uint32_t serial, uint64_t understands)
{
	const struct tenant *tenant = client->holder.tenant;
	struct page_task *page = calloc(1, sizeof(*page) + strlen(tenant->path) + 1);
	size_t n;

	if (!page)
		return -ENOMEM;
	memcpy(page->path, tenant->path, strlen(tenant->path));
	page->registry = tenant->registry;
	page->serial = serial;
	page->understands = understands;
	n = tenant_page_calls(tenant, page->path, page->calls);
	task_begin(&page->task, client);
	kernel_submit(tenant->registry->kernel, page->calls, n, hello_on_page, page);
	return 0;
}

int handle_hello(struct client *client, const struct message *message)
{
	struct wire_hello hello;
	const char *distrust;
	uint64_t missing;
	int r;

	r = decode_fixed(message->body, KIND_HELLO, &hello);
	if (r != 0)
		return r;
	missing = hello.needs & ~hello_features(client->holder.tenant);
	distrust = rules_distrust(&client->holder);
	if (distrust)
		client_disconnect(client, message->serial, REFUSAL_NOT_PERMITTED, "%s", distrust);
	else if (missing)
		client_disconnect(client, message->serial, REFUSAL_FEATURE_MISSING,
				  "needs features %#llx that are not here", (unsigned long long)missing);
	else if (client->holder.tenant->page_fd >= 0)
		hello_welcome(client, message->serial, hello.understands);
	else
		return hello_ask_for_page(client, message->serial, hello.understands);
	return 0;
}
