/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Clients and admins of the daemon in this process (world.h). */

#include "tests/unit/world.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/identity/peer.h"
#include "daemon/registry/tenant.h"
#include "protocol/row.h"
#include "protocol/transport.h"

static struct end end_connected_as(struct world *world, enum client_socket socket, const struct peer *peer,
				   struct tenant *tenant)
{
	struct end end = { .world = world, .page = -1, .stream = -1 };
	int pair[2], on = 1;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
	ck_assert_int_eq(setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	ck_assert_int_eq(client_new(&world->daemon->connections, pair[0], socket, peer, tenant), 0);
	end.client = TAILQ_LAST(&world->daemon->connections.clients, client_queue);
	end.socket = pair[1];
	return end;
}

/* Packets are this process's own: to the daemon the client is a set-user-ID program of ours. */
struct end end_of_user(struct world *world, pid_t pid, uid_t uid)
{
	struct cgroup cgroup = { .path = (char[]){ "/world" } };
	const struct peer peer = { .pid = pid, .uid = uid, .comm = "program", .cgroup = &cgroup };
	struct tenant *tenant;
	struct end end;

	ck_assert_int_eq(tenant_of_peer(&world->daemon->registry, &peer, &tenant), 0);
	end = end_connected_as(world, SOCKET_CLIENTS, &peer, tenant);
	end.client->holder.known.real_uid = getuid();
	return end;
}

struct end end_new(struct world *world, pid_t pid)
{
	return end_of_user(world, pid, getuid());
}

void end_hang_up(struct end *end)
{
	end->socket = fd_close(end->socket);
	turn(end->world);
}

void end_deinit(struct end *end)
{
	fdset_deinit(&end->heard.fds);
	end->page = fd_close(end->page);
	end->stream = fd_close(end->stream);
	end_hang_up(end);
}

static uint8_t said[WIRE_PACKET_MAX];

struct packet begin(struct end *end, uint16_t kind)
{
	struct packet packet = packet_make(said, sizeof(said));

	encode_begin(&packet, kind, ++end->serial, 0, NULL, 0);
	return packet;
}

static void say_packet(struct end *end, struct packet *packet)
{
	int r;

	encode_end(packet);
	ck_assert(!packet->failed);
	r = transport_send(end->socket, packet->data, packet->size, NULL, 0, 0);
	ck_assert(r == 0 || (r == -EPIPE && end->may_be_cut));
}

void say(struct end *end, struct packet *packet)
{
	say_packet(end, packet);
	turn(end->world);
}

void say_at_once(struct end *end, uint16_t kind)
{
	struct packet packet = begin(end, kind);

	say_packet(end, &packet);
}

void say_hello(struct end *end)
{
	struct packet packet = begin(end, KIND_HELLO);

	encode_fixed(&packet, KIND_HELLO, &(struct wire_hello){ .understands = WIRE_FEATURE_WATCH });
	say(end, &packet);
}

void say_register(struct end *end, uint16_t flags, const char *const *descriptions, size_t n)
{
	struct packet packet = begin(end, KIND_REGISTER);
	size_t mark = encode_list(&packet, 0);

	for (size_t i = 0; i < n; i++)
		encode_string(&packet, flags, descriptions[i], strlen(descriptions[i]));
	encode_count(&packet, mark, (uint16_t)n);
	say(end, &packet);
}

void say_release(struct end *end, uint32_t bit)
{
	struct packet packet = begin(end, KIND_RELEASE);
	size_t mark = encode_list(&packet, 0);

	encode_release_bit(&packet, bit);
	encode_count(&packet, mark, 1);
	say(end, &packet);
}

void say_simply(struct end *end, uint16_t kind)
{
	struct packet packet = begin(end, kind);

	if (kind == KIND_WATCH)
		encode_fixed(&packet, KIND_WATCH, &(struct wire_watch){ .on = 1 });
	say(end, &packet);
}

bool hear(struct end *end)
{
	struct heard *heard = &end->heard;

	fdset_deinit(&heard->fds);
	turn(end->world);
	heard->size =
		transport_receive_fds(end->socket, heard->packet, sizeof(heard->packet), &heard->fds, MSG_DONTWAIT);
	if (heard->size <= 0)
		return false;
	ck_assert_int_eq(decode_message(heard->packet, (size_t)heard->size, &heard->message), 0);
	return true;
}

bool has_an_answer(const struct end *end)
{
	struct pollfd ask = { .fd = end->socket, .events = POLLIN };

	return poll(&ask, 1, 0) > 0;
}

void expect_silence(struct end *end)
{
	ck_assert(!hear(end));
	ck_assert_int_eq(end->heard.size, -EAGAIN);
}

const struct message *expect(struct end *end, uint16_t kind)
{
	ck_assert_msg(hear(end), "nothing came, but %u was expected", kind);
	ck_assert_uint_eq(end->heard.message.kind, kind);
	return &end->heard.message;
}

void expect_welcome(struct end *end)
{
	expect(end, KIND_WELCOME);
	ck_assert_uint_eq(end->heard.fds.count, 1);
	fd_close(end->page);
	end->page = fdset_steal(&end->heard.fds, 0);
}

struct string_item expect_error(struct end *end, uint16_t kind, uint32_t refusal)
{
	struct string_item sentence;
	uint32_t said_refusal;

	ck_assert_int_eq(decode_error(expect(end, kind)->body, &said_refusal, &sentence), 0);
	ck_assert_str_eq(refusal_name(said_refusal), refusal_name(refusal));
	return sentence;
}

void expect_disconnected(struct end *end)
{
	ck_assert(!hear(end));
	ck_assert_int_eq(end->heard.size, 0);
}

void expect_cut(struct end *end, uint32_t refusal)
{
	expect_error(end, KIND_ERROR, refusal);
	expect_disconnected(end);
}

void expect_answers(struct end *end, struct answer *ret, size_t n)
{
	struct strings answers;

	ck_assert_int_eq(decode_registered(expect(end, KIND_REGISTERED)->body, &answers), 0);
	ck_assert_uint_eq(answers.count, n);
	for (size_t i = 0; i < n; i++)
		ck_assert(answers_next(&answers, &ret[i]));
	ck_assert_uint_eq(end->heard.fds.count, end->heard.message.streams);
	if (end->heard.fds.count > 0) {
		fd_close(end->stream);
		end->stream = fdset_steal(&end->heard.fds, 0);
	}
}

struct answer expect_granted(struct end *end)
{
	struct answer answer;

	expect_answers(end, &answer, 1);
	ck_assert_msg(answer.refusal == REFUSAL_NONE, "refused (%s): %.*s", refusal_name(answer.refusal),
		      (int)answer.length, answer.text);
	end->bit = answer.bit;
	return answer;
}

void expect_each(struct end *end, uint32_t refusal, size_t n)
{
	static struct answer answers[WIRE_BATCH_MAX];

	expect_answers(end, answers, n);
	for (size_t i = 0; i < n; i++) {
		ck_assert_str_eq(refusal_name(answers[i].refusal), refusal_name(refusal));
		ck_assert(refusal == REFUSAL_NONE || answers[i].length > 0);
	}
}

void expect_refused(struct end *end, uint32_t refusal)
{
	expect_each(end, refusal, 1);
}

void be_refused(struct end *end, const char *description, uint32_t refusal)
{
	REGISTER(end, description);
	expect_refused(end, refusal);
}

void expect_released(struct end *end, unsigned n)
{
	struct wire_released released;

	ck_assert_int_eq(decode_fixed(expect(end, KIND_RELEASED)->body, KIND_RELEASED, &released), 0);
	ck_assert_uint_eq(released.released, n);
	ck_assert_uint_eq(released.not_held, 1 - n);
}

struct wire_account query(struct end *end)
{
	struct wire_account account;

	say_simply(end, KIND_QUERY);
	ck_assert_int_eq(decode_fixed(expect(end, KIND_ACCOUNT)->body, KIND_ACCOUNT, &account), 0);
	return account;
}

void release(struct end *end, uint32_t bit)
{
	say_release(end, bit);
	expect_released(end, 1);
}

void expect_file(const struct end *end)
{
	ck_assert_int_ge(end->stream, 0);
}

void expect_no_file(const struct end *end)
{
	ck_assert_int_eq(end->stream, -1);
}

void expect_account(struct end *end, unsigned events, unsigned leases, unsigned lingering)
{
	const struct wire_account account = query(end);

	ck_assert_uint_eq(account.events, events);
	ck_assert_uint_eq(account.leases, leases);
	ck_assert_uint_eq(account.lingering, lingering);
}

struct answer get_with(struct end *end, uint16_t flags, const char *description)
{
	REGISTER_WITH(end, flags, description);
	return expect_granted(end);
}

struct answer get(struct end *end, const char *description)
{
	return get_with(end, 0, description);
}

struct end end_welcomed(struct world *world, pid_t pid)
{
	struct end end = end_new(world, pid);

	say_hello(&end);
	expect_welcome(&end);
	/* As if that were DEFER_INTERVAL ago. */
	if (!world->clients_stay_young)
		grow_up(world);
	return end;
}

void stay_young(struct world *world)
{
	world->clients_stay_young = true;
	world->daemon->connections.w_deferred.repeat = 3600.;
}

void grow_up(struct world *world)
{
	ev_invoke(world->daemon->loop, &world->daemon->connections.w_deferred, EV_TIMER);
}

struct ends ends_welcomed(struct world *world, unsigned n)
{
	struct ends ends = { .n = n };

	ck_assert_uint_le(n, ENDS_MAX);
	for (unsigned i = 0; i < n; i++)
		ends.end[i] = end_welcomed(world, 1);
	return ends;
}

void ends_deinit(struct ends *ends)
{
	while (ends->n > 0)
		end_deinit(&ends->end[--ends->n]);
}

void break_connection(struct end *end)
{
	client_close(end->client);
	turn(end->world);
}

void expect_record(struct end *end, const struct answer *answer)
{
	tracer_switch(script.kernel->tracer, "event", true);
	write_record(end, answer->index);
	tracer_switch(script.kernel->tracer, "event", false);
	ck_assert_uint_eq(query(end).records, 1);
}

void write_record(const struct end *end, uint32_t index)
{
	const uint32_t record[] = { index, 7 };

	ck_assert_int_eq(write(end->stream, record, sizeof(record)), sizeof(record));
}

bool is_same_file(int one, int other)
{
	struct stat first, second;

	ck_assert_int_eq(fstat(one, &first), 0);
	ck_assert_int_eq(fstat(other, &second), 0);
	return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

struct tenant *tenant_of(const struct end *end)
{
	return end->client->holder.tenant;
}

/* --- an admin --- */

struct end admin_new(struct world *world)
{
	const struct peer peer = { .pid = 99, .uid = getuid() };

	return end_connected_as(world, SOCKET_CONTROL, &peer, NULL);
}

struct cursor ask_for_rows(struct end *admin, uint16_t kind, uint16_t n)
{
	struct cursor rows;
	uint16_t count;

	say_simply(admin, kind);
	ck_assert_int_eq(decode_rows(expect(admin, KIND_ROWS)->body, &count, &rows), 0);
	ck_assert_uint_eq(count, n);
	return rows;
}

struct cursor next_row(struct cursor *rows)
{
	struct cursor row;

	ck_assert(rows_next(rows, &row));
	return row;
}

void expect_string(struct cursor row, const char *key, const char *value)
{
	char found[256];

	row_get_string(row, key, found, sizeof(found));
	ck_assert_str_eq(found, value);
}

struct cursor holders_of(struct cursor row)
{
	struct row_field field;

	ck_assert(row_find(row, "holders", &field));
	ck_assert_int_eq(field.type, ROW_ROWS);
	return cursor_make(field.value, field.length);
}

unsigned count_items(struct cursor rows)
{
	struct cursor item;
	unsigned n = 0;

	while (row_next_item(&rows, &item) > 0)
		n++;
	return n;
}
