/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The rows of TENANTS, as `tenants` and `top` show them. */

#include "client/userevctl/ctl.h"
#include "client/userevctl/show/tenant_name.h"

enum tenant_order {
	TENANTS_BY_EVENTS,
	TENANTS_BY_CONNECTIONS,
	TENANTS_BY_REFUSALS,
	TENANTS_BY_LOST,
	TENANTS_BY_THROTTLED,
	TENANTS_BY_NAME,
	TENANT_ORDERS
};
/* Ends with NULL. The first letter of each is its key in `top`. */
extern const char *const tenant_order_names[];
#define TENANT_SORT_ROW(struct_, member)                                                                               \
	VALUE_ROW("sort", "KEY", OPTION_WORD, struct_, member, .words = tenant_order_names,                            \
		  .help = "events, connections, refusals, lost, throttled or name")
/* Of that option's word; NULL: by events. */
enum tenant_order tenant_order(const char *sort);

enum tenant_number {
	TENANT_EVENTS,
	TENANT_EVENTS_MAX,
	TENANT_RESERVED,
	TENANT_LINGERING,
	TENANT_CONNECTIONS,
	TENANT_CONNECTIONS_MAX,
	TENANT_FILES,
	/* Counters, which only grow while the tenant and the daemon live. */
	TENANT_REFUSED,
	TENANT_LOST, /* the queue was full, or the record was too big or bad */
	TENANT_THROTTLED,
	TENANT_NUMBERS
};
#define TENANT_NO_LIMIT UINT64_MAX

struct tenant_view {
	struct cursor row;
	const char *path; /* in the row; not terminated */
	size_t path_length;
	struct tenant_name name;
	uint64_t number[TENANT_NUMBERS];
	uint64_t
		change[TENANT_NUMBERS]; /* since the look before; a number that is no counter may have become smaller */
};

struct tenant_views {
	struct tenant_view *view;
	size_t n;
	double seconds;	  /* since the look before; 0: there was none */
	uint64_t machine; /* the events that the machine can have */
};

void tenant_views_deinit(struct tenant_views *);
/* Valid as long as the row. */
struct tenant_view tenant_view_of(struct cursor row);
/* Copies the row. */
void tenant_views_add(struct tenant_views *, struct cursor row);
/* The largest number first; by name: in alphabetical order. Equal ones in the order of their paths. */
void tenant_views_sort(struct tenant_views *, enum tenant_order);
/* Computes the changes since `before`. Afterwards both are in the order of their paths. */
void tenant_views_compare(struct tenant_views *now, struct tenant_views *before, double seconds);
/* "quota-exceeded 5, not-permitted 1" */
void tenant_view_refusals(const struct tenant_view *, char *ret, size_t size);
/* An array of rows with the names. */
void tenant_views_json(const struct tenant_views *, struct json *);

/* A column of a table of tenants. */
enum { TENANT_COLUMNS_MAX = 16 };
struct tenant_cell;
struct tenant_column {
	struct column column;
	void (*put)(struct table *, const struct tenant_cell *);
	enum tenant_number number; /* for tenant_put_number() and the like; of a text: TENANT_NUMBERS */
	enum style style;	   /* of a number that is not 0 */
	const char *help;
};
struct tenant_cell {
	const struct tenant_column *column;
	const struct tenant_views *views;
	const struct tenant_view *view;
};
void tenant_put_name(struct table *, const struct tenant_cell *);
void tenant_put_path(struct table *, const struct tenant_cell *);
void tenant_put_number(struct table *, const struct tenant_cell *);
/* Prints the tenants from `first`, at most so many. The column of `order` is marked and always shown. */
void tenant_views_print(const struct tenant_views *, const struct output *, const struct tenant_column *,
			size_t n_columns, size_t first, size_t most, enum tenant_order order);
