/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Preloaded under callgrind, where /proc/self/exe is valgrind: a program that starts itself again starts the file $SELF instead. */

#include <spawn.h>
#include <stdlib.h>
#include <string.h>

int posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const *argv, char *const *environment)
{
	const char *self = getenv("SELF");

	/* With a slash in it posix_spawnp() searches for nothing. */
	return posix_spawnp(ret, self && strcmp(path, "/proc/self/exe") == 0 ? self : path, actions, attributes, argv,
			    environment);
}
