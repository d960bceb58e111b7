/* SPDX-License-Identifier: GPL-2.0-or-later */

/* doctor, in a container that has the kernel's own file: whether programs can register on it by themselves. */

#include "client/userevctl/doctor/doctor.h"
#include "kernel/probe.h"
#include "protocol/base/mountinfo.h"

#define HOSTS_FILE "/run/userevd/native/user_events_data"

/* Where the file is mounted by itself, unless that is where the host has it. False: nowhere. */
static bool find_file(char *ret, size_t size)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	struct mount_line mount;
	bool found = false;
	char line[8192];

	while (file && !found && fgets(line, sizeof(line), file)) {
		found = mountinfo_parse(line, &mount) && streq(mount.root, "/user_events_data") &&
			!streq(mount.point, HOSTS_FILE);
		if (found)
			string_copy(ret, size, mount.point);
	}
	if (file)
		fclose(file);
	return found;
}

void doctor_check_native(struct doctor *doctor)
{
	const bool allowed = doctor->greeted && doctor->welcome.features & WIRE_FEATURE_NATIVE;
	char path[4096];
	int error;

	if (!find_file(path, sizeof(path))) {
		if (allowed)
			finding(doctor, MARK_NOTE, "native",
				"Mount it: podman run -v /run/userevd/native:/sys/kernel/tracing; see userevd-containers(7).",
				"programs of this tenant may register by themselves, but the kernel's file is not mounted here");
		return;
	}
	error = probe_native(path);
	if (error == 0)
		finding(doctor, MARK_OK, "native", NULL, "programs can register by themselves on %s", path);
	else if (error == EACCES)
		finding(doctor, MARK_FAIL, "native",
			"No program of this machine may: 'userevctl doctor' on the host says why.",
			"user %u can't open %s: %s", geteuid(), path, strerror(error));
	else
		finding(doctor, MARK_FAIL, "native",
			allowed ? "The kernel does not know this container as a tenant: 'userevctl tenants' shows an admin which there are."
				: "Ask the admin for Native=yes in the policy of this container.",
			"%s is mounted, but the kernel refuses registrations on it: %s", path, strerror(error));
}
