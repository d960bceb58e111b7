/* SPDX-License-Identifier: GPL-2.0-or-later */

#include "client/userevctl/tracing/own.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "client/userevctl/tracing/tracing.h"

enum {
	RECORD_MAX = sizeof(struct wire_own_record) + WIRE_DESCRIPTION_MAX + WIRE_PAYLOAD_MAX,
	READ_AT_ONCE = 512,
	AGAIN_MS = 200, /* between looks for another daemon */
	AGAIN_MOST_MS = 30000,
};

struct own_tail {
	struct control *control; /* NULL: the daemon has gone */
	int records;		 /* -1: likewise */
	uint64_t gone;		 /* ns: when that was seen */
	char tenant[WIRE_TENANT_MAX + 1];
	pid_t pid; /* of the last record, for whose process this is the name: */
	char comm[16];
	_Alignas(struct wire_own_record) uint8_t buffer[RECORD_MAX];
};

bool own_tail_is_wanted(const struct ctl *ctl, bool asked)
{
	_cleanup_(control_freep) struct control *control = NULL;
	int r = asked ? 0 : control_open(ctl->control_socket, &control);

	/* Root of a machine whose control socket is off uses tracefs as ever. */
	return asked ||
	       ((control_nobody(r) || r == -EACCES || r == -EPERM) &&
		access("/sys/kernel/tracing/instances", W_OK) < 0 && clients_socket_listens(clients_socket_path(ctl)));
}

static void own_tail_drop(struct own_tail *own)
{
	own->control = control_free(own->control);
	own->records = fd_close(own->records);
	own->gone = ctl_now_ns();
}

static void own_tail_free(struct tracing *tracing)
{
	own_tail_drop(tracing->own);
	free(tracing->own);
	fd_close(tracing->fd);
}

static int own_receive(struct own_tail *own, uint16_t kind, struct message *ret)
{
	int r = control_receive(own->control, ret);

	return r < 0 ? r : ret->kind == kind && own->control->fds.count == 1 ? 0 : -EBADMSG;
}

static int own_greet(struct own_tail *own)
{
	struct packet packet = control_begin(own->control, KIND_HELLO);
	struct wire_welcome welcome;
	struct string_item tenant;
	struct message message;
	int r;

	encode_fixed(&packet, KIND_HELLO, &(struct wire_hello){ .understands = 0 });
	r = control_send(own->control, &packet);
	if (r == 0)
		r = own_receive(own, KIND_WELCOME, &message);
	if (r == 0 && decode_welcome(message.body, &welcome, &tenant) != 0)
		r = -EBADMSG;
	if (r == 0)
		string_copy(own->tenant, MIN(tenant.length + 1, sizeof(own->tenant)), tenant.text);
	return r;
}

static int own_ask(struct tracing *tracing)
{
	struct own_tail *own = tracing->own;
	struct packet packet = control_begin(own->control, KIND_TRACE_OWN);
	const size_t mark = encode_list(&packet, 0);
	struct message message;
	int r;

	for (int i = 0; i < tracing->n_patterns; i++)
		encode_string(&packet, 0, tracing->patterns[i], strlen(tracing->patterns[i]));
	encode_count(&packet, mark, (uint16_t)MIN(tracing->n_patterns, UINT16_MAX));
	r = control_send(own->control, &packet);
	if (r == 0)
		r = own_receive(own, KIND_TRACING_OWN, &message);
	if (r == 0) {
		own->records = own->control->fds.fd[0];
		fdset_steal(&own->control->fds, 0);
	}
	return r;
}

static int own_connect(struct tracing *tracing)
{
	struct epoll_event readable = { .events = EPOLLIN };
	struct own_tail *own = tracing->own;
	int r = control_open(clients_socket_path(tracing->ctl), &own->control);

	if (r == 0)
		r = own_greet(own);
	if (r == 0)
		r = own_ask(tracing);
	if (r == 0 && (epoll_ctl(tracing->fd, EPOLL_CTL_ADD, own->control->fd, &readable) < 0 ||
		       epoll_ctl(tracing->fd, EPOLL_CTL_ADD, own->records, &readable) < 0))
		r = -errno;
	if (r < 0)
		own_tail_drop(own);
	else
		own->control->timeout = 0;
	return r;
}

static int own_explain(struct tracing *tracing, int error)
{
	if (error == -EREMOTEIO && control_refusal.number == REFUSAL_UNKNOWN_KIND) {
		ctl_error("the daemon is older than this userevctl, and lets no tenant trace itself.");
		return EXIT_REFUSED;
	}
	return control_explain(clients_socket_path(tracing->ctl), error);
}

static int own_tail_begin(struct tracing *tracing)
{
	const int r = tracing->fd < 0 ? -errno : own_connect(tracing);

	return r < 0 ? own_explain(tracing, r) : EXIT_DONE;
}

static void own_note_writer(struct own_tail *own, const struct ucred *writer)
{
	char path[64];
	_cleanup_(fd_closep) int fd = -1;
	ssize_t n;

	if (writer->pid == own->pid)
		return;
	own->pid = writer->pid;
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)writer->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, own->comm, sizeof(own->comm));
	/* A newline ends it. */
	own->comm[n > 0 ? n - 1 : 0] = '\0';
}

/* In canonical form, as the daemon's tracers have it; NULL: it describes no event. Most records are of the same event. */
static const struct description *own_description(const char *text, size_t length)
{
	static struct description description; /* large */
	static char parsed[WIRE_DESCRIPTION_MAX + 1];
	char why[WIRE_SENTENCE_MAX];
	struct text reason = text_make(why, sizeof(why));

	if (strlen(parsed) == length && memcmp(parsed, text, length) == 0)
		return &description;
	*parsed = '\0';
	if (description_parse(text, length, &description, &reason) != 0)
		return NULL;
	string_copy(parsed, length + 1, text);
	return &description;
}

/* A record may have any form: each program of this tenant can write one. */
static void own_put(struct own_tail *own, size_t size, const struct ucred *writer, struct record_view *view)
{
	const struct wire_own_record *header = (const void *)own->buffer;
	const struct description *description;
	char name[WIRE_DESCRIPTION_MAX + 1];
	const uint8_t *text = own->buffer + sizeof(*header);

	if (size < sizeof(*header) || header->description_length == 0 ||
	    header->description_length > WIRE_DESCRIPTION_MAX || header->description_length > size - sizeof(*header))
		return;
	if (header->lost > 0)
		record_view_missed(view, header->lost);
	description = own_description((const char *)text, header->description_length);
	if (!description)
		return;
	string_copy(name, description->name_length + 1, description->canonical);
	own_note_writer(own, writer);
	record_view_put(view, &(struct taken_record){
				      .time = header->time,
				      .pid = (uint64_t)writer->pid,
				      .uid = writer->uid,
				      .comm = own->comm,
				      .tenant = own->tenant,
				      .name = name,
				      .description = description->canonical,
				      .payload = text + header->description_length,
				      .size = size - sizeof(*header) - header->description_length,
			      });
}

/* The next record. False: there is none now. */
static bool own_take(struct own_tail *own, struct record_view *view)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = { own->buffer, sizeof(own->buffer) };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
	};
	const ssize_t size = recvmsg(own->records, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	struct ucred writer = { .uid = (uid_t)-1 };

	if (size <= 0)
		return false;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS)
		memcpy(&writer, CMSG_DATA(header), sizeof(writer));
	if (!(message.msg_flags & MSG_TRUNC))
		own_put(own, (size_t)size, &writer, view);
	return true;
}

/* Reads what there is, but not for ever. Whether there may be more. */
static bool own_drain(struct own_tail *own, struct record_view *view)
{
	own->pid = 0;
	for (unsigned n = 0; own->records >= 0 && !record_view_done(view); n++)
		if (n == READ_AT_ONCE || !own_take(own, view))
			return n == READ_AT_ONCE;
	return false;
}

/* The daemon has gone, or has ended the trace: looks for another daemon. */
static int own_go_on(struct tracing *tracing)
{
	struct own_tail *own = tracing->own;
	int r;

	if (ctl_now_ns() < tracing->due)
		return EXIT_DONE;
	r = own_connect(tracing);
	tracing->due = r < 0 ? ctl_now_ns() + AGAIN_MS * NS_PER_MS : 0;
	if (r == 0) {
		ctl_note("userevctl: a daemon is there again. Records of the meantime may be missing.");
		return EXIT_DONE;
	}
	return r == -EREMOTEIO || ctl_now_ns() - own->gone > AGAIN_MOST_MS * NS_PER_MS ? own_explain(tracing, r)
										       : EXIT_DONE;
}

static int own_tail_read(struct tracing *tracing, struct record_view *view)
{
	struct own_tail *own = tracing->own;
	struct message message;
	int r;

	if (!own->control)
		return own_go_on(tracing);
	tracing->busy = own_drain(own, view);
	if (view->output_error == 0)
		view->output_error = record_view_flush(view);
	if (view->output_error < 0)
		return ctl_output_failed(view->output_error);
	r = tracing->busy ? -ETIMEDOUT : control_receive(own->control, &message);
	if (r == -ETIMEDOUT)
		return EXIT_DONE;
	own_tail_drop(own);
	tracing->due = ctl_now_ns();
	return r == -EREMOTEIO ? own_explain(tracing, r) : EXIT_DONE;
}

static int own_tail_end(struct tracing *tracing, struct record_view *view)
{
	while (own_drain(tracing->own, view))
		;
	return EXIT_DONE;
}

int own_tail_open(struct ctl *ctl, const char *command, const char *option, struct tracing **ret)
{
	static const struct tail_calls calls = { own_tail_begin, own_tail_read, own_tail_end, own_tail_free };
	struct tracing *tracing;

	if (option) {
		ctl_error("%s: %s is for the machine's tracer, and this user or container sees only its own events.",
			  command, option);
		return EXIT_USAGE;
	}
	tracing = must(calloc(1, sizeof(*tracing)));
	tracing->ctl = ctl;
	tracing->patterns = ctl->argv;
	tracing->n_patterns = ctl->argc;
	tracing->own = must(calloc(1, sizeof(*tracing->own)));
	tracing->own->records = -1;
	tracing->own_calls = &calls;
	tracing->fd = epoll_create1(EPOLL_CLOEXEC);
	*ret = tracing;
	return EXIT_DONE;
}
