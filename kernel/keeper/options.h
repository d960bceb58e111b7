/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include "kernel/kernel.h"

/* Beside the socket on which systemd listens for the keeper. */
#define KEEPER_DIRECTORY "/run/userevd-keeper"
#define KEEPER_PAGES	 KEEPER_DIRECTORY "/pages"

struct keeper_options {
	const char *backend; /* "auto", or a name that has to match */
	const char *guard;   /* "require", "prefer" or "off" */
	const char *native;  /* "no", "yes" or "insist" */
	const char *pages;   /* the directory for status pages */
	const char *socket;  /* to listen on; NULL: systemd does, or a daemon starts this keeper */
	unsigned owner;	     /* of that: the daemons' user */
	bool mount_native;   /* mount the file for containers, and end */
	bool prepare;	     /* prepare, hand over to systemd, and end */
	unsigned hold;	     /* seconds */
	struct kernel_limits limits;
};

/* -1 to go on, or an exit status. */
int keeper_parse_options(int argc, char **argv, struct keeper_options *ret);
