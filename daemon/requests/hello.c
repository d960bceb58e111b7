/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "daemon/requests/hello.h"

#include "daemon/registry/rules.h"
#include "daemon/registry/tenant.h"

static uint64_t hello_features(const struct tenant *tenant)
{
	uint16_t flags = tenant->registry->kernel->facts.flags & rules_flags(tenant);
	uint64_t features = WIRE_FEATURE_WATCH;

	if (flags & REGISTER_PERSIST)
		features |= WIRE_FEATURE_PERSIST;
	if (flags & REGISTER_MULTI_FORMAT)
		features |= WIRE_FEATURE_MULTI_FORMAT;
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
		.events_max = tenant->level->own.maximum,
		.backend = facts->backend,
	};

	encode_welcome(client_answer(client, KIND_WELCOME, serial, 0), &welcome, tenant->path);
	client_greet(client);
	client_send(client, &tenant->page_fd, 1);
}

/* A tenant's first client has its page made, and may be gone when it is. */
struct page_task {
	struct client_task task;
	struct registry *registry;
	struct kernel_call
		calls[2]; /* a keeper that outlives us is asked for one more, in case we outlive the keeper */
	uint32_t serial;
	uint64_t understands;
	char tenant[]; /* the calls need it even when there is no tenant any more */
};

/* Two clients may have asked at the same time: the second page is another fd of the first. */
static void hello_keep_page(struct registry *registry, struct kernel_call *calls, size_t n)
{
	struct tenant *tenant = tenant_by_number(registry, calls->page);
	bool failed = calls[n - 1].result != KERNEL_OK;

	if (tenant && tenant->page_fd < 0 && !failed) {
		tenant->page_fd = fd_steal(&calls[0].fd);
		tenant->page_writable = n > 1 ? fd_steal(&calls[1].fd) : -1;
	}
	if (!tenant || tenant->page_fd < 0)
		kernel_tell(registry->kernel, (struct kernel_call){ .op = KERNEL_PAGE_FREE, .page = calls->page });
}

static void hello_on_page(void *data, struct kernel_call *call, size_t n)
{
	struct page_task *page = data;
	struct client *client = task_end(&page->task);

	if (call->result == KERNEL_OK)
		hello_keep_page(page->registry, call, n);
	/* Also where the page is another client's: then the second call alone was carried out. */
	for (size_t i = 0; i < n; i++)
		fd_close(call[i].fd);
	/* This page, or the one for another client that asked at the same time. */
	if (client && client->holder.tenant->page_fd >= 0)
		hello_welcome(client, page->serial, page->understands);
	else if (client)
		client_disconnect(client, page->serial, REFUSAL_TROUBLE, "no status page could be made: %s",
				  call->result < 0 ? strerror(-call->result) : "the kernel refused it");
	free(page);
}

static int hello_ask_for_page(struct client *client, uint32_t serial, uint64_t understands)
{
	size_t length = strlen(client->holder.tenant->path);
	struct page_task *page = calloc(1, sizeof(*page) + length + 1);

	if (!page)
		return -ENOMEM;
	memcpy(page->tenant, client->holder.tenant->path, length);
	page->registry = client->holder.registry;
	page->serial = serial;
	page->understands = understands;
	page->calls[0] = (struct kernel_call){
		.op = KERNEL_PAGE_NEW,
		.page = client->holder.tenant->number,
		.text = page->tenant,
		.fd = -1,
	};
	page->calls[1] = (struct kernel_call){
		.op = KERNEL_PAGE_FETCH,
		.page = client->holder.tenant->number,
		.index = 1,
		.fd = -1,
	};
	task_begin(&page->task, client);
	kernel_submit(client->holder.registry->kernel, page->calls,
		      client->holder.registry->kernel->facts.deposits ? 2 : 1, hello_on_page, page);
	return 0;
}

int handle_hello(struct client *client, const struct message *message)
{
	struct wire_hello hello;
	const char *distrust;
	uint64_t missing;
	int r;

	r = decode_hello(message->body, &hello);
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
	else if (hello_ask_for_page(client, message->serial, hello.understands) < 0)
		client_disconnect(client, message->serial, REFUSAL_TROUBLE,
				  "the daemon is out of memory; try again later");
	return 0;
}
