/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A REGISTER under way, and the answer to it: the files that are sent with it are proved before. register.c explains. */

#include "daemon/connection/client.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/share.h"

struct item {
	struct grant *grant;   /* NULL: refused */
	struct stream *stream; /* on which it was granted; the client's share keeps it */
	char *sentence;	       /* of a refusal; NULL where memory was short */
	uint32_t refusal;
	uint32_t index;
	uint32_t asked; /* in the ledger, while the kernel has not answered */
	uint16_t flags;
};

struct registration {
	struct client_task task;
	struct connections *connections;
	struct registry *registry;
	struct tenant *tenant;	  /* kept by the client as long as it is there, and then by the stream */
	struct stream *stream;	  /* on which items are registered; NULL: none has to be */
	uint32_t next;		  /* the number of a stream that serves the client; 0: none does */
	bool has_self_registered; /* a program has registered on the stream by itself */
	uint32_t serial;
	unsigned generation;	  /* of the policy when the first item was decided */
	size_t bytes;		  /* counted in the tenant's bytes of waiting requests */
	struct cursor request;	  /* its body: a copy, or valid until the handler returns */
	struct strings undecided; /* the rest of it */
	struct string_item asked; /* the item that is being decided */
	unsigned under_way;	  /* batches that the kernel has not answered, plus one while items are decided */
	size_t n_items;		  /* that are decided */
	struct item items[];
};

/* Items that are decided in one turn: a hundred microseconds' worth, and half of the calls that fit into one packet to the keeper. */
enum { PART = 50 };

/* Calls that are submitted together. */
struct batch {
	struct registration *registration;
	struct settling settling;
	bool settles; /* some of the items that are asked for again wait for the kernel to free their names */
	size_t n;
	size_t n_again;		      /* so many items, moved to the front, are sent to the kernel once more */
	struct item *items[PART + 1]; /* items[i] is what calls[i] is for; NULL: the stream */
	struct kernel_call calls[];
};

/* Decides without the kernel, and charges. 0, or a positive refusal with its sentence, or a negative errno. */
int item_decide(struct client *, const struct string_item *asked, struct item *, struct text *why);
/* Leases the item at once, or asks the kernel for it. */
void item_place(struct client *, struct batch *, struct item *);
/* The kernel has answered. */
void item_settle(struct batch *, struct item *, const struct kernel_call *);
void item_refuse(struct registration *, struct item *, uint32_t refusal, const char *sentence);
/* `r`: a positive refusal with its sentence, or a negative errno. */
void item_refuse_for(struct registration *, struct item *, int r, const char *sentence);
/* For a client that gets no data file, since nothing guards it. */
void item_refuse_unguarded(struct registration *, struct item *);

/* Sends the answer to all items. */
void registered_answer(struct registration *, struct client *);
/* Answers a request as the precedent was answered. False: there is none, and each event has to be decided. */
bool registered_answer_alike(struct client *, const struct message *);
