/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/*
 * EventHeader: the payload format of LinuxTracepoints and of OpenTelemetry's exporters for user_events. The fields in tracefs are only a
 * header; behind it the payload has the event's name, the names and types of its fields, and their values.
 */

#include "protocol/event/description.h"

/* Whether the description has exactly the fields of that header. */
bool event_header_is(const struct description *);

/*
 * `Ev(level=verbose opcode=start) Arg=42 peer={ip=10.0.0.1 port=80} list=[1,2]`. For a payload of at least the header's size, and
 * otherwise arbitrary: "(damaged)" stands behind the last field of a payload that cannot be decoded to its end.
 */
void event_header_to_text(const void *payload, size_t size, struct text *out);
/* {"Arg":42,"peer":{"ip":"10.0.0.1","port":80},"list":[1,2],"event_header":{"name":"Ev","level":5,"opcode":1}} */
void event_header_to_json(const void *payload, size_t size, struct text *out);
