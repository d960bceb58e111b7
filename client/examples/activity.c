/* SPDX-License-Identifier: CC0-1.0 */
/*
 * cc activity.c $(pkg-config --cflags --libs libuserev): requests as activities in the EventHeader format, which decoders of LinuxTracepoints
 * and OpenTelemetry read; `userevctl tail 'web_*'` prints them.
 */
#include <sys/random.h>
#include <unistd.h>
#include <userev_event_header.h>

USEREV_EVENT_HEADER(web, request, 4, 1, (string, path), (u16, status));
USEREV_EVENT_HEADER(web, failed, 2, 1, (s32, error));

int main(void)
{
	unsigned char activity[16];

	for (int n = 1; n <= 60; n++, sleep(1)) {
		if (getentropy(activity, sizeof(activity)) < 0)
			return 1;
		userev_emit_activity(web_request, USEREV_ACTIVITY_START, activity, NULL, "/cart", 0);
		userev_emit_activity(web_request, USEREV_ACTIVITY_STOP, activity, NULL, "/cart", 200);
		userev_emit(web_failed, -n);
	}
	return 0;
}
