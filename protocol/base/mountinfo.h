/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "protocol/base/base.h"

/* A line of /proc/PID/mountinfo. */
struct mount_line {
	char *device; /* "98:0" */
	char *root;
	char *point;
	char *type;
	char *options; /* of the file system */
};

/* Splits the line in place, and unescapes its paths. False: it has another form. */
bool mountinfo_parse(char *line, struct mount_line *ret);
