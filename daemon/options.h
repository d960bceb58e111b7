/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/* argv → struct options. */

#include "protocol/base/base.h"

#define OPTIONS_UNSET UINT32_MAX

struct options {
	const char *socket;
	const char *control_socket;
	const char *keeper_socket;
	bool keeper_socket_required; /* it was given, so the daemon does not start without it */
	const char *backend;
	const char *guard;	     /* NULL: the policy's Guard= */
	const char *policy;	     /* directories */
	const char *state_directory; /* NULL: no copy of the policy is kept */
	const char *user;	     /* NULL: userevd, or nobody */
	uint32_t capacity;	     /* 0: the backend's */
	uint32_t page_bits;	     /* 0: the backend's */
	uint32_t max_events;	     /* OPTIONS_UNSET: the policy's */
	uint64_t ring_bytes;
	uint32_t client_timeout; /* seconds until a client that is silent or does not read is disconnected */
	uint32_t log_level;
	int ready_fd; /* -1: none */
	bool foreground;
	bool exit_with_parent;
	bool tenant_is_process;
	bool allow_persist;
	bool print_native;  /* print what the policy wants for native events, and end */
	bool strict_policy; /* do not start with an older policy */
};

/* -1 to go on, or an exit status: of option_table_read(). */
int options_parse(int argc, char **argv, struct options *ret);
