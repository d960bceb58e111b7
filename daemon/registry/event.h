/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * An event, as the kernel knows it, and a grant: that a tenant holds it. A grant is charged, and freed and refunded with the
 * last reference to it; an event is gone with its last grant.
 */

#include <sys/queue.h>

#include "daemon/quota/charge.h"
#include "daemon/registry/registry.h"
#include "protocol/base/table.h"
#include "protocol/event/description.h"

struct tenant;
struct reference;

struct event {
	struct registry *registry;
	struct quota_event account;
	struct grant_list grants;
	uint64_t number; /* grows; for listings */
	uint16_t flags;	 /* REGISTER_MULTI_FORMAT: others of the same name have other fields */
	uint16_t name_length;
	uint16_t length; /* of the description */
	UT_hash_handle by_key;
	char description[]; /* canonical; its beginning is the key */
};

struct grant {
	uint64_t event_number; /* its id among the tenant's grants */
	struct tenant *tenant;
	uint64_t number;
	struct event *event;
	struct quota_charge charge;
	uint32_t bit;	/* in the tenant's page; 0 until the kernel has answered */
	uint32_t entry; /* in the ledger */
	unsigned references;
	unsigned leases;   /* 0 with references left: it lingers */
	unsigned admitted; /* the generation of the last policy that admitted it without flags; 0: none */
	bool persistent;   /* the kernel keeps it, so it is charged while this daemon lives */
	struct reference_list registered; /* on these streams */
	LIST_ENTRY(grant) in_event;
};

/*
 * Finds or makes the tenant's grant of the event, with one reference that the caller owns. 0; a positive enum refusal with a
 * sentence in `why`; or -ENOMEM. Whatever it charged is refunded when it fails, and by grant_unref().
 */
int grant_get(struct tenant *, const struct description *, uint16_t flags, struct grant **ret, struct text *why);
/*
 * The same for a request of a client's. An event of that name with other fields adds REGISTER_MULTI_FORMAT to the flags, if kernel and
 * policy allow it.
 */
int grant_ask(struct tenant *, const struct description *, uint16_t *flags, struct grant **ret, struct text *why);
/*
 * With a reference, as grant_get(), the tenant's grant of an event that is described in these very words, if the present policy has
 * admitted it without flags: then nothing is left to decide. Otherwise NULL.
 */
struct grant *grant_admitted(struct tenant *, const char *text, size_t length);
/* A grant of the last daemon, with its number; quotas don't refuse it. 0 or a negative errno. */
int grant_restore(struct tenant *, uint64_t number, const struct description *, uint16_t flags, struct grant **ret);
/* Whether the tenant may have the event beside one of the same name that has other fields. */
bool grant_may_be_one_of_many(const struct tenant *);
struct grant *grant_ref(struct grant *);
struct grant *grant_unref(struct grant *);

/* A client leases it, or its lease ends. */
void grant_lease_begins(struct grant *);
void grant_lease_ends(struct grant *);
struct grant *grant_find(const struct tenant *, const struct event *);

/* The kernel has made it persistent. */
void grant_persists(struct grant *);
/* At the daemon's end, when persistent grants are all that is left. */
void grants_end(struct registry *);
/* The event that a client of the tenant means. Its fields may be other ones unless it is one of many formats; see grant_ask(). */
struct event *event_meant(const struct tenant *, const struct description *, uint16_t *flags);
/* Not one of many formats. The name need not be terminated. */
struct event *event_by_name(const struct registry *, const char *name, size_t length);
/* The first event with a number above this; NULL at the end. */
struct event *event_after(struct registry *, uint64_t number);
