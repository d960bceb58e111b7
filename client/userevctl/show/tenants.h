/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The rows of TENANTS, as `tenants` and `top` show them. */

#include "client/userevctl/ctl.h"
#include "client/userevctl/show/tenant_name.h"

/* "name", and the keys of numbers that tenants are sorted by; ends with NULL. The first letter of each is its key in `top`. */
enum { TENANT_ORDERS = 6 };
extern const char *const tenant_orders[TENANT_ORDERS + 1];
#define TENANT_SORT_ROW(struct_, member)                                                                               \
	VALUE_ROW("sort", "KEY", OPTION_WORD, struct_, member, .words = tenant_orders,                                 \
		  .help = "events, connections, refusals, lost, throttled or name")

struct tenant_view {
	struct cursor row;
	struct cursor before; /* its row in the look before; empty: it is new */
	char *path;	      /* as others wrote it */
	struct tenant_name name;
};

struct tenant_views {
	struct tenant_view *view;
	size_t n;
	double seconds;	  /* since the look before; 0: there was none */
	uint64_t machine; /* the events that the machine can have */
};

void tenant_views_deinit(struct tenant_views *);
/* Copies the row. */
struct tenant_view *tenant_views_add(struct tenant_views *, struct cursor row);
/* Removes the last one. */
void tenant_views_drop(struct tenant_views *);
/* The largest number first, or names in alphabetical order. Equal ones, and with NULL all, in the order of their paths. */
void tenant_views_sort(struct tenant_views *, const char *order);
/* Takes the rows of the look `before`. Afterwards both are in the order of their paths. */
void tenant_views_compare(struct tenant_views *now, struct tenant_views *before, double seconds);
/* "refusals" and "lost" are sums. False: the row has no such number: a limit that is infinite. */
bool tenant_number(const struct tenant_view *, const char *key, uint64_t *ret);
/* Since the look before. */
int64_t tenant_change(const struct tenant_view *, const char *key);
/* An array of rows with the names. */
void tenant_views_json(const struct tenant_views *, struct json *);

/* A column of a table of tenants. */
enum { TENANT_COLUMNS_MAX = 16 };
struct tenant_column;
typedef void tenant_put_fn(struct table *, const struct tenant_column *, const struct tenant_views *,
			   const struct tenant_view *);
struct tenant_column {
	struct column column;
	tenant_put_fn *put;
	const char *key;  /* of the number; "name", or "tenant": the path */
	enum style style; /* of a number that is not 0 */
	const char *help;
};
/* The name or the path, or a number. */
tenant_put_fn tenant_put;
/* Prints the tenants from `first`, at most so many. The column of `order`, unless NULL, is marked and always shown. */
void tenant_views_print(const struct tenant_views *, const struct output *, const struct tenant_column *,
			size_t n_columns, size_t first, size_t most, const char *order);
