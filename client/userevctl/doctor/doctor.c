/* SPDX-License-Identifier: GPL-2.0-or-later */

/*
 * doctor: why do events not work here? Each cause is checked by itself, in the order in which a program would meet it, and has
 * a sentence of its own. doctor registers an event of its own and writes one record; it changes nothing else.
 */

#include <sys/stat.h>

#include "client/userevctl/doctor/doctor.h"
#include "daemon/policy/policy.h"
#include "kernel/probe.h"

enum {
	CLIENT_TIMEOUT_MS = 5000,
	CONTROL_MUTE_MS = 1000, /* for the control socket, if the clients' socket has timed out already */
};

static bool check_connection(struct doctor *doctor)
{
	const struct obstacle table[] = {
		{ -EACCES, "permission", "this user may not connect",
		  "'namei -l' shows which mode denies access: ask the admin (SocketMode=, SocketGroup=). If the modes allow it, "
		  "a security module denies it: 'journalctl -k'." },
		{ -ENOTSOCK, "socket", "the file is not a socket",
		  "Remove it and start the daemon, or give the right path: --socket or USEREV_SOCKET." },
		{ -ECONNREFUSED, "daemon", "the socket exists, but nobody listens: the daemon has ended",
		  doctor->advice },
		{ -EPROTOTYPE, "daemon", "the socket belongs to another program",
		  "Give the right path: --socket or USEREV_SOCKET." },
		{ -EAGAIN, "daemon", "the daemon does not accept connections, because its queue is full",
		  "See 'journalctl -u userevd'." },
		{ 0, "socket", "there is none", doctor->advice },
	};
	struct stat status;
	int r = control_open(doctor->path, &doctor->client);

	if (r == -ECONNREFUSED && stat(doctor->path, &status) == 0 && !S_ISSOCK(status.st_mode))
		r = -ENOTSOCK;
	if (r < 0) {
		finding_by_error(doctor, table, r, strerror(-r));
		return false;
	}
	finding(doctor, MARK_OK, "socket", NULL, "%s exists", doctor->path);
	finding(doctor, MARK_OK, "permission", NULL, "user %u may connect", geteuid());
	return true;
}

/* HELLO and QUERY without the library, which would hide the cause. 0 or a negative errno. */
static int doctor_greet(struct doctor *doctor)
{
	const struct wire_hello hello = { .understands = WIRE_FEATURE_MUTED };
	struct control *client = doctor->client;
	struct packet packet = control_begin(client, KIND_HELLO);
	struct text text = text_make(doctor->tenant, sizeof(doctor->tenant));
	struct message message = { 0 };
	struct string_item tenant;
	int r;

	client->timeout = CLIENT_TIMEOUT_MS;
	encode_fixed(&packet, KIND_HELLO, &hello);
	r = control_send(client, &packet);
	/* A daemon that has refused the connection already may have closed it; its reason is still to be read. */
	if (r == 0 || r == -EPIPE)
		r = control_receive(client, &message);
	if (r < 0)
		return r;
	if (message.kind != KIND_WELCOME || decode_welcome(message.body, &doctor->welcome, &tenant) != 0)
		return -EBADMSG;
	text_safe(&text, tenant.text, tenant.length);
	doctor->page = fdset_steal(&client->fds, 0);
	r = control_ask(client, KIND_QUERY);
	if (r == 0 || r == -EPIPE)
		r = control_receive(client, &message);
	if (r == 0 && (message.kind != KIND_ACCOUNT || decode_fixed(message.body, KIND_ACCOUNT, &doctor->account) != 0))
		r = -EBADMSG;
	return r;
}

static bool check_daemon(struct doctor *doctor)
{
	char refused[128];
	const struct obstacle table[] = {
		{ -EREMOTEIO, "daemon", refused,
		  "See 'journalctl -u userevd'; 'userevctl events' shows an admin which programs hold connections." },
		{ -ETIMEDOUT, "daemon", "the connection is accepted, but no daemon answers", doctor->advice },
		{ -EPROTO, "daemon", "its file descriptors do not arrive, because a security module withholds them",
		  "Look for a denial in the kernel's log: 'journalctl -k'." },
		{ -EBADMSG, "daemon", "the answer is not in userevd's protocol",
		  "Compare the versions: 'userevctl version'." },
		{ 0, "daemon", "it closed the connection", "The reason is in 'journalctl -u userevd'." },
	};
	int r = doctor_greet(doctor);

	snprintf(refused, sizeof(refused), "it refused the connection (%s)", refusal_name(control_refusal.number));
	if (r == 0)
		finding(doctor, MARK_OK, "daemon", NULL, "it answers; this is tenant %s", doctor->tenant);
	else
		finding_by_error(doctor, table, r, r == -EREMOTEIO ? control_refusal.sentence : strerror(-r));
	if (r == 0 && doctor->welcome.features & WIRE_FEATURE_MUTED)
		finding(doctor, MARK_NOTE, "muted", "An admin ends that with 'userevctl unmute'.",
			"an admin has muted this tenant: all its events are off for every tracer");
	return r == 0;
}

static void check_control(struct doctor *doctor)
{
	const char *path = doctor->ctl->control_socket;
	/* systemd accepts connections also for a daemon that does not run. */
	int r = control_ask_status(path, doctor->greeted ? CONTROL_TIMEOUT_MS : CONTROL_MUTE_MS, &doctor->status);

	if (doctor->status.at)
		row_get_string(doctor->status, "policy", doctor->policy, sizeof(doctor->policy));
	if (r == 0)
		finding(doctor, MARK_OK, "control", NULL, "user %u is an admin of the daemon at %s", geteuid(), path);
	else
		finding(doctor, MARK_NOTE, "control",
			"Programs do not need it, and inside a container there should be none: 'userevctl tail' shows this "
			"tenant's own events if its policy has OwnTracing=yes. For status and enable be root or in the "
			"group of that socket.",
			"user %u reaches no daemon at %s: %s", geteuid(), path, strerror(-r));
}

static void check_backend(struct doctor *doctor)
{
	struct safe_string why = row_string(doctor->status, "why"), note = row_string(doctor->status, "note"),
			   guard = row_string(doctor->status, "guard"), native = row_string(doctor->status, "native");
	bool embedded = doctor->welcome.backend == BACKEND_EMBEDDED;

	finding(doctor, embedded ? MARK_NOTE : MARK_OK, "backend", why.text, "%s: %s",
		backend_name(doctor->welcome.backend),
		embedded
			? "the daemon itself records, and userevctl shows the records; ftrace and perf do not see these events"
			: "events are the kernel's, for ftrace and perf");
	if (!embedded && *guard.text)
		finding(doctor, strncmp(guard.text, "off", 3) == 0 ? MARK_NOTE : MARK_OK, "guard", note.text,
			"%s (keeps programs from registering events by themselves, with the data files that they get)",
			guard.text);
	if (*native.text)
		finding(doctor, strncmp(native.text, "off", 3) == 0 ? MARK_FAIL : MARK_OK, "native", "",
			"%s (Native= in the policy: programs register by themselves on /run/userevd/native/user_events_data)",
			native.text);
}

static void check_machine(struct doctor *doctor)
{
	bool used = doctor->greeted && doctor->welcome.backend != BACKEND_EMBEDDED;
	struct probe probe;

	probe_machine(NULL, &probe);
	if (probe.tracefs_mounted)
		finding(doctor, MARK_OK, "tracefs", NULL, "mounted at %s, which user %u %s", probe.tracefs, geteuid(),
			probe.may_look ? "may search" : "may not search");
	else
		finding(doctor, MARK_NOTE, "tracefs",
			"Only the daemon and tracers need it: 'mount -t tracefs tracefs /sys/kernel/tracing' on the host.",
			"not mounted here");
	/* From inside a container the daemon may see more than doctor. */
	if (used || probe.has_user_events)
		finding(doctor, MARK_OK, "kernel", NULL, "it has user_events (%s)",
			backend_name(used ? doctor->welcome.backend : probe.kind));
	else
		finding(doctor, MARK_NOTE, "kernel",
			"The embedded backend works without user_events; ftrace and perf need a kernel with CONFIG_USER_EVENTS=y.",
			"%s", probe.sentence);
}

static int doctor_run(struct ctl *ctl)
{
	_cleanup_(freep) struct doctor *doctor = must(calloc(1, sizeof(*doctor)));
	const char *policy = POLICY_DIRECTORIES;

	options_read(ctl, &policy, 0, 0);
	string_copy(doctor->policy, sizeof(doctor->policy), policy);
	doctor->ctl = ctl;
	doctor->path = clients_socket_path(ctl);
	doctor->page = -1;
	findings_begin(doctor);
	doctor_ask_systemd(doctor);
	doctor->greeted = check_connection(doctor) && check_daemon(doctor);
	check_control(doctor);
	doctor_check_user(doctor);
	doctor_check_policy_files(doctor);
	if (doctor->greeted)
		check_backend(doctor);
	check_machine(doctor);
	doctor_check_native(doctor);
	if (doctor->greeted) {
		doctor_check_registration(doctor);
		doctor_check_quota(doctor);
		doctor_check_page(doctor);
		doctor_check_record(doctor);
		doctor_check_losses(doctor);
	} else {
		finding(doctor, MARK_SKIP, "policy, quota, page, record", NULL,
			"not tried: no daemon accepts this program as a client");
	}
	findings_end(doctor);
	if (doctor->registered)
		userev_release(doctor->userev, &doctor->event);
	userev_close(doctor->userev);
	fd_close(doctor->page);
	control_free(doctor->client);
	free((void *)doctor->status.at);
	return doctor->failed ? EXIT_REFUSED : EXIT_DONE;
}

COMMAND(doctor, "", "",
	OPTIONS({ .name = "policy",
		  .argument = "DIR[:DIR...]",
		  .kind = OPTION_TEXT,
		  .help = "check these files if no daemon names its own" }),
	"Checks each cause by itself: the socket, permission, the daemon and its units,\n"
	"errors in the policy files, its backend, tracefs and the kernel, policy, quota,\n"
	"the status page, one record written and read back. Exit status 0 if events work\n"
	"from here, 1 if not. Put the output into a bug report.");
