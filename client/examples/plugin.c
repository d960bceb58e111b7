/* SPDX-License-Identifier: CC0-1.0 */
/* cc -fPIC -shared plugin.c -o plugin.so $(pkg-config --cflags --libs libuserev): its event is registered by dlopen(). */
#include <userev.h>

USEREV_EVENT(plugin, called, (u32, times));

void plugin_run(uint32_t times);

void plugin_run(uint32_t times)
{
	userev_emit(plugin_called, times);
}
