/* SPDX-License-Identifier: CC0-1.0 */
/* cc plugin_host.c -ldl: loads a plugin, calls it TIMES times, and closes it: plugin_host ./plugin.so [TIMES] */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void *plugin = dlopen(argc > 1 ? argv[1] : "./plugin.so", RTLD_NOW);
	uint32_t times = argc > 2 ? (uint32_t)atoi(argv[2]) : 3;
	void (*run)(uint32_t);

	if (!plugin) {
		fprintf(stderr, "plugin_host: %s\n", dlerror());
		return 1;
	}
	*(void **)&run = dlsym(plugin, "plugin_run");
	for (uint32_t i = 1; run && i <= times; i++)
		run(i);
	return dlclose(plugin);
}
