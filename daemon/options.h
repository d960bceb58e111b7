/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* argv → struct options. */

#include "protocol/base/base.h"

#define OPTIONS_UNSAID UINT32_MAX

struct options {
	const char *socket;
	const char *control_socket;
	const char *keeper_socket;
	bool keeper_socket_said; /* so that it has to be there */
	const char *backend;
	const char *guard;	     /* NULL: as the policy says */
	const char *policy;	     /* directories */
	const char *state_directory; /* NULL: nothing is kept */
	const char *user;	     /* NULL: userevd, or nobody */
	uint32_t capacity;	     /* 0: what the backend can */
	uint32_t page_bits;	     /* 0: likewise */
	uint32_t max_events;	     /* OPTIONS_UNSAID: as the policy says */
	size_t ring_bytes;
	uint32_t patience; /* seconds, with who says nothing or does not read its answers */
	int log_level;
	int ready_fd; /* -1 */
	bool foreground;
	bool exit_with_parent;
	bool tenant_is_process;
	bool allow_persist;
	bool strict_policy; /* rather no daemon than one with an older policy */
};

enum { OPTIONS_RUN, OPTIONS_EXIT, OPTIONS_WRONG };

/* OPTIONS_RUN; OPTIONS_EXIT after --help or --version; OPTIONS_WRONG after a sentence on stderr. */
int options_parse(int argc, char **argv, struct options *ret);
