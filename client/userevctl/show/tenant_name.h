/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

/*
 * The name of a tenant for people. An engine knows its containers by names that are not in the paths of their cgroups, so at a container's
 * start `userevctl name` writes the name beside the cgroup, as an attribute "ENGINE NAME" that goes with it:
 *
 *	security.userevd.name		of the cgroup itself: only the host's root can set this one
 *	user.userevd.name.COMPONENT	of the cgroup around it, for an engine without privilege: that user's claim, "INODE ENGINE NAME"
 *
 * Without an attribute the path is all there is.
 */

#include <sys/types.h>

#include "protocol/base/base.h"

#define NAME_ATTRIBUTE	     "security.userevd.name"
#define NAME_CLAIM_ATTRIBUTE "user.userevd.name."

enum {
	TENANT_NAME_MAX = 400, /* a namespace, a pod and a container of Kubernetes */
	ENGINE_NAME_MAX = 31,
	NAME_VALUE_MAX = 20 + 1 + ENGINE_NAME_MAX + 1 + TENANT_NAME_MAX + 1, /* an attribute as a string */
};

/* As others wrote it: not safe to show. */
struct tenant_name {
	char name[TENANT_NAME_MAX + 1];	  /* "shop" */
	char engine[ENGINE_NAME_MAX + 1]; /* "podman"; "": it is no container */
	uid_t claimed_by;		  /* a user without privilege could have chosen the name; 0: none could */
	char text[TENANT_NAME_MAX + ENGINE_NAME_MAX + 24]; /* "shop (podman)", "shop (podman of uid 1000)" */
};

struct cgroups;
struct json;
struct tenant_name tenant_name_in(const struct cgroups *, const char *path);
/* Of this machine's cgroups: up to a second old, and valid until the next call. */
const struct tenant_name *tenant_name(const char *path);
/* Where there is room for one thing: a container's name, otherwise the path. Valid as long. */
const char *tenant_shown(const char *path);
const char *tenant_shown_as(const struct tenant_name *, const char *path);
/* Makes `text` of the other members. */
void tenant_name_make_text(struct tenant_name *);
/* The pattern matches the name, with its engine or without, or the path. */
bool tenant_matches(const char *pattern, const struct tenant_name *, const char *path);
/* Into an object that has been begun: "name", and "engine" and "claimed_by" where there are such. */
void tenant_name_json(const struct tenant_name *, struct json *);
