/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* The rows of TENANTS, as `tenants` and `top` show them. */

#include "client/userevctl/ctl.h"
#include "client/userevctl/show/tenant_name.h"

/* "name", and the keys of numbers that tenants are sorted by; ends with NULL. The first letter of each is its key in `top`. */
enum { TENANT_ORDERS = 6 };
extern const char *const tenant_orders[TENANT_ORDERS + 1];
#define TENANT_SORT_ROW(member_)                                                                                       \
	{                                                                                                              \
		.name = "sort", .argument = "KEY", .kind = OPTION_WORD, .member = member_, .words = tenant_orders,     \
		.help = "events, connections, refusals, lost, throttled or name"                                       \
	}

struct tenant_view {
	struct cursor row;
	struct cursor before; /* its row in the look before; empty: it is new */
	char *path;	      /* as others wrote it */
	struct tenant_name name;
};

struct tenant_views {
	struct tenant_view *view;
	size_t n;
	struct cursor status; /* a copy of the daemon's row; empty: it was not asked */
	uint64_t time;	      /* of the look, ns on the monotonic clock */
	double seconds;	      /* since the look before; 0: there was none */
};

void tenant_views_deinit(struct tenant_views *);
/* Copies the row. */
struct tenant_view *tenant_views_add(struct tenant_views *, struct cursor row);
/* Removes the last one. */
void tenant_views_drop(struct tenant_views *);
/* The largest number first, or names in alphabetical order. Equal ones, and with NULL all, in the order of their paths. */
void tenant_views_sort(struct tenant_views *, const char *order);
/* Takes the rows of the look `before`. Afterwards both are in the order of their paths. */
void tenant_views_compare(struct tenant_views *now, struct tenant_views *before);
/* "refusals" and "lost" are sums. False: the row has no such number: a limit that is infinite. */
bool tenant_number(struct cursor row, const char *key, uint64_t *ret);
/* Since the look before. */
int64_t tenant_change(const struct tenant_view *, const char *key);
/* An array of rows with the names. */
void tenant_views_json(const struct tenant_views *, struct json *);

/* tenant_columns.c */
/* As `tenants` does with an `order` of NULL; otherwise as `top` does, which marks and always shows the column of the order. */
void tenant_views_print(const struct tenant_views *, const struct output *, size_t first, size_t most,
			const char *order);
/* The meaning of the columns of `top`. */
void tenant_columns_explain(const struct output *);
enum { BAR_LEAST = 10 /* of a tenant's bar */, BAR_MOST = 60 };
/* "[||||::    ]": used, and reserved but not used; or "[||||    ::]" with the reserved part at the end. */
enum style bar_make(char ret[static BAR_MOST + 3], size_t inside, uint64_t used, uint64_t most, uint64_t reserved,
		    bool at_end);
/* Per second; "-": there was no look before. */
struct phrase rate_of(int64_t change, double seconds);
