/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * An event, as the kernel knows it, and a grant: that a tenant holds it. A grant is charged, and freed and refunded with the
 * last reference to it; an event is gone with its last grant.
 */

#include <sys/queue.h>

#include "daemon/ledger/entries.h"
#include "daemon/quota/charge.h"
#include "daemon/registry/reference.h"
#include "daemon/registry/registry.h"
#include "protocol/base/table.h"
#include "protocol/event/description.h"

struct grant {
	uint64_t event_number; /* its id among the tenant's grants */
	struct tenant *tenant; /* NULL: an event's first grant that is not used */
	struct event *event;
	uint64_t number;
	struct quota_charge charge;
	uint32_t bit;	/* in the tenant's page; 0 until the kernel has answered */
	uint32_t entry; /* in the ledger */
	unsigned references;
	unsigned leases;   /* 0 with references left: it lingers */
	unsigned admitted; /* the generation of the last policy that admitted it without flags; 0: none */
	uint16_t state;	   /* KERNEL_STATES that the kernel was told; see silencing.h */
	bool persistent;   /* the kernel keeps it, so it is charged while this daemon lives */
	struct reference_list registered; /* on these streams */
	struct reference first;		  /* one of them; usually there is no other */
	LIST_ENTRY(grant) in_event;
	LIST_ENTRY(grant) in_tenant;
};

/* The admin that has switched an event on. */
struct enabled_by {
	struct entry_enabled admin;
	uint32_t entry; /* in the ledger */
};

struct event {
	uint64_t number; /* grows; for listings */
	struct quota_event account;
	struct grant_list grants;
	struct grant first;	       /* one of them; usually there is no other */
	struct enabled_by *enabled_by; /* NULL: it is off, or the daemon does not know */
	uint16_t flags;		       /* REGISTER_MULTI_FORMAT: others of the same name have other fields */
	uint16_t name_length;
	uint16_t length; /* of the description */
	UT_hash_handle by_key;
	char description[]; /* canonical; its beginning is the key */
};

/* An event is found by its name, and by the hash of the name. */
struct event_key {
	const char *text;
	size_t length;
	uint32_t hash;
	struct event *found; /* NULL: there is none */
};

/* Looks for the event that is described in these words, if they are canonical. */
struct event_key event_look_up(const struct registry *, const char *text, size_t length);

/*
 * Finds or makes the tenant's grant of the event, with one reference that the caller owns. 0; a positive enum refusal with a
 * sentence in `why`; or -ENOMEM. Whatever it charged is refunded when it fails, and by grant_unref(). `number`: that of a grant of the
 * last daemon, which quotas don't refuse; 0: a new one.
 */
int grant_get(struct tenant *, const struct description *, uint16_t flags, uint64_t number, struct grant **ret,
	      struct text *why);
/*
 * The same for a request of a client's. An event of that name with other fields adds REGISTER_MULTI_FORMAT to the flags, if kernel and
 * policy allow it. The key is that of the words in which it was requested.
 */
int grant_ask(struct tenant *, const struct description *, struct event_key, uint16_t *flags, struct grant **ret,
	      struct text *why);
/*
 * With a reference, as grant_get(), the tenant's grant of an event that is described in these very words, if the present policy has
 * admitted it without flags: then nothing is left to decide. Otherwise NULL.
 */
struct grant *grant_admitted(const struct tenant *, struct event_key, const char *text, size_t length);
/* Whether the tenant may have an event beside one of the same name that has other fields. */
bool grant_may_be_one_of_many(const struct tenant *);
struct grant *grant_find(const struct tenant *, struct event *);
struct grant *grant_ref(struct grant *);
struct grant *grant_unref(struct grant *);

/* A client leases it, or its lease ends. */
void grant_lease_begins(struct grant *);
void grant_lease_ends(struct grant *);

/* The kernel has made it persistent. */
void grant_persists(struct grant *);
/* The kernel has deleted it: its charge ends, unless it is being registered again. */
void grant_persists_no_more(struct grant *);
/* At the daemon's end, when persistent grants are all that is left. */
void grants_end(struct registry *);

/*
 * The event that a client of the tenant means, with the key that it has or would have: `key`, if the name is the same in canonical form. Its
 * fields may be other ones unless it is one of many formats; see grant_ask().
 */
struct event_key event_meant(const struct tenant *, const struct description *, struct event_key, uint16_t *flags);
/* NULL: an admin has switched it off. 0 or -ENOMEM. */
int event_set_enabled_by(struct registry *, struct event *, const struct entry_enabled *);
/* Not one of many formats. The name need not be terminated. */
struct event *event_by_name(const struct registry *, const char *name, size_t length);
/* The first event with a number above this; NULL at the end. */
struct event *event_after(struct registry *, uint64_t number);
