/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The native methods of dev.userevd.userev.Library. Java sees to it that no event is used after its release, and no userev after
 * its close; sizes and lengths are checked here.
 *
 * Texts come from the daemon and may be any bytes, so they are copied into the caller's array, which Java decodes, with a NUL.
 */

#include <jni.h>
#include <stdio.h>
#include <sys/mman.h>

#include "client/library/event.h"
#include "client/library/open.h"
#include "protocol/protocol.h"

/* The ordinals of RefusedException.Reason, from 1 on, and of Outcome. */
enum reason {
	REASON_NONE,
	BAD_DESCRIPTION,
	NAME_TAKEN,
	QUOTA_EXCEEDED,
	NO_ROOM,
	NOT_PERMITTED,
	NOT_SUPPORTED,
	TROUBLE
};
enum outcome { WRITTEN, OFF, QUEUE_FULL, TOO_BIG, FAILED };

static const struct {
	int error;
	enum reason reason;
} reasons[] = {
	{ 0, REASON_NONE },   { -EINVAL, BAD_DESCRIPTION }, { -EEXIST, NAME_TAKEN },	    { -EDQUOT, QUOTA_EXCEEDED },
	{ -ENOSPC, NO_ROOM }, { -EACCES, NOT_PERMITTED },   { -EOPNOTSUPP, NOT_SUPPORTED },
};

/* Java reads the memory of a connection: the status page, whose pages may be of 64 KiB, and from there on its events. */
_Static_assert(WIRE_PAGE_FILE_BYTES <= 65536, "Userev.java has room for the page");
_Static_assert(sizeof(struct userev_event) == 24, "Userev.java knows this");
_Static_assert(offsetof(struct userev_event, place.part.bit) == 22, "Event.java knows this");

static struct userev *userev_at(jlong handle)
{
	return (struct userev *)(intptr_t)handle;
}

static struct userev_event *event_at(JNIEnv *env, jobject memory, jint at)
{
	return (struct userev_event *)((char *)(*env)->GetDirectBufferAddress(env, memory) + at);
}

/* With a NUL, and shortened to the size. */
static void get_text(JNIEnv *env, jbyteArray text, char *to, size_t size)
{
	const size_t length = MIN((size_t)(*env)->GetArrayLength(env, text), size - 1);

	(*env)->GetByteArrayRegion(env, text, 0, (jsize)length, (jbyte *)to);
	to[length] = '\0';
}

/* Shortened to the array's size. Returns whether there is a text. */
static jboolean set_text(JNIEnv *env, const char *text, jbyteArray to)
{
	const size_t room = (size_t)(*env)->GetArrayLength(env, to);

	if (!text)
		return JNI_FALSE;
	(*env)->SetByteArrayRegion(env, to, 0, (jsize)MIN(strlen(text) + 1, room), (const jbyte *)text);
	return JNI_TRUE;
}

static jlong open_userev(JNIEnv *env, jclass class _unused_, jobject memory, jbyteArray socket)
{
	char path[256] = ""; /* too long for any socket */
	struct userev *userev = NULL;

	if (socket)
		get_text(env, socket, path, sizeof(path));
	if (open_at(socket ? path : NULL, (*env)->GetDirectBufferAddress(env, memory), &userev) == 0)
		userev_connected(userev);
	return (jlong)(intptr_t)userev;
}

/*
 * Other threads may be testing events, which are zeros from now on. Java unmaps them when it has no buffer of them; until then they
 * are addresses without memory.
 */
static void close_userev(JNIEnv *env, jclass class _unused_, jlong handle, jobject memory)
{
	struct userev *userev = userev_at(handle);

	userev->files.page = NULL;
	userev_close(userev);
	(void)mmap((*env)->GetDirectBufferAddress(env, memory), (size_t)(*env)->GetDirectBufferCapacity(env, memory),
		   PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static jint poll_userev(JNIEnv *env _unused_, jclass class _unused_, jlong handle)
{
	return userev_poll(userev_at(handle), 0);
}

static jboolean userev_problem(JNIEnv *env, jclass class _unused_, jlong handle, jbyteArray to)
{
	const int r = userev_connected(userev_at(handle));
	char sentence[WIRE_SENTENCE_MAX + 1];

	if (r == 0)
		return JNI_FALSE;
	snprintf(sentence, sizeof(sentence), "there is no connection to the daemon: %s",
		 userev_refusal()[0] ? userev_refusal() : strerror(-r));
	return set_text(env, sentence, to);
}

static void userev_losses(JNIEnv *env, jclass class _unused_, jlong handle, jlongArray to)
{
	const struct userev_losses losses = userev_lost(userev_at(handle));

	(*env)->SetLongArrayRegion(env, to, 0, 2, (jlong[]){ (jlong)losses.queue_full, (jlong)losses.too_big });
}

static jint register_event(JNIEnv *env, jclass class _unused_, jlong handle, jobject memory, jint at,
			   jbyteArray description, jint flags, jbyteArray sentence)
{
	char text[WIRE_DESCRIPTION_MAX + 2]; /* the library refuses one that is too long */
	int r;

	get_text(env, description, text, sizeof(text));
	r = userev_register(userev_at(handle), event_at(env, memory, at), text, (unsigned)flags);
	if (r < 0)
		set_text(env, userev_refusal(), sentence);
	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
		if (reasons[i].error == r)
			return (jint)reasons[i].reason;
	return TROUBLE;
}

static void release_event(JNIEnv *env, jclass class _unused_, jlong handle, jobject memory, jint at)
{
	userev_release(userev_at(handle), event_at(env, memory, at));
}

static jboolean event_name(JNIEnv *env, jclass class _unused_, jobject memory, jint at, jbyteArray to)
{
	return set_text(env, userev_event_name(event_at(env, memory, at)), to);
}

static jboolean event_problem(JNIEnv *env, jclass class _unused_, jobject memory, jint at, jbyteArray to)
{
	char why[WIRE_SENTENCE_MAX + 1];

	return set_text(env, event_copy_why(event_at(env, memory, at), why, sizeof(why)) ? why : NULL, to);
}

/* A size of -1 is that of a record that did not fit into its array: the library counts it as too big without reading it. */
static jint write_record(JNIEnv *env, jclass class _unused_, jobject memory, jint at, jbyteArray record, jint size)
{
	const bool fits = size >= 0 && size <= WIRE_PAYLOAD_MAX && size <= (*env)->GetArrayLength(env, record);
	jbyte payload[WIRE_PAYLOAD_MAX];
	ssize_t written;

	if (fits)
		(*env)->GetByteArrayRegion(env, record, 0, size, payload);
	written = userev_write(event_at(env, memory, at), payload, fits ? (size_t)size : SIZE_MAX / 2);
	if (written > 0 || (written == 0 && size == 0))
		return WRITTEN;
	return written == 0 ? OFF : written == -EAGAIN ? QUEUE_FULL : written == -E2BIG ? TOO_BIG : FAILED;
}

/* Zeros, which the garbage collector does not move or free while the library uses them. */
static jobject map_memory(JNIEnv *env, jclass class _unused_, jint size)
{
	void *memory =
		mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : (*env)->NewDirectByteBuffer(env, memory, size);
}

static jlong address_of(JNIEnv *env, jclass class _unused_, jobject memory)
{
	return (jlong)(intptr_t)(*env)->GetDirectBufferAddress(env, memory);
}

static void unmap_memory(JNIEnv *env _unused_, jclass class _unused_, jlong address, jint size)
{
	munmap((void *)(intptr_t)address, (size_t)size);
}

#define BUFFER "Ljava/nio/ByteBuffer;"
/* jni.h has no const here. */
#define METHOD(name, signature, function)                                                                              \
	{                                                                                                              \
		(char *)(uintptr_t)(name), (char *)(uintptr_t)(signature), (void *)(function)                          \
	}

/* A library of another version, which has other methods, is not loaded. */
JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM *vm, void *reserved _unused_)
{
	static const JNINativeMethod methods[] = {
		METHOD("open", "(" BUFFER "[B)J", open_userev),
		METHOD("close", "(J" BUFFER ")V", close_userev),
		METHOD("poll", "(J)I", poll_userev),
		METHOD("problem", "(J[B)Z", userev_problem),
		METHOD("losses", "(J[J)V", userev_losses),
		METHOD("register", "(J" BUFFER "I[BI[B)I", register_event),
		METHOD("release", "(J" BUFFER "I)V", release_event),
		METHOD("name", "(" BUFFER "I[B)Z", event_name),
		METHOD("problem", "(" BUFFER "I[B)Z", event_problem),
		METHOD("write", "(" BUFFER "I[BI)I", write_record),
		METHOD("map", "(I)" BUFFER, map_memory),
		METHOD("address", "(" BUFFER ")J", address_of),
		METHOD("unmap", "(JI)V", unmap_memory),
	};
	JNIEnv *env;
	jclass class;

	if ((*vm)->GetEnv(vm, (void **)&env, JNI_VERSION_10) != JNI_OK)
		return JNI_ERR;
	class = (*env)->FindClass(env, "dev/userevd/userev/Library");
	if (!class || (*env)->RegisterNatives(env, class, methods, ARRAY_SIZE(methods)) != JNI_OK)
		return JNI_ERR;
	return JNI_VERSION_10;
}
