/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The addon of link.js. It uses nothing but Node-API, so that one binary runs in all versions of Node from 18 on.
 *
 * A link is a connection to the daemon, with one region of memory, which is an ArrayBuffer in JavaScript:
 *
 *	scratch		JavaScript lays out a record here
 *	events		an array of struct userev_event; JavaScript loads the bit of an event's place
 *	page		the status page, in which JavaScript tests that bit; zeros while there is none
 *	(the rest of the page's file, for traces, lies behind the end of the ArrayBuffer)
 *
 * The library keeps places and page up to date, so a test in JavaScript sees what a test in C sees. The region never moves: each new
 * page is mapped over the last one. It is unmapped when its ArrayBuffer has been collected, and not when the link is closed, since
 * JavaScript may still test events. No two ArrayBuffers share memory, as V8 requires.
 *
 * Each thread of JavaScript is an environment with links of its own. The library never waits here, whatever $USEREV_WAIT says; a
 * registration that waits for the daemon does so without the library's lock, so that other threads can go on.
 */

#include <node_api.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client/library/lock.h"
#include "client/library/open.h"
#include "client/library/place.h"
#include "client/library/session.h"
#include "protocol/refusal.h"

enum {
	SCRATCH_SIZE = 8192,	    /* more than a record may have */
	EVENTS_MAX = 32768,	    /* as many as a page has bits */
	LINKS_MAX = 256,	    /* of a thread */
	LOOK_PENDING_MAX_MS = 1000, /* the daemon has not answered yet */
	LOOK_ABANDONED_MS = 100,
	LOOK_CONNECTED_MS = 5000, /* for a connection that has ended unnoticed */
};

/* Unreferenced when the thread ends, and by each region. */
struct environment {
	unsigned references;
	struct link *links[LINKS_MAX]; /* those that are open; a link's number is its index + 1 */
};

struct link {
	struct environment *environment;
	struct userev *userev; /* NULL when closed */
	unsigned number;
	uint8_t *region;
	int pause_ms;	  /* the last one while an answer is pending */
	uint32_t wait_ms; /* the least for which registrations wait that do: $USEREV_WAIT */
	bool hangs;	  /* the daemon: do not wait for it again until it answers */
};

/* At the start of the process: the event loop calls all functions of the library. */
static __attribute__((constructor)) void never_wait(void)
{
	session_answer_timeout_ms = 0;
}

/* --- the region --- */

static size_t round_to_pages(size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

static size_t page_at(void)
{
	return round_to_pages(SCRATCH_SIZE + EVENTS_MAX * sizeof(struct userev_event));
}

static size_t region_size(void)
{
	return page_at() + round_to_pages(WIRE_PAGE_FILE_BYTES);
}

static struct userev_event *link_event(const struct link *link, uint32_t slot)
{
	return (struct userev_event *)(void *)(link->region + SCRATCH_SIZE) + slot;
}

/* All events are off. Should it fail, tests of events cost more. */
static void link_map_zeros(const struct link *link)
{
	void *page = link->region + page_at();

	(void)mmap(page, round_to_pages(WIRE_PAGE_FILE_BYTES), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		   0);
}

static void environment_unref(struct environment *environment)
{
	if (--environment->references == 0)
		free(environment);
}

/* Without effect on a closed link. */
static void link_close(struct link *link)
{
	if (!link->userev)
		return;
	link->environment->links[link->number - 1] = NULL;
	link->userev->files.page = NULL; /* not to be unmapped */
	userev_close(link->userev);
	link->userev = NULL;
	link_map_zeros(link);
}

/* Called by Node when the region's ArrayBuffer has been collected. */
static void link_free(napi_env env _unused_, void *region, void *data)
{
	struct link *link = data;

	link_close(link);
	munmap(region, region_size());
	environment_unref(link->environment);
	free(link);
}

/* NULL with an errno. */
static struct link *link_new(struct environment *environment, const char *socket)
{
	struct link *link = calloc(1, sizeof(*link));
	void *region =
		mmap(NULL, region_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned i = 0;
	int r = -ENOMEM;

	while (i < LINKS_MAX && environment->links[i])
		i++;
	if (i == LINKS_MAX) {
		r = -EMFILE;
	} else if (link && region != MAP_FAILED) {
		*link = (struct link){ .environment = environment, .number = i + 1, .region = region };
		link_map_zeros(link);
		r = open_at(socket, link->region + page_at(), &link->userev);
	}
	if (r < 0) {
		if (region != MAP_FAILED)
			munmap(region, region_size());
		free(link);
		errno = -r;
		return NULL;
	}
	link->wait_ms = (uint32_t)link->userev->wait_ms;
	link->userev->wait_ms = 0;
	environment->links[i] = link;
	environment->references++;
	return link;
}

/* --- values of JavaScript; a function that fails has thrown an exception, and its caller returns NULL --- */

static bool failed(napi_env env, napi_status status)
{
	const napi_extended_error_info *info;

	/* Without effect if there is an exception already, or if the thread is being terminated. */
	if (status != napi_ok && napi_get_last_error_info(env, &info) == napi_ok)
		napi_throw_error(env, NULL, info->error_message ? info->error_message : "Node-API failed");
	return status != napi_ok;
}

static bool take_number(napi_env env, napi_value value, uint32_t limit, uint32_t *ret)
{
	napi_status status = napi_get_value_uint32(env, value, ret);

	if (status == napi_number_expected || (status == napi_ok && *ret >= limit)) {
		napi_throw_type_error(env, NULL, "not a number in its range");
		return false;
	}
	return !failed(env, status);
}

/* A text without a NUL. A longer one than the buffer is cut: the library refuses it. */
static bool take_text(napi_env env, napi_value value, char *buffer, size_t size)
{
	size_t length = 0;
	napi_status status = napi_get_value_string_utf8(env, value, buffer, size, &length);

	if (status == napi_string_expected || (status == napi_ok && strlen(buffer) != length)) {
		napi_throw_type_error(env, NULL, "not a text, or one with a NUL");
		return false;
	}
	return !failed(env, status);
}

static struct environment *environment_of(napi_env env)
{
	void *environment = NULL;

	return failed(env, napi_get_instance_data(env, &environment)) ? NULL : environment;
}

/* Missing arguments are undefined. The first is an open link's number; the second, if there is one, an event's slot. */
static struct link *take(napi_env env, napi_callback_info info, size_t n, napi_value *arguments, uint32_t *slot)
{
	struct environment *environment = environment_of(env);
	uint32_t number;

	if (!environment || failed(env, napi_get_cb_info(env, info, &n, arguments, NULL, NULL)) ||
	    !take_number(env, arguments[0], LINKS_MAX + 1, &number))
		return NULL;
	if (number == 0 || !environment->links[number - 1]) {
		napi_throw_type_error(env, NULL, "no such connection");
		return NULL;
	}
	if (slot && !take_number(env, arguments[1], EVENTS_MAX, slot))
		return NULL;
	return environment->links[number - 1];
}

static napi_value number(napi_env env, int64_t value)
{
	napi_value result;

	return failed(env, napi_create_int64(env, value, &result)) ? NULL : result;
}

static napi_value text(napi_env env, const char *value)
{
	napi_value result;

	return failed(env, napi_create_string_utf8(env, value, NAPI_AUTO_LENGTH, &result)) ? NULL : result;
}

static napi_value pair(napi_env env, napi_value first, napi_value second)
{
	napi_value result;

	if (!first || !second || failed(env, napi_create_array_with_length(env, 2, &result)) ||
	    failed(env, napi_set_element(env, result, 0, first)) ||
	    failed(env, napi_set_element(env, result, 1, second)))
		return NULL;
	return result;
}

/* --- functions --- */

/* open(socket): [number, region]; with undefined for the usual sockets. */
static napi_value open_link(napi_env env, napi_callback_info info)
{
	struct environment *environment = environment_of(env);
	char socket[256];
	napi_valuetype type;
	napi_value path, region;
	size_t n = 1;
	struct link *link;

	if (!environment || failed(env, napi_get_cb_info(env, info, &n, &path, NULL, NULL)) ||
	    failed(env, napi_typeof(env, path, &type)) ||
	    (type != napi_undefined && !take_text(env, path, socket, sizeof(socket))))
		return NULL;
	link = link_new(environment, type == napi_undefined ? NULL : socket);
	if (!link) {
		napi_throw_error(env, NULL, errno == EMFILE ? "too many connections" : strerror(errno));
		return NULL;
	}
	if (failed(env, napi_create_external_arraybuffer(env, link->region, page_at() + WIRE_PAGE_BYTES, link_free,
							 link, &region))) {
		link_free(env, link->region, link);
		return NULL;
	}
	return pair(env, number(env, link->number), region);
}

static napi_value close_link(napi_env env, napi_callback_info info)
{
	napi_value arguments[1];
	struct link *link = take(env, info, 1, arguments, NULL);

	if (link)
		link_close(link);
	return NULL;
}

static bool is_pending(const struct userev_event *event)
{
	return (event->place.part.bit & (USEREV_PENDING_ | PLACE_BIT)) == USEREV_PENDING_;
}

static void link_await(struct link *link, const struct userev_event *event, uint32_t ms)
{
	const int64_t deadline = clock_ms() + ms;

	while (is_pending(event) && !link->hangs && link->userev->connection.fd >= 0) {
		struct pollfd readable = { .fd = link->userev->connection.fd, .events = POLLIN };
		const int left = connection_left_ms(deadline);

		link->hangs = ms > 0 && left == 0;
		if (left == 0)
			break;
		poll(&readable, 1, left);
		userev_poll(link->userev, 0);
	}
}

static napi_value refusal_of(napi_env env, const struct sentence *sentence)
{
	return pair(env, text(env, refusal_name(sentence->refusal)), text(env, sentence->text));
}

static const struct sentence *find_refusal(const struct link *link, const struct userev_event *event)
{
	if (event->place.part.stream == 0)
		return NULL;
	return sentence_refusal(&batch_of(&link->userev->events, event)->sentences, event);
}

/* register(link, slot, description, flags, ms to wait): undefined, or [reason, sentence], and then it is not registered. */
static napi_value register_event(napi_env env, napi_callback_info info)
{
	char description[WIRE_DESCRIPTION_MAX + 5]; /* a text that is cut is too long still */
	napi_value arguments[5], result = NULL;
	const struct sentence *refusal;
	struct userev_event *event;
	uint32_t slot, flags, wait_ms;
	struct link *link = take(env, info, 5, arguments, &slot);
	int r;

	if (!link || !take_text(env, arguments[2], description, sizeof(description)) ||
	    !take_number(env, arguments[3], UINT32_MAX, &flags) || !take_number(env, arguments[4], INT32_MAX, &wait_ms))
		return NULL;
	event = link_event(link, slot);
	r = userev_register(link->userev, event, description, flags);
	if (r == 0)
		link_await(link, event, wait_ms > 0 ? MAX(wait_ms, link->wait_ms) : 0);
	refusal = r == 0 ? find_refusal(link, event) : QUEUE_FIRST(&link->userev->sentences);
	if (refusal)
		result = refusal_of(env, refusal);
	else if (r < 0) /* the library refuses it without asking the daemon */
		result = pair(env, text(env, refusal_name(REFUSAL_BAD_DESCRIPTION)), text(env, userev_refusal()));
	if (r == 0 && refusal)
		userev_release(link->userev, event);
	return result;
}

/* refusal(link, slot): [reason, sentence], or undefined. */
static napi_value event_refusal(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	uint32_t slot;
	struct link *link = take(env, info, 2, arguments, &slot);
	const struct sentence *refusal = link ? find_refusal(link, link_event(link, slot)) : NULL;

	return refusal ? refusal_of(env, refusal) : NULL;
}

/* name(link, slot): as it was granted, or undefined. */
static napi_value event_name(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	uint32_t slot;
	struct link *link = take(env, info, 2, arguments, &slot);
	const char *name = link ? userev_event_name(link_event(link, slot)) : NULL;

	return name ? text(env, name) : NULL;
}

static napi_value release_event(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	uint32_t slot;
	struct link *link = take(env, info, 2, arguments, &slot);

	if (link)
		userev_release(link->userev, link_event(link, slot));
	return NULL;
}

/* on(link, slot): 1 or 0, for an event whose bit is set. */
static napi_value event_on(napi_env env, napi_callback_info info)
{
	napi_value arguments[2];
	uint32_t slot;
	struct link *link = take(env, info, 2, arguments, &slot);

	return link ? number(env, userev_enabled(link_event(link, slot))) : NULL;
}

/* write(link, slot, size): what is in scratch. 1; 0 if the event is off; or a negative errno. A larger size than scratch has is too big. */
static napi_value write_event(napi_env env, napi_callback_info info)
{
	napi_value arguments[3];
	uint32_t slot, size;
	struct link *link = take(env, info, 3, arguments, &slot);
	ssize_t r = 0;

	if (!link || !take_number(env, arguments[2], UINT32_MAX, &size))
		return NULL;
	if (userev_enabled(link_event(link, slot))) {
		/* Then only the size is looked at, and too big for any maximum that a daemon may announce. */
		r = userev_write(link_event(link, slot), link->region,
				 size > SCRATCH_SIZE ? (size_t)PTRDIFF_MAX : size);
		r = size == 0 && r == 0 ? 1 : MIN(r, 1);
	}
	return number(env, r);
}

/*
 * look(link): receives and sends what there is, and connects if it is time to. Returns the milliseconds until the next look, negative
 * while the daemon owes an answer.
 */
static napi_value look(napi_env env, napi_callback_info info)
{
	napi_value arguments[1];
	struct link *link = take(env, info, 1, arguments, NULL);
	int64_t pause_ms = LOOK_CONNECTED_MS;
	int r;

	if (!link)
		return NULL;
	r = userev_poll(link->userev, 0);
	if (r == 0)
		link->hangs = false;
	else if (r != -EAGAIN)
		pause_ms = connection_left_ms(link->userev->not_before) + 1;
	/* Its connection may end a moment later. Until there is another page, tests cost no more than usual. */
	if (page_is_abandoned(link->userev->files.page)) {
		link_map_zeros(link);
		pause_ms = MIN(pause_ms, LOOK_ABANDONED_MS);
	}
	link->pause_ms = r == -EAGAIN ? MIN(MAX(2 * link->pause_ms, 1), LOOK_PENDING_MAX_MS) : 0;
	return number(env, r == -EAGAIN ? -link->pause_ms : pause_ms);
}

/* problem(link): why there is no connection, or undefined. */
static napi_value problem(napi_env env, napi_callback_info info)
{
	char sentence[sizeof(((struct connection *)0)->socket) + WIRE_SENTENCE_MAX + 3];
	napi_value arguments[1];
	const struct link *link = take(env, info, 1, arguments, NULL);
	int r = link ? userev_poll(link->userev, 0) : 0;

	if (r == 0)
		return NULL;
	if (r == -EAGAIN)
		return text(env, "the daemon has not answered yet");
	snprintf(sentence, sizeof(sentence), "%s: %s", link->userev->connection.tried,
		 link->userev->sentence[0] ? link->userev->sentence : strerror(-r));
	return text(env, sentence);
}

/* lost(link): [queue full, too big]. */
static napi_value lost(napi_env env, napi_callback_info info)
{
	napi_value arguments[1];
	const struct link *link = take(env, info, 1, arguments, NULL);
	struct userev_losses losses;

	if (!link)
		return NULL;
	losses = userev_lost(link->userev);
	return pair(env, number(env, (int64_t)losses.queue_full), number(env, (int64_t)losses.too_big));
}

/* --- the thread --- */

/* The regions are freed with their ArrayBuffers, before or after this. */
static void thread_ends(void *data)
{
	struct environment *environment = data;

	for (unsigned i = 0; i < LINKS_MAX; i++)
		if (environment->links[i])
			link_close(environment->links[i]);
	environment_unref(environment);
}

#define FUNCTION(name, call)                                                                                           \
	{                                                                                                              \
		name, NULL, call, NULL, NULL, NULL, napi_enumerable, NULL                                              \
	}
#define NUMBER(name, value)                                                                                            \
	{                                                                                                              \
		name, NULL, NULL, NULL, NULL, number(env, (int64_t)(value)), napi_enumerable, NULL                     \
	}

NAPI_MODULE_INIT()
{
	const napi_property_descriptor properties[] = {
		FUNCTION("open", open_link),
		FUNCTION("close", close_link),
		FUNCTION("register", register_event),
		FUNCTION("release", release_event),
		FUNCTION("refusal", event_refusal),
		FUNCTION("name", event_name),
		FUNCTION("on", event_on),
		FUNCTION("write", write_event),
		FUNCTION("look", look),
		FUNCTION("problem", problem),
		FUNCTION("lost", lost),
		NUMBER("scratchSize", SCRATCH_SIZE),
		NUMBER("eventsMax", EVENTS_MAX),
		NUMBER("eventSize", sizeof(struct userev_event)),
		NUMBER("bitAt", SCRATCH_SIZE + offsetof(struct userev_event, place.part.bit)),
		NUMBER("pageAt", page_at()),
	};
	struct environment *environment = calloc(1, sizeof(*environment));

	if (!environment) {
		napi_throw_error(env, NULL, "out of memory");
		return NULL;
	}
	environment->references = 1;
	if (failed(env, napi_set_instance_data(env, environment, NULL, NULL)) ||
	    failed(env, napi_add_env_cleanup_hook(env, thread_ends, environment))) {
		free(environment);
		return NULL;
	}
	return failed(env, napi_define_properties(env, exports, ARRAY_SIZE(properties), properties)) ? NULL : exports;
}
