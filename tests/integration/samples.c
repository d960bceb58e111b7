/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/samples.h"

#include <sys/socket.h>

#include "protocol/transport.h"

static void fill_hello(struct packet *to)
{
	encode_fixed(to, KIND_HELLO, &(struct wire_hello){ .understands = WIRE_FEATURE_WATCH });
}

static void fill_release(struct packet *to)
{
	size_t mark = encode_list(to, 0);

	encode_release_bit(to, 1);
	encode_release_bit(to, 32767);
	encode_count(to, mark, 2);
}

static void fill_watch(struct packet *to)
{
	encode_fixed(to, KIND_WATCH, &(struct wire_watch){ .on = 1 });
}

static void fill_lost(struct packet *to)
{
	encode_fixed(to, KIND_LOST, &(struct wire_lost){ .queue_full = 1, .too_big = 2 });
}

const struct sample samples[SAMPLES] = {
	{ "HELLO", KIND_HELLO, false, .fill = fill_hello },
	{ "REGISTER", KIND_REGISTER, false, .strings = { "sample u32 ab" } }, /* needs padding */
	{ "RELEASE", KIND_RELEASE, false, .fill = fill_release },
	{ "QUERY", KIND_QUERY, false, .fill = NULL },
	{ "WATCH", KIND_WATCH, false, .fill = fill_watch },
	{ "LOST", KIND_LOST, false, .fill = fill_lost },
	{ "TRACE_OWN", KIND_TRACE_OWN, false, .strings = { "sample" } }, /* the policy refuses it */
	{ "NATIVE", KIND_NATIVE, false, .fill = NULL },			 /* likewise */
	{ "STATUS", KIND_STATUS, true, .fill = NULL },
	{ "EVENTS", KIND_EVENTS, true, .fill = NULL },
	{ "TENANTS", KIND_TENANTS, true, .fill = NULL },
	{ "TRACE", KIND_TRACE, true, .strings = { "sample" }, .flags = TRACE_ON },
	{ "TAIL", KIND_TAIL, true, .strings = { "sample" }, .flags = TAIL_PAST | TAIL_NO_FOLLOW },
	{ "SYNC", KIND_SYNC, true, .fill = NULL },
	{ "RELOAD", KIND_RELOAD, true, .fill = NULL },
	{ "METRICS", KIND_METRICS, true, .fill = NULL },
	{ "EXPLAIN", KIND_EXPLAIN, true, .strings = { "/some", "sample u32 a" } },
	{ "DELETE", KIND_DELETE, true, .strings = { "sample" } },
};

static void fill_strings(const struct sample *sample, struct packet *to)
{
	const size_t mark = encode_list(to, sample->flags);
	uint16_t n = 0;

	for (; n < ARRAY_SIZE(sample->strings) && sample->strings[n]; n++)
		encode_string(to, 0, sample->strings[n], strlen(sample->strings[n]));
	encode_count(to, mark, n);
}

size_t build(const struct sample *sample, uint8_t *ret)
{
	struct packet *packet = raw_packet(sample->kind);

	if (sample->fill)
		sample->fill(packet);
	if (sample->strings[0])
		fill_strings(sample, packet);
	encode_end(packet);
	ck_assert(!packet->failed && packet->size <= SAMPLE_MAX);
	memcpy(ret, packet->data, packet->size);
	return packet->size;
}

const struct sample *sample_of(uint16_t kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
		if (samples[i].kind == kind)
			return &samples[i];
	ck_abort_msg("no sample of kind %u", kind);
	return NULL;
}

void set_size(uint8_t *packet, size_t size)
{
	uint32_t wire = htole32((uint32_t)size);

	memcpy(packet, &wire, sizeof(wire));
}

void send_bytes(int socket, const void *bytes, size_t size)
{
	ck_assert_int_eq(transport_send(socket, bytes, size, NULL, 0, 0), 0);
}

int open_for(const struct fixture *fixture, const struct sample *sample)
{
	raw_name_case("%s", sample->name);
	if (sample->control)
		return raw_connect(fixture->control);
	if (sample->kind == KIND_HELLO)
		return raw_connect(fixture->socket);
	return raw_hello(fixture->socket, 0, NULL, NULL);
}

ssize_t send_many_fds(int socket, const void *bytes, size_t size, int fd, size_t n, int flags)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * FDS_AT_ONCE_MAX)] = { 0 };
	struct iovec iov = { .iov_base = (void *)(uintptr_t)bytes, .iov_len = size };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = n > 0 ? control : NULL,
		.msg_controllen = n > 0 ? CMSG_SPACE(sizeof(int) * n) : 0,
	};
	struct cmsghdr *header = (struct cmsghdr *)(void *)control;

	*header = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(sizeof(int) * n),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	for (size_t i = 0; i < n; i++)
		memcpy(CMSG_DATA(header) + i * sizeof(fd), &fd, sizeof(fd));
	return sendmsg(socket, &message, MSG_NOSIGNAL | flags) < 0 ? -errno : (ssize_t)size;
}

bool send_with_fds(int socket, const void *bytes, size_t size, int fd, size_t n)
{
	ssize_t sent = send_many_fds(socket, bytes, size, fd, n, 0);

	ck_assert_msg(sent == (ssize_t)size || sent == -EPERM, "sendmsg: %s", strerror((int)-sent));
	return sent >= 0;
}
