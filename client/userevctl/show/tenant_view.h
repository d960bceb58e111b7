/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The rows of TENANTS, as `tenants` and `top` show them. */

#include "client/userevctl/show/tenant_name.h"
#include "protocol/row.h"

enum tenant_order {
	TENANTS_BY_EVENTS,
	TENANTS_BY_CONNECTIONS,
	TENANTS_BY_REFUSALS,
	TENANTS_BY_LOST,
	TENANTS_BY_THROTTLED,
	TENANTS_BY_NAME,
	TENANT_ORDERS
};
/* What the orders are called; the first letter of each is its key in `top`. */
extern const char *const tenant_order_names[TENANT_ORDERS];

#define TENANT_NO_LIMIT UINT64_MAX

/* What only grows, for as long as the tenant and the daemon live. */
struct tenant_counts {
	uint64_t refused;
	uint64_t lost; /* for whatever reason: the queue was full, too big, bad */
	uint64_t throttled;
};

struct tenant_view {
	struct cursor row;
	const char *path; /* in the row; not terminated */
	size_t path_length;
	struct tenant_name name;
	uint64_t cgroup_id;
	uint64_t connections;
	uint64_t connections_max;
	uint64_t files;
	uint64_t events;
	uint64_t events_max;
	uint64_t reserved;
	uint64_t lingering;
	struct tenant_counts counts;
	/* Since the look before. */
	int64_t events_change;
	struct tenant_counts change;
};

struct tenant_views {
	struct tenant_view *view;
	size_t n;
	size_t capacity;
};

void tenant_views_deinit(struct tenant_views *);
/* Lives as long as the row. */
struct tenant_view tenant_view_of(struct cursor row);
/* Copies the row. 0 or -ENOMEM. */
int tenant_views_add(struct tenant_views *, struct cursor row);
/* Most comes first; by name: in the order of the alphabet. Among equals the paths decide. */
void tenant_views_sort(struct tenant_views *, enum tenant_order);
/* Fills in what changed. 0 or -ENOMEM. */
int tenant_views_compare(struct tenant_views *, const struct tenant_views *before);
/* "quota-exceeded 5, not-permitted 1" */
void tenant_view_refusals(const struct tenant_view *, char *ret, size_t size);
