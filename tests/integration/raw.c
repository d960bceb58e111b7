/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "tests/integration/raw.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "protocol/base/text.h"
#include "protocol/transport.h"

static uint8_t buffer[WIRE_PACKET_MAX];
static struct packet packet;
static uint32_t serial; /* of that one */

struct packet *raw_packet(uint16_t kind)
{
	packet = packet_make(buffer, sizeof(buffer));
	encode_begin(&packet, kind, ++serial, 0, NULL, 0);
	return &packet;
}

void raw_strings(uint16_t kind, uint16_t flags, const char *const *strings, size_t n, uint16_t string_flags)
{
	struct packet *to = raw_packet(kind);
	size_t mark = encode_list(to, flags);

	for (size_t i = 0; i < n; i++)
		encode_string(to, string_flags, strings[i], strlen(strings[i]));
	encode_count(to, mark, (uint16_t)n);
}

const struct packet *raw_finish(void)
{
	encode_end(&packet);
	ck_assert(!packet.failed);
	return &packet;
}

int raw_send(int socket)
{
	raw_finish();
	return transport_send(socket, packet.data, packet.size, NULL, 0, 0);
}

void raw_request(int socket, uint16_t kind)
{
	raw_packet(kind);
	ck_assert_int_eq(raw_send(socket), 0);
}

void raw_say_hello(int socket)
{
	encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ 0 });
	ck_assert_int_eq(raw_send(socket), 0);
}

int raw_try_to_connect(const char *path, int flags)
{
	struct sockaddr_un address;
	socklen_t length;
	int r, fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	ck_assert(fd >= 0 && transport_address(path, &address, &length) == 0);
	if (connect(fd, (struct sockaddr *)&address, length) == 0)
		return fd;
	r = -errno;
	close(fd);
	return r;
}

int raw_listen(const char *path, int flags)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	struct sockaddr_un address;
	socklen_t length;

	ck_assert_int_eq(transport_address(path, &address, &length), 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(fd, SOMAXCONN), 0);
	return fd;
}

int raw_connect(const char *path)
{
	/* For busy machines, and emulated ones. */
	const struct timeval timeout = { .tv_sec = 120 };
	int fd = raw_try_to_connect(path, 0);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(-fd));
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)), 0);
	return fd;
}

void raw_receive(int socket, struct raw_reply *ret)
{
	*ret = (struct raw_reply){ 0 };
	ret->size = transport_receive_fds(socket, ret->packet, sizeof(ret->packet), &ret->fds, 0);
	if (ret->size > 0)
		ck_assert_int_eq(decode_message(ret->packet, (size_t)ret->size, &ret->message), 0);
}

void raw_reply_deinit(struct raw_reply *reply)
{
	fdset_deinit(&reply->fds);
}

void raw_receive_answer(int socket, struct raw_reply *ret)
{
	for (;;) {
		raw_receive(socket, ret);
		if (ret->size <= 0 || ret->message.kind == KIND_ERROR || ret->message.serial == 0 ||
		    (int32_t)(ret->message.serial - serial) >= 0)
			return;
		raw_reply_deinit(ret);
	}
}

void raw_ask(int socket, uint16_t kind, struct raw_reply *ret)
{
	ck_assert_int_eq(raw_send(socket), 0);
	raw_receive_answer(socket, ret);
	ck_assert_msg(ret->size > 0, "no answer came: %zd", ret->size);
	ck_assert_msg(ret->message.kind == kind, "kind %u instead of %u", ret->message.kind, kind);
}

int raw_hello(const char *path, uint64_t understands, struct wire_welcome *ret_welcome, int *ret_page)
{
	int socket = raw_connect(path);
	struct wire_welcome welcome;
	struct string_item tenant;
	struct raw_reply reply;

	encode_fixed(raw_packet(KIND_HELLO), KIND_HELLO, &(struct wire_hello){ .understands = understands });
	raw_ask(socket, KIND_WELCOME, &reply);
	ck_assert_int_eq(decode_welcome(reply.message.body, &welcome, &tenant), 0);
	ck_assert_uint_eq(reply.fds.count, 1);
	if (ret_welcome)
		*ret_welcome = welcome;
	if (ret_page)
		*ret_page = fdset_steal(&reply.fds, 0);
	raw_reply_deinit(&reply);
	return socket;
}

uint32_t raw_register(int socket, const char *description, struct answer *ret, int *ret_stream_fd)
{
	return raw_register_with(socket, 0, description, ret, ret_stream_fd);
}

uint32_t raw_register_with(int socket, uint16_t flags, const char *description, struct answer *ret, int *ret_stream_fd)
{
	struct raw_reply reply;
	struct strings answers;
	struct answer answer;

	raw_strings(KIND_REGISTER, 0, &description, 1, flags);
	raw_ask(socket, KIND_REGISTERED, &reply);
	ck_assert_int_eq(decode_registered(reply.message.body, &answers), 0);
	ck_assert(answers_next(&answers, &answer));
	if (ret_stream_fd && reply.message.streams > 0)
		*ret_stream_fd = fdset_steal(&reply.fds, 0);
	answer.text = NULL; /* it points into the reply */
	if (ret)
		*ret = answer;
	raw_reply_deinit(&reply);
	return answer.refusal;
}

void raw_put_release(const uint32_t *bits, unsigned n)
{
	struct packet *to = raw_packet(KIND_RELEASE);
	size_t mark = encode_list(to, 0);

	for (unsigned i = 0; i < n; i++)
		encode_release_bit(to, bits[i]);
	encode_count(to, mark, (uint16_t)n);
}

unsigned raw_release(int socket, const uint32_t *bits, unsigned n)
{
	struct wire_released released;
	struct raw_reply reply;

	raw_put_release(bits, n);
	raw_ask(socket, KIND_RELEASED, &reply);
	ck_assert_int_eq(decode_fixed(reply.message.body, KIND_RELEASED, &released), 0);
	ck_assert_uint_eq(released.released + released.not_held, n);
	return released.released;
}

struct wire_account raw_query(int socket)
{
	struct wire_account account;
	struct raw_reply reply;

	raw_packet(KIND_QUERY);
	raw_ask(socket, KIND_ACCOUNT, &reply);
	ck_assert_int_eq(decode_fixed(reply.message.body, KIND_ACCOUNT, &account), 0);
	return account;
}

void numbers_compare(const char *wanted, uint64_t (*number)(const void *from, const char *key), const void *from,
		     char *ret, size_t size)
{
	struct text text = text_make(ret, size);
	char key[32];
	uint64_t expected;
	int length;

	for (; sscanf(wanted, " %31[^= ]=%" SCNu64 "%n", key, &expected, &length) == 2; wanted += length)
		if (number(from, key) != expected)
			text_printf(&text, "%s%s is %" PRIu64 " instead of %" PRIu64, text.length ? ", " : "", key,
				    number(from, key), expected);
	ck_assert_str_eq(wanted, "");
}

static uint64_t account_number(const void *from, const char *key)
{
	const struct wire_account *account = from;
	const struct {
		const char *key;
		uint64_t number;
	} all[] = {
		{ "events", account->events },		 { "events_max", account->events_max },
		{ "lingering", account->lingering },	 { "leases", account->leases },
		{ "connections", account->connections }, { "lost", account->lost },
		{ "records", account->records },	 { "bad", account->bad },
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (streq(all[i].key, key))
			return all[i].number;
	ck_abort_msg("an account has no '%s'", key);
	return 0;
}

void expect_account(int socket, const char *format, ...)
{
	struct wire_account account = raw_query(socket);
	char wanted[256], difference[256];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(wanted, sizeof(wanted), format, arguments);
	va_end(arguments);
	numbers_compare(wanted, account_number, &account, difference, sizeof(difference));
	ck_assert_msg(*difference == '\0', "%s", difference);
}

void raw_watch(int socket, bool on)
{
	struct raw_reply reply;

	encode_fixed(raw_packet(KIND_WATCH), KIND_WATCH, &(struct wire_watch){ .on = on });
	raw_ask(socket, KIND_WATCHING, &reply);
}

enum { ANY_FDS = UINT16_MAX };

static char case_name[96] = "the next packet";

void raw_name_case(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(case_name, sizeof(case_name), format, arguments);
	va_end(arguments);
}

void expect_served(int socket)
{
	struct answer answer;

	ck_assert_uint_eq(raw_register(socket, "bystander u32 a", &answer, NULL), 0);
	ck_assert_uint_eq(raw_release(socket, &answer.bit, 1), 1);
}

bool is_disconnected(int socket)
{
	struct pollfd connection = { .fd = socket };

	return poll(&connection, 1, 0) > 0 && connection.revents & POLLHUP;
}

void expect_hang_up(int socket)
{
	struct raw_reply reply;

	do {
		raw_receive(socket, &reply);
		raw_reply_deinit(&reply);
	} while (reply.size > 0);
	ck_assert_msg(reply.size == 0 || reply.size == -ECONNRESET, "%zd", reply.size);
	close(socket);
}

void expect_kind_with_fds(int socket, uint16_t kind, size_t fds)
{
	struct raw_reply reply;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "%s: nothing came: %zd", case_name, reply.size);
	ck_assert_msg(reply.message.kind == kind, "%s: kind %u instead of %u", case_name, reply.message.kind, kind);
	ck_assert(fds == ANY_FDS || reply.fds.count == fds);
	raw_reply_deinit(&reply);
}

void expect_kind(int socket, uint16_t kind)
{
	expect_kind_with_fds(socket, kind, ANY_FDS);
}

void expect_cut_with(int socket, uint32_t refusal, const char *words)
{
	struct string_item sentence;
	struct raw_reply reply;
	uint32_t got = 0;

	raw_receive(socket, &reply);
	ck_assert_msg(reply.size > 0, "%s: no ERROR came: %zd", case_name, reply.size);
	ck_assert_msg(reply.message.kind == KIND_ERROR, "%s: kind %u is no ERROR", case_name, reply.message.kind);
	ck_assert_int_eq(decode_error(reply.message.body, &got, &sentence), 0);
	ck_assert_msg(got == refusal, "%s: refused as %s instead of %s", case_name, refusal_name(got),
		      refusal_name(refusal));
	ck_assert_uint_gt(sentence.length, 0);
	ck_assert_msg(memmem(sentence.text, sentence.length, words, strlen(words)), "%s: '%s' is not in '%.*s'",
		      case_name, words, (int)sentence.length, sentence.text);
	raw_receive(socket, &reply);
	ck_assert_int_eq(reply.size, 0);
}

void expect_cut(int socket, uint32_t refusal)
{
	expect_cut_with(socket, refusal, "");
}

uint32_t raw_rows(int control, uint16_t kind, uint16_t flags, const char *const *strings,
		  void (*on_row)(void *data, struct cursor row), void *data)
{
	struct raw_reply reply;
	bool more = true;
	uint16_t n = 0;

	while (strings && strings[n])
		n++;
	if (strings)
		raw_strings(kind, flags, strings, n, 0);
	else
		raw_packet(kind);
	ck_assert_int_eq(raw_send(control), 0);
	while (more) {
		struct string_item sentence;
		struct cursor rows, row;
		uint32_t refusal;

		raw_receive(control, &reply);
		ck_assert_int_gt(reply.size, 0);
		if (reply.message.kind == KIND_REFUSED) {
			ck_assert_int_eq(decode_error(reply.message.body, &refusal, &sentence), 0);
			return refusal;
		}
		ck_assert_int_eq(reply.message.kind, KIND_ROWS);
		ck_assert_int_eq(decode_rows(reply.message.body, &n, &rows), 0);
		while (rows_next(&rows, &row))
			if (on_row)
				on_row(data, row);
		more = reply.message.flags & WIRE_MORE;
	}
	return 0;
}
