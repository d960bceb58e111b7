/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Clients of the broker: packets by hand, which wait as long as the answer takes, and libuserev. */

#include <sys/un.h>

#include "protocol/transport.h"
#include "tests/bench/bench.h"

static uint8_t *buffer(void)
{
	static uint8_t bytes[WIRE_PACKET_MAX];

	return bytes;
}

static uint32_t serial;

static struct packet begin(uint16_t kind)
{
	struct packet packet = packet_make(buffer(), WIRE_PACKET_MAX);

	encode_begin(&packet, kind, ++serial, 0, NULL, 0);
	return packet;
}

static struct message receive(int fd, struct fdset *ret)
{
	struct message message;
	ssize_t size = transport_receive_fds(fd, buffer(), WIRE_PACKET_MAX, ret, 0);

	if (size <= 0 || decode_message(buffer(), (size_t)size, &message) != 0 || message.kind == KIND_ERROR)
		fail("from the daemon");
	return message;
}

/* A daemon that was restarted may repeat the answer to the request before. */
static struct message exchange(int fd, struct packet *packet, struct fdset *ret)
{
	struct message message;

	encode_end(packet);
	if (transport_send(fd, packet->data, packet->size, NULL, 0, 0) < 0)
		fail("to the daemon");
	for (;;) {
		message = receive(fd, ret);
		if (message.serial == serial)
			return message;
		fdset_deinit(ret);
	}
}

int dial(const char *path)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t length;

	transport_address(path, &address, &length);
	if (connect(fd, (struct sockaddr *)&address, length) < 0)
		fail("connect");
	return fd;
}

void greet(int socket, int *ret_page)
{
	struct packet packet = begin(KIND_HELLO);
	struct fdset fds = { 0 };

	encode_fixed(&packet, KIND_HELLO, &(struct wire_hello){ 0 });
	exchange(socket, &packet, &fds);
	if (ret_page)
		*ret_page = fdset_steal(&fds, 0);
	fdset_deinit(&fds);
}

int connect_to_broker(const struct broker *broker)
{
	int fd = dial(broker->socket);

	greet(fd, NULL);
	return fd;
}

static uint32_t first_index(struct cursor body, unsigned n)
{
	struct strings answers;
	struct answer answer;
	uint32_t first = 0;

	if (decode_registered(body, &answers) != 0 || answers.count != n)
		fail("REGISTERED");
	for (unsigned i = 0; answers_next(&answers, &answer); i++) {
		if (answer.refusal) {
			fprintf(stderr, "refused: %.*s\n", (int)answer.length, answer.text);
			exit(EXIT_FAILURE);
		}
		if (i == 0)
			first = answer.index;
	}
	return first;
}

static uint32_t ask_batch(int socket, char (*names)[NAME_BYTES], unsigned n, struct fdset *ret)
{
	struct packet packet = begin(KIND_REGISTER);
	size_t mark = encode_list(&packet, 0);

	for (unsigned i = 0; i < n; i++)
		encode_string(&packet, 0, names[i], strlen(names[i]));
	encode_count(&packet, mark, (uint16_t)n);
	return first_index(exchange(socket, &packet, ret).body, n);
}

void ask_broker(int socket, char (*names)[NAME_BYTES], unsigned n, int *ret_stream, uint32_t *ret_index)
{
	for (unsigned done = 0; done < n; done += WIRE_BATCH_MAX) {
		unsigned batch = n - done < WIRE_BATCH_MAX ? n - done : WIRE_BATCH_MAX;
		struct fdset fds = { 0 };
		uint32_t index = ask_batch(socket, names + done, batch, &fds);

		if (ret_stream && fds.count > 0)
			*ret_stream = fdset_steal(&fds, 0);
		if (ret_index && done == 0)
			*ret_index = index;
		fdset_deinit(&fds);
	}
}

struct wire_account query_broker(int socket)
{
	struct packet packet = begin(KIND_QUERY);
	struct wire_account account;
	struct fdset fds = { 0 };

	if (decode_fixed(exchange(socket, &packet, &fds).body, KIND_ACCOUNT, &account) != 0)
		fail("ACCOUNT");
	fdset_deinit(&fds);
	return account;
}

void send_query(int socket)
{
	struct packet packet = begin(KIND_QUERY);

	encode_end(&packet);
	if (transport_send(socket, packet.data, packet.size, NULL, 0, 0) < 0)
		fail("to the daemon");
}

/* All requests wait at the same time. */
void query_by_all(const int *sockets, unsigned n)
{
	uint32_t before = serial;

	for (unsigned i = 0; i < n; i++)
		send_query(sockets[i]);
	for (unsigned i = 0; i < n; i++) {
		struct fdset fds = { 0 };

		while (receive(sockets[i], &fds).serial != before + 1 + i)
			fdset_deinit(&fds);
		fdset_deinit(&fds);
	}
}

/* --- through libuserev --- */

struct userev *broker_open(const struct broker *broker)
{
	struct userev *userev = userev_open(broker->socket, 0);

	if (!userev)
		fail("userev_open");
	return userev;
}

static _Noreturn void complain(const struct userev_registration *asked, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (asked[i].result) {
			fprintf(stderr, "%s: %s\n", asked[i].description, asked[i].why);
			break;
		}
	exit(EXIT_FAILURE);
}

void broker_register(struct userev *userev, struct userev_event *events, char (*names)[NAME_BYTES], unsigned n)
{
	struct userev_registration *asked = calloc(n, sizeof(*asked));

	if (!asked)
		fail("calloc");
	for (unsigned i = 0; i < n; i++)
		asked[i] = (struct userev_registration){ .event = &events[i], .description = names[i] };
	if (userev_register_all(userev, asked, n) != 0)
		complain(asked, n);
	/* It returns after two seconds; 10,000 events take longer in a guest. */
	while (!userev_event_name(&events[n - 1]))
		if (userev_poll(userev, -1) < 0)
			usleep(1000);
	free(asked);
}
