/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* A REGISTER under way, and the answer to it: the files that are sent with it are proved before. register.c explains. */

#include "daemon/connection/client.h"
#include "daemon/connection/parking.h"
#include "daemon/registry/settling.h"
#include "daemon/registry/share.h"

struct item {
	struct grant *grant; /* NULL: refused */
	uint32_t refusal;
	char *sentence; /* of a refusal; NULL where memory was short */
	uint16_t flags;
	bool again;	       /* the kernel is to be asked once more */
	uint32_t asked;	       /* in the ledger, while the kernel has not answered */
	struct stream *stream; /* on which it was granted; the client's share keeps it */
	uint32_t index;
	char name[64]; /* as requested, truncated: for the log */
};

struct registration {
	struct client_task task;
	struct connections *connections;
	struct registry *registry;
	struct tenant *tenant;	  /* kept by the client as long as it is there, and then by the stream */
	struct stream *stream;	  /* on which all is registered that has to be; NULL: nothing has */
	uint32_t next;		  /* the number of a stream that serves the client; 0: none does */
	bool has_self_registered; /* a program has registered on the stream by itself */
	uint32_t serial;
	unsigned generation;	  /* of the policy by which it is decided */
	size_t bytes;		  /* of the tenant's that wait */
	struct strings undecided; /* the rest of the request */
	unsigned under_way;	  /* batches that the kernel has not answered; and one as long as items are decided */
	struct parking parking;	  /* identical requests that wait for this one */
	struct settling settling;
	bool settles;	 /* of the items that are asked for again, some wait for the kernel to free their names */
	double deadline; /* of these */
	size_t n_again;
	size_t n_items; /* that are decided */
	struct item items[];
};

void item_refuse(struct item *, uint32_t refusal, const char *sentence);
/* For a client that gets no data file, since nothing guards it. */
void item_refuse_unguarded(struct item *, const struct tenant *);

/* Sends the answer to all items, which may make a bundle. */
void registered_answer(struct registration *, struct client *);
/* Answers a request with the bundle of an identical request. False: there is none, and each event has to be decided. */
bool registered_answer_alike(struct client *, const struct bundle_key *, uint32_t serial);
